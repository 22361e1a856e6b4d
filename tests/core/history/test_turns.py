"""Tool calls as operations: what an agent reads goes into what it writes next, and a turn has two orders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.history import Touch, compact, shows

from settlemark import Settlement
from settlemark.history import Recorder, analyze
from settlemark.hosting import declare
from settlemark.recording import ToolCall, Tools, Turns


def begin(**effects):
    recorder = Recorder()
    return recorder, Turns(recorder, Tools(effects))


def found(recorder):
    return {verdict.anomaly: verdict.count for verdict in analyze(recorder.records).verdicts if verdict.count}


def call(number, tool, **given):
    return ToolCall(str(number), tool, given)


@given(st.permutations(range(4)), st.lists(st.booleans(), min_size=4, max_size=4))
def test_a_turn_is_reordered_exactly_when_its_writes_end_in_another_order(ends, writes):
    recorder, turns = begin()
    turns.issued("ada", [call(n, "set_item" if writes[n] else "get_item", item=n, value=n) for n in range(4)])
    for n in ends:
        turns.ended(str(n), "ok", at=turns.now())
    turns.close()

    left = [n for n in ends if writes[n]]
    assert found(recorder).get("A6", 0) == (left != sorted(left))
    several = [record for record in recorder.records if len(record.io) > 1]
    assert len(several) == (len(left) > 1)
    for record in several:
        assert (record.io, record.co) == (
            [(f"item:/{n}", n) for n in sorted(left)],
            [(f"item:/{n}", n) for n in left],
        )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob", "cy"]), st.sets(st.sampled_from("xyz")), st.sampled_from(["x", "y", "z", ""])
    ),
    max_size=12,
)


@given(STEPS)
def test_agents_that_act_one_after_the_other_have_no_anomaly(steps):
    recorder, turns = begin()
    world = {}
    for number, (agent, reads, writes) in enumerate(steps):
        calls = [call(f"{number}{cell}", "get_item", item=cell) for cell in sorted(reads)]
        turns.issued(agent, calls)
        for each in calls:
            turns.ended(each.id, world.get(each.arguments["item"], "nothing yet"), since=turns.moment, at=turns.now())
        if writes:
            world[writes] = f"v{number}"
            turns.issued(agent, [call(number, "set_item", item=writes, value=world[writes])])
            turns.ended(str(number), "ok", at=turns.now())
        turns.answered(agent)

    assert found(recorder) == {}


def test_what_calls_of_a_turn_read_is_for_the_next_and_not_for_those_issued_beside_them():
    recorder, turns = begin()
    turns.issued("ada", [call(1, "get_date"), call(2, "send_mail", to="a")])
    turns.ended("1", "14 June", at=1)
    turns.ended("2", "sent", at=2)
    turns.issued("ada", [call(3, "send_mail", to="b")])
    turns.ended("3", "sent", at=3)

    assert [(r.read_set, r.write_set) for r in recorder.records[1:]] == [([], ["mail:/a"]), (["date"], ["mail:/b"])]


def test_every_write_of_a_turn_goes_by_what_was_read_before_it():
    recorder, turns = begin()
    turns.issued("ada", [call(1, "get_date")])
    turns.ended("1", "14 June")
    turns.issued(
        "ada", [call(2, "send_mail", to="a"), call(3, "set_date", date="21 June"), call(4, "send_mail", to="b")]
    )
    for n in "234":
        turns.ended(n, "ok", at=turns.now())

    assert [(r.read_set, r.write_set, len(r.io)) for r in recorder.records[1:]] == [
        (["date"], ["mail:/a"], 0),
        (["date"], ["date"], 0),
        ([], ["mail:/b"], 3),
    ]
    assert found(recorder) == {}


def test_a_read_that_was_under_way_when_somebody_wrote_saw_what_it_shows():
    for shown, stale in (("14 June", 1), ("21 June", 0)):
        recorder, turns = begin()
        recorder.begin("setup").commit(writes={})
        turns.issued("cy", [call(0, "get_date")])
        turns.ended("0", "14 June")
        since = turns.moment
        turns.issued("ada", [call(1, "get_date")])
        turns.issued("bob", [call(2, "set_date", date="21 June")])
        turns.ended("2", "ok")
        turns.ended("1", shown, since=since)
        turns.answered("ada")
        assert found(recorder).get("A1", 0) == stale


def test_what_failed_and_what_was_not_answered_counts_for_nothing():
    recorder, turns = begin()
    turns.issued("ada", [call(1, "get_date")])
    turns.ended("1", "14 June")
    turns.issued("ada", [call(2, "send_mail", to="a"), call(3, "send_mail", to="b")], turn="t")
    turns.ended("2", "refused", failed=True)
    turns.over("t")
    assert turns.ended("3", "late") is False
    assert (turns.unanswered, len(recorder.records)) == (1, 1)
    turns.answered("ada")
    assert recorder.records[-1].read_set == ["date"]  # what it had read before the turn that came to nothing


def test_calls_of_one_id_end_one_after_the_other():
    recorder, turns = begin()
    turns.issued("ada", [call(1, "send_mail", to="a"), call(1, "send_mail", to="b")])
    assert [turns.ended("1", "sent", at=n) for n in range(3)] == [True, True, False]
    assert [r.write_set for r in recorder.records] == [["mail:/a"], ["mail:/b"]]


def test_a_turn_that_is_over_leaves_the_calls_of_another_open_though_their_ids_are_the_same():
    recorder, turns = begin()
    for turn in "st":
        calls = [call(n, "send_mail", to=f"{turn}{n}") for n in range(2)]
        turns.issued("ada", calls, turn=turn)
    turns.over("s")
    assert (turns.unanswered, turns.knows("0"), turns.knows("1")) == (2, True, True)
    assert [turns.ended(n, "sent", at=turns.now()) for n in "100"] == [True, True, False]

    assert [r.write_set for r in recorder.records] == [["mail:/t1"], ["mail:/t0"]]
    assert [cell for cell, _ in recorder.records[-1].io] == ["mail:/t0", "mail:/t1"]
    assert (found(recorder), turns._open, turns._turns) == ({"A6": 1}, {}, {})


def test_a_turn_that_goes_on_has_one_order_over_all_its_calls():
    recorder, turns = begin()
    for n in range(3):
        turns.issued("ada", [call(n, "send_mail", to=str(n))], turn="t")
    for n in "201":
        turns.ended(n, "sent", at=turns.now())

    last = recorder.records[-1]
    assert [[cell for cell, _ in order] for order in (last.io, last.co)] == [
        ["mail:/0", "mail:/1", "mail:/2"],
        ["mail:/2", "mail:/0", "mail:/1"],
    ]


def test_calls_whose_ends_are_not_told_have_no_order_and_that_is_counted():
    recorder, turns = begin()
    turns.issued("ada", [call(n, "send_mail", to=str(n)) for n in range(2)])
    for n in "10":
        turns.ended(n, "sent")
    assert ([r.io for r in recorder.records], turns.unordered) == ([[], []], 1)


def test_an_agent_that_read_and_did_nothing_is_in_no_operation_and_is_counted():
    recorder, turns = begin()
    turns.issued("ada", [call(1, "get_date")])
    turns.ended("1", "14 June")
    turns.close()
    assert ([r.agent for r in recorder.records], turns.idle) == (["setup"], 1)


# ---- what a call touches


@pytest.mark.parametrize(
    ("tool", "given", "does", "cell", "value"),
    [
        ("get_room", {"hotel": "Ada"}, "read", "room:/Ada", None),
        ("list_orders", {}, "read", "order", None),
        ("searchFlights", {"to": "Riga"}, "read", "flight:/Riga", None),
        ("read_file", {"path": "a/../b/c.txt"}, "read", "file:/b/c.txt", None),
        ("write_file", {"path": "b/c.txt", "content": "x"}, "write", "file:/b/c.txt", "x"),
        ("set_date", {"date": "21 June"}, "write", "date", "21 June"),
        ("update_order", {"order": "7", "status": "paid"}, "write", "order:/7", "paid"),
        ("delete_order", {"order": "7"}, "write", "order:/7", None),
        ("send_mail", {"to": "a b", "subject": "s", "body": "t"}, "write", "mail:/a b", {"subject": "s", "body": "t"}),
        ("send_mail", {"to": "a"}, "write", "mail:/a", "send_mail"),
        ("act", {"n": 3}, "write", "act", 3),
        ("get_room", {"hotel": "  "}, "read", "room", None),
        ("get_room", {"hotel": None}, "read", "room", None),
    ],
)
def test_a_tool_that_nobody_declares_does_what_its_name_says(tool, given, does, cell, value):
    tools = Tools()
    assert tools.of(tool, given) == Touch(does, (cell,), value)
    assert tools.guessed == {tool: does}
    assert tools.unclear == ({"act"} if tool == "act" else set())


def test_a_declaration_says_it_better_and_effects_go_before_it():
    with Settlement("memory:") as settlement:
        settlement.declare("look", "idempotent", scope="room:/{hotel}", may_touch="house:/all")
        settlement.declare("get_room", "read", scope=lambda hotel: f"suite:/{hotel}")
        tools = Tools({"pay": {"kind": "irreversible", "scope": "card:/{card}"}}, settlement.declared)

    assert tools.of("look", {"hotel": "Ada", "n": 1}) == Touch("write", ("room:/Ada", "house:/all"), 1)
    assert tools.of("get_room", {"hotel": "Ada"}) == Touch("read", ("suite:/Ada",))
    assert tools.of("pay", {"card": "7", "amount": 3}) == Touch("write", ("card:/7",), 3)
    assert tools.of("pay", {"amount": 3}) == Touch("write", ("pay",), 3)  # the model left out what fills the scope
    assert tools.guessed == {}


def test_what_is_declared_to_be_redacted_is():
    tools = Tools(declared={"pay": declare("pay", "irreversible", scope="card:/{card}", redact="note")}.get)
    assert tools.of("pay", {"card": "7", "note": "private"}).value == "[secret]"


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=600), lambda v: st.lists(v, max_size=3))
)
def test_a_value_shows_itself_and_is_compact_in_one_way(value):
    assert shows(value, value)
    assert compact(value) == compact(value)
    assert compact(value) != compact([value])
