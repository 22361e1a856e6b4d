"""An event leaves at commit, at least once, under an id and a body that never change, and only to its own address."""

from __future__ import annotations

import httpx
import pytest
from tests.adapters.webhook.service import SECRET
from tests.adapters.webhook.subject import publisher

from settlemark import InDoubt, PartialCommit, PayloadError, Refused, ScopeError, Settlement
from settlemark.hosting import declaration_of
from settlemark.testing import die, in_child
from settlemark_adapters.http import HttpRefused, HttpUnanswered, Patience
from settlemark_adapters.webhook import Webhook, verify

EVENT = {"topic": "order.made", "payload": {"order": 7}}


@pytest.fixture
def opened(clock, passes):
    """The adapter in the clock's time."""

    def open_(settlement, sink, **options):
        return publisher(settlement, sink, **{"clock": clock, "sleep": passes} | options)

    return open_


def publish(settlement, events, name="t"):
    with settlement.transaction(name) as tx:
        return tx.call(events.publish, **EVENT)


# ---- at commit


def test_its_tool_is_held_and_keyed(sink):
    (publish_event,) = publisher(None, sink).tools()
    declared = declaration_of(publish_event)
    assert (declared.tool, declared.kind.value, declared.keyed) == ("publish_event", "irreversible", True)
    assert [scope.text for scope in declared.scopes(EVENT)] == [f"webhook:/{sink.host}/order.made"]
    assert publish_event.__doc__.startswith("Publish that something happened")


def test_it_leaves_when_its_transaction_commits_and_not_before(settlement, sink, opened):
    events = opened(settlement, sink)
    with settlement.transaction("t") as tx:
        queued = tx.call(events.publish, **EVENT)
        assert sink.log() == []
    assert sink.handled() == [EVENT]
    assert queued.result() == {"id": events.event_id("t#1/0"), "status": 204}


def test_without_a_commit_it_never_leaves(settlement, sink, opened):
    events = opened(settlement, sink)
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(events.publish, **EVENT)
        raise RuntimeError
    assert sink.log() == []


def test_what_arrives_is_signed_and_names_the_decision_to_nobody(settlement, sink, opened, clock):
    events = opened(settlement, sink)
    publish(settlement, events)
    (entry,) = sink.log()
    told = verify(entry["headers"], entry["body"].encode(), SECRET, now=clock())
    assert (told.id, told.topic, told.payload, told.at) == (events.event_id("t#1/0"), *EVENT.values(), clock())
    assert told.id.startswith("msg_")
    assert "t#1" not in str(entry["headers"])
    assert entry["body"] == '{"data":{"order":7},"type":"order.made"}'


def test_while_a_secret_is_replaced_both_sign(settlement, sink, opened):
    new = "whsec_" + "bmV3IHNlY3JldCB0aGF0IGJvdGggZW5kcyBrbm93"
    publish(settlement, opened(settlement, sink, secret=[new, SECRET]))
    assert sink.handled() == [EVENT]
    assert len(sink.log()[0]["headers"]["webhook-signature"].split()) == 2


def test_events_of_one_topic_arrive_in_their_order(settlement, sink, opened):
    events = opened(settlement, sink)
    with settlement.transaction("t") as tx:
        for number in range(5):
            tx.call(events.publish, topic="order.made", payload={"order": number})
    assert [event["payload"]["order"] for event in sink.handled()] == [0, 1, 2, 3, 4]


# ---- at least once, under one id


@pytest.mark.parametrize(
    "fault",
    [
        {"do": "cut", "acts": True},
        {"do": "cut"},
        {"do": "status", "status": 500, "acts": True},
        {"do": "status", "status": 503, "headers": {"Retry-After": "10"}},
        {"do": "status", "status": 429},
        {"do": "twice", "acts": True},
    ],
)
def test_whatever_happens_to_a_delivery_it_arrives_and_is_handled_once(settlement, sink, opened, fault):
    events = opened(settlement, sink)
    sink.fail("POST", **fault)
    publish(settlement, events)
    assert sink.handled() == [EVENT]
    assert {event_id for _, event_id in sink.deliveries()} == {events.event_id("t#1/0")}
    assert (settlement.in_doubt(), settlement.residue()) == ([], [])


def test_each_delivery_has_the_same_body_and_a_signature_of_its_own_time(settlement, sink, opened):
    events = opened(settlement, sink)
    sink.fail("POST", "cut", acts=True)
    publish(settlement, events)
    first, second = sink.log()
    assert (first["did"], second["did"], first["body"] == second["body"]) == ("handled", "known", True)


def test_different_events_have_different_ids(sink):
    one, other = publisher(None, sink), publisher(None, sink, source="shop two")
    assert len({one.event_id("a"), one.event_id("b"), other.event_id("a")}) == 3


def test_a_sink_that_does_not_answer_leaves_it_in_doubt_and_named(settlement, sink, opened):
    sink.fail("POST", "cut", acts=True, times=-1)
    with pytest.raises(InDoubt, match="publish_event on webhook:/.*order.made is unknown"):
        publish(settlement, opened(settlement, sink))
    assert [doubt.tool for doubt in settlement.in_doubt()] == ["publish_event"]
    assert sink.handled() == [EVENT]


def test_a_sink_that_refuses_undoes_the_rest_and_is_told(settlement, sink, opened):
    sink.fail("POST", "status", status=410, times=-1)
    with pytest.raises(Refused, match="410"):
        publish(settlement, opened(settlement, sink))
    assert (sink.handled(), settlement.in_doubt(), settlement.residue()) == ([], [], [])


def test_one_that_is_refused_behind_another_is_named(settlement, sink, opened):
    events = opened(settlement, sink)
    with pytest.raises(PartialCommit), settlement.transaction("t") as tx:
        tx.call(events.publish, **EVENT)
        tx.call(opened(settlement, sink, name="bad", secret="whsec_" + "c" * 40).publish, **EVENT)
    assert sink.handled() == [EVENT]
    assert [left.tool for left in settlement.residue()] == ["bad_publish_event"]


@pytest.mark.parametrize("when", ["before", "behind"])
def test_the_next_process_delivers_it_under_the_same_id(open_here, sink, clock, opened, url, when):
    def play(_tell):
        with Settlement(url, **clock.options()) as settlement:
            events = opened(settlement, sink)
            once = events._client._once

            def dying(*args):
                if when == "behind":
                    once(*args)
                die()

            events._client._once = dying
            publish(settlement, events)

    assert in_child(play).killed
    settlement = open_here(url)
    events = opened(settlement, sink)
    settlement.recover(keep_open=0)
    event_id = events.event_id("t#1/0")
    done = [("handled", event_id), ("known", event_id)]
    assert (sink.handled(), sink.deliveries()) == ([EVENT], done[: 1 if when == "before" else 2])
    assert (settlement.in_doubt(), settlement.residue()) == ([], [])


# ---- only to its own address


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_it_follows_no_redirect_to_another_address(sink, opened, status):
    sink.fail("POST /hooks", "status", status=status, headers={"Location": "http://127.0.0.1:9/"}, times=-1)
    with pytest.raises((HttpRefused, HttpUnanswered)):
        opened(None, sink, patience=Patience(tries=1)).publish(**EVENT)
    assert [entry["request"] for entry in sink.log()] == ["POST /hooks/T0K3N"]


def test_its_address_is_taken_to_the_letter(sink):
    Webhook(f"{sink.url}/hooks/a%2Fb/?code=x%20y", secret=SECRET).publish(**EVENT)
    assert [entry["request"] for entry in sink.log()] == ["POST /hooks/a%2Fb/?code=x%20y"]


def test_what_is_secret_in_its_address_is_in_no_error_scope_or_repr(settlement, sink, opened):
    events = opened(settlement, sink)
    sink.fail("POST", "status", status=410)
    with pytest.raises(HttpRefused, match=r"POST 127.0.0.1/… was refused with 410") as refused:
        events.publish(**EVENT)
    told = [str(refused.value), refused.value.request, repr(events), str(declaration_of(events.publish))]
    assert [text for text in told if "T0K3N" in text or SECRET in text] == []


@pytest.mark.parametrize("spelled", ["{path}", "{path}?{query}", "no {name} here", "{query}", "token {value}"])
def test_nor_when_the_sink_repeats_it(opened, settlement, spelled):
    parts = {"path": "/in/T0K3N-of-ours", "name": "T0K3N-of-ours", "query": "key=T0K3N%20too", "value": "T0K3N too"}
    said = spelled.format(**parts)
    sink = httpx.MockTransport(lambda _: httpx.Response(404, text=f"Cannot POST {said}"))
    events = Webhook("https://sink.example/in/T0K3N-of-ours?key=T0K3N%20too", settlement, secret=SECRET, transport=sink)
    with pytest.raises(HttpRefused, match="refused with 404") as refused:
        events.publish(**EVENT)
    assert "T0K3N" not in f"{refused.value} {refused.value.body}"


@pytest.mark.parametrize("address", ["", "sink.example", "ftp://sink.example", "https://ada:hunter2@sink.example/"])
def test_an_address_that_is_none_is_refused_without_being_repeated(address):
    with pytest.raises(ValueError, match="https://api.example/v1|pass headers= instead") as refused:
        Webhook(address, secret=SECRET)
    assert "hunter2" not in str(refused.value)


# ---- bad input


@pytest.mark.parametrize("payload", [{1, 2}, {"a": object()}, {"a": float("inf")}, {"a": "\ud800"}])
def test_what_cannot_be_json_is_refused_before_anything_is_recorded(settlement, sink, opened, payload):
    events = opened(settlement, sink)
    with pytest.raises(PayloadError), settlement.transaction("t") as tx:
        tx.call(events.publish, topic="a", payload=payload)
    assert (sink.log(), settlement.transactions()) == ([], [])


def test_an_event_without_a_topic_is_refused(settlement, sink, opened):
    events = opened(settlement, sink)
    with pytest.raises(ScopeError), settlement.transaction("t") as tx:
        tx.call(events.publish, topic="", payload={})
    assert (sink.log(), settlement.transactions()) == ([], [])


@pytest.mark.parametrize("secret", ["", "whsec_", "hunter2", "whsec_!!!!", "whsec_c2hvcnQ=", []])
def test_a_secret_that_is_none_is_refused_without_being_repeated(secret):
    with pytest.raises(ValueError, match="secret") as refused:
        Webhook("https://sink.example", secret=secret)
    assert "hunter2" not in str(refused.value)


def test_a_function_of_the_users_own_runs_under_the_declaration(settlement, sink, opened):
    events = opened(settlement, sink)

    def tell(what: str, payload: dict) -> None:
        events.publish(what, payload)

    mine = events.declare("publish_event", tell, topic="what")
    with settlement.transaction("t") as tx:
        tx.call(mine, what="a", payload={})
        assert sink.log() == []
    assert sink.deliveries() == [("handled", events.event_id("t#1/0"))]


def test_no_log_names_its_address_or_signs_with_its_secret(settlement, sink, opened, caplog):
    with caplog.at_level("DEBUG"):
        publish(settlement, opened(settlement, sink))
        sink.fail("POST", "cut", times=-1)
        with pytest.raises(InDoubt):
            publish(settlement, opened(settlement, sink), "u")
    assert [text for text in ("T0K3N", SECRET, SECRET[6:]) if text in caplog.text] == []
