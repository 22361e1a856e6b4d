"""What an answer says of an effect: done, refused, or unknown; and when the same is asked again."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, datetime
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.adapters.http.subject import CALLS, KEY, TOKEN, shop

from settlemark import InDoubt, Refused
from settlemark_adapters.http import (
    Call,
    Http,
    HttpError,
    HttpRefused,
    HttpTimedOut,
    HttpUnanswered,
    HttpUnreadable,
    HttpUnsent,
    Patience,
)

PLAIN = Call("send_letter", "POST", "/letters", body={"to": str})
KEYED = Call("send_letter", "POST", "/letters", body={"to": str}, key_header=KEY)
READ = Call("get_note", "GET", "/notes/{name}")
PUT = Call("put_note", "PUT", "/notes/{name}", body={"text": str})


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def sender(api, clock, pauses):
    def made(call, **options):
        def sleep(seconds):
            pauses.append(seconds)
            clock.advance(seconds)

        patience = options.pop("patience", Patience(tries=3, first=1.0, most=60.0))
        return shop(None, api, [call], patience=patience, clock=clock, sleep=sleep, **options).tool(call.tool)

    return made


# ---- which say what


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 418, 422, 451, 501])
@pytest.mark.parametrize("call", [PLAIN, KEYED], ids=["plain", "keyed"])
def test_a_definite_no_is_refused_at_once_and_nothing_was_done(sender, api, call, status, pauses):
    api.fail("POST", "status", status=status, body='{"error": "no"}')
    with pytest.raises(HttpRefused, match="change the call|try later") as refused:
        sender(call)("ada")
    error = refused.value
    assert (error.status, error.body, error.tool) == (status, {"error": "no"}, "send_letter")
    assert error.request == f"POST {api.url}/letters"
    assert not isinstance(error, OSError)
    assert (api.state()["letters"], len(api.log()), pauses) == ([], 1, [])


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 599, 301, 302, 303])
def test_what_may_have_been_done_without_a_key_is_unknown_and_not_sent_again(sender, api, status, pauses):
    api.fail("POST", "status", status=status, acts=True)
    with pytest.raises(HttpUnanswered, match="what became of it is unknown"):
        sender(PLAIN)("ada")
    assert (len(api.log()), pauses) == (1, [])


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 599])
def test_what_may_have_been_done_under_a_key_is_sent_again_under_it(sender, api, status, pauses):
    api.fail("POST", "status", status=status, acts=True)
    assert sender(KEYED)("ada") == {"number": 1}
    first, second = api.events("key")
    assert (first[0], second[0], first[1] == second[1], pauses) == ("sent", "replayed", True, [1.0])


@pytest.mark.parametrize("status", [408, 500, 503])
def test_a_method_that_may_be_repeated_is_repeated(sender, api, status):
    api.fail("PUT", "status", status=status, acts=True)
    assert sender(PUT)(name="a", text="b") == {"name": "a", "text": "b"}
    assert api.events() == ["written", "written"]


@pytest.mark.parametrize("status", [425, 429])
def test_what_came_too_early_or_too_often_is_sent_again_without_a_key_too(sender, api, status, pauses):
    api.fail("POST", "status", status=status)
    assert sender(PLAIN)("ada") == {"number": 1}
    assert (len(api.log()), pauses) == (2, [1.0])


@pytest.mark.parametrize("status", [500, 503])
def test_a_status_that_the_api_declares_definite_is_refused(sender, api, status):
    call = Call("send_letter", "POST", "/letters", body={"to": str}, definite=(500, 503))
    api.fail("POST", "status", status=status, times=-1)
    with pytest.raises(HttpRefused, match=f"refused with {status}; nothing was done: try later"):
        sender(call)("ada")
    assert len(api.log()) == {500: 1, 503: 3}[status]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_read_is_asked_again(sender, api, status):
    api.tell("seed", notes={"a": {"text": "b"}})
    api.fail("GET", "status", status=status, times=2)
    assert sender(READ)("a") == {"text": "b"}
    assert len(api.log()) == 3


def test_a_refusal_of_a_repeat_says_nothing_of_the_first_try(sender, api):
    api.fail("POST", "status", status=503, acts=True)
    api.fail("POST", "status", status=409, body="in progress")
    with pytest.raises(HttpUnanswered, match=r"it answered 409 \(in progress\), after it had answered 503") as unknown:
        sender(KEYED)("ada")
    assert unknown.value.status == 409


def test_a_repeat_that_cannot_be_sent_says_nothing_of_the_first_try(api):
    answers = [httpx.Response(503), httpx.ConnectError("it is gone")]

    def handle(request):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    send = shop(None, api, [KEYED], transport=httpx.MockTransport(handle)).tool("send_letter")
    with pytest.raises(HttpUnanswered, match="could not be sent .*, after it had answered 503"):
        send("ada")


# ---- how long it waits


def test_it_waits_as_many_seconds_as_it_is_told(sender, api, pauses):
    api.fail("POST", "status", status=429, headers={"Retry-After": "17"})
    sender(PLAIN)("ada")
    assert pauses == [17.0]


def test_it_waits_until_the_date_that_it_is_told(sender, api, clock, pauses):
    date = format_datetime(datetime.fromtimestamp(clock() + 42, UTC), usegmt=True)
    api.fail("POST", "status", status=503, headers={"Retry-After": date})
    sender(KEYED)("ada")
    assert pauses == [42.0]


def test_a_date_that_is_past_is_no_reason_to_wait(sender, api, pauses):
    api.fail("POST", "status", status=429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})
    sender(PLAIN)("ada")
    assert pauses == [0.0]


@pytest.mark.parametrize("told", ["61", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_it_does_not_wait_longer_than_its_patience_and_says_what_it_was_told(sender, api, pauses, told):
    api.fail("POST", "status", status=429, headers={"Retry-After": told})
    with pytest.raises(HttpRefused, match="it wants to be asked again in") as refused:
        sender(PLAIN)("ada")
    assert (refused.value.retry_after > 60, pauses, api.state()["letters"]) == (True, [], [])


@pytest.mark.parametrize("told", ["soon", "-1", "", "1.5", "Fri, 99 Dec 9999", "²"])
def test_what_is_no_time_is_not_heeded(sender, api, pauses, told):
    api.fail("POST", "status", status=429, headers={"Retry-After": told.encode().decode("latin-1")})
    sender(PLAIN)("ada")
    assert pauses == [1.0]


def test_its_pauses_grow_and_its_tries_end(sender, api, pauses):
    api.fail("POST", "status", status=429, times=-1)
    with pytest.raises(HttpRefused):
        sender(PLAIN, patience=Patience(tries=4, first=1.0, factor=3.0, most=5.0))("ada")
    assert (pauses, len(api.log())) == ([1.0, 3.0, 5.0], 4)


@pytest.mark.parametrize("wrong", [{"tries": 0}, {"first": -1}, {"factor": 0.5}, {"most": -1}])
def test_a_patience_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="try once at least, and pause no negative time"):
        Patience(**wrong)


# ---- no answer


def test_an_answer_that_does_not_come_in_time_is_unknown(sender, api):
    api.fail("POST", "hang", acts=True)
    with pytest.raises(HttpTimedOut, match=r"was sent and not answered in 0.2 s") as unknown:
        sender(PLAIN, timeout=0.2)("ada")
    assert (isinstance(unknown.value, TimeoutError), api.events()) == (True, ["sent"])


@pytest.mark.parametrize("how", ["cut", "half"])
def test_a_connection_that_breaks_before_the_answers_end_is_unknown(sender, api, how):
    api.fail("POST", how, acts=True)
    with pytest.raises(HttpUnanswered, match="what became of it is unknown: RemoteProtocolError") as unknown:
        sender(PLAIN)("ada")
    assert (isinstance(unknown.value, ConnectionError), api.events()) == (True, ["sent"])


def test_without_a_server_surely_nothing_was_done(settlement, api, sender):
    call = Call("send_letter", "POST", "/letters", body={"to": str})
    send = shop(settlement, type("Nowhere", (), {"url": "http://127.0.0.1:9"}), [call]).tool("send_letter")
    with pytest.raises(HttpUnsent, match="ConnectError.*nothing was done: see that it is there") as unsent:
        send("ada")
    assert not isinstance(unsent.value, OSError)
    with pytest.raises(Refused, match="could not be sent"), settlement.transaction("t") as tx:
        tx.call(send, to="ada")
    assert (settlement.in_doubt(), settlement.residue()) == ([], [])


def test_a_refusal_whose_body_breaks_off_is_a_refusal(sender, api):
    api.fail("POST /nowhere", "half", acts=True)
    with pytest.raises(HttpRefused, match="404"):
        sender(Call("post", "POST", "/nowhere"))()


# ---- contents


def test_an_empty_answer_is_none(sender, api):
    api.fail("POST", "status", status=204)
    assert sender(PLAIN)("ada") is None


@pytest.mark.parametrize("body", ["<p>done", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000, "{", "1" * 5000])
def test_an_answer_that_is_no_json_is_told_as_text(sender, api, body):
    api.fail("POST", "status", status=200, body=body, headers={"Content-Type": "text/html"})
    assert sender(PLAIN)("ada") == {"status": 200, "type": "text/html", "text": body}


def test_half_a_character_in_an_answer_is_replaced(sender, api):
    api.fail("POST", "status", status=200, body='{"a": "x\\ud800"}')
    assert sender(PLAIN)("ada") == {"a": "x?"}


def test_an_effects_answer_that_is_too_long_is_cut_and_the_effect_is_known(settlement, api):
    send = shop(settlement, api, [PLAIN], most=10).tool("send_letter")
    api.fail("POST", "status", status=200, body='{"a": "0123456789"}', acts=True)
    with settlement.transaction("t") as tx:
        queued = tx.call(send, to="ada")
    assert queued.result() == {"status": 200, "type": "application/json", "text": '{"a": "012', "truncated": True}


def test_a_reads_answer_that_is_too_long_is_an_error(sender, api):
    api.fail("GET", "status", status=200, body="x" * 11)
    with pytest.raises(HttpUnreadable, match="its answer is longer than 10 bytes: ask for less, or set most= higher"):
        sender(READ, most=10)("a")


def test_an_answer_without_an_end_is_a_timeout(sender, api, monkeypatch):
    ticks = iter(range(0, 1000, 20))
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    with pytest.raises(HttpTimedOut):
        sender(PLAIN)("ada")


NO = {*range(400, 500), 501, 307, 308} - {408}
odd = st.sampled_from(
    ["retry-after", "location", "content-type", "content-encoding", "etag", "set-cookie", "content-length"]
)
values = st.one_of(
    st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"), max_size=30),
    st.sampled_from(
        ["http://[::1", "//", "gzip", "br", "31 Feb 0001", "Mon, 01 Jan 0001 00:00:00 -0000", "99999999999"]
    ),
)


@given(st.integers(200, 599), st.dictionaries(odd, values), st.binary(max_size=30), st.booleans())
def test_no_answer_makes_what_may_have_been_done_look_refused(status, headers, body, keyed):
    def handle(request):
        return httpx.Response(status, headers=[(n, v.encode("latin-1")) for n, v in headers.items()], stream=Once(body))

    api = type("Api", (), {"url": "http://api.example"})
    call = KEYED if keyed else PLAIN
    options = {"transport": httpx.MockTransport(handle), "sleep": lambda _seconds: None}
    send = shop(None, api, [call], **options).tool("send_letter")
    try:
        send("ada")
    except HttpRefused:
        said = "no"
    except HttpUnanswered:
        said = "unknown"
    else:
        said = "yes"
    assert (said == "no") == (status in NO)
    assert said != "yes" or status < 300


class Once(httpx.SyncByteStream):
    def __init__(self, body):
        self.body = body

    def __iter__(self):
        yield self.body


def test_a_cookie_is_not_told_by_another_call(sender, api):
    api.fail("GET /notes", "status", status=200, body="{}", headers={"Set-Cookie": "a=b"})
    adapter = shop(None, api, [READ, Call("echo", "GET", "/headers")])
    adapter.tool("get_note")("a")
    assert "Cookie" not in adapter.tool("echo")()


# ---- a key and another request


def test_the_answer_to_another_request_is_told_and_leaves_the_outcome_unknown(settlement, api):
    create = shop(settlement, api).tool("create_order")
    other = '{"id": "order-9", "customer": "bob", "sku": "tea"}'
    api.fail("POST", "status", status=200, body=other, times=-1)
    api.fail("GET", "status", status=200, body=other, times=-1)
    with pytest.raises(InDoubt, match=r"answered as another request was, with customer='bob' for 'ada' \(was the key"):
        with settlement.transaction("t") as tx:
            tx.call(create, customer="ada", sku="tea")
    assert [d.tool for d in settlement.in_doubt()] == ["create_order"]


@pytest.mark.parametrize("status", [409, 422])
def test_a_key_that_the_server_knows_for_another_request_is_told(settlement, api, status):
    send = shop(settlement, api).tool("send_letter")
    api.fail("POST", "cut", acts=True)
    api.fail("POST", "status", status=status, body='{"error": "the key was used for another request"}', times=-1)
    with pytest.raises(InDoubt, match=f"{status} .*the key was used for another request"):
        with settlement.transaction("t") as tx:
            tx.call(send, to="ada", text="hello")
    assert api.state()["letters"] == [{"to": "ada", "text": "hello"}]
    assert [d.tool for d in settlement.in_doubt()] == ["send_letter"]


# ---- errors


@pytest.mark.parametrize("kind", [HttpRefused, HttpUnsent, HttpUnanswered, HttpTimedOut, HttpUnreadable])
def test_errors_survive_pickle(kind):
    error = kind("no", tool="t", request="POST /", status=500, body={"a": 1}, retry_after=2.0)
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (kind, "no", vars(error))
    assert isinstance(back, HttpError)


def test_a_secret_that_a_server_repeats_is_in_no_result_error_or_record(settlement, api):
    echo = Call("echo", "GET", "/headers")
    adapter = shop(settlement, api, [echo, *CALLS])
    assert adapter.tool("echo")()["Authorization"] == "[redacted]"
    api.fail("POST", "status", status=400, body=f'{{"you sent": ["{TOKEN}"], "{TOKEN}": 1}}', times=-1)
    with pytest.raises(HttpRefused) as refused, settlement.transaction("t") as tx:
        tx.call(adapter.tool("create_order"), customer="ada", sku="tea")
    assert refused.value.body == {"you sent": ["[redacted]"], "[redacted]": 1}
    told = [str(refused.value), repr(adapter), repr(adapter._client), str(settlement.transactions())]
    assert [text for text in told if TOKEN in text] == []
    assert api.log()[0]["headers"]["authorization"] == f"Bearer {TOKEN}"


def test_no_password_is_repeated_either(api):
    adapter = shop(
        None, api, [Call("echo", "GET", "/headers")], headers={"Authorization": "Basic YWRhOmh1bnRlcjItaA=="}
    )
    api.fail("GET", "status", status=200, body='{"a": "ada:hunter2-h", "b": "hunter2-h", "c": "hunter3"}')
    assert adapter.tool("echo")() == {"a": "[redacted]", "b": "[redacted]", "c": "hunter3"}


def test_what_is_declared_secret_and_the_headers_are_in_no_record_and_no_log(settlement, api, caplog):
    call = Call(
        "send_letter",
        "POST",
        "/letters",
        scope="letter:/{to}",
        body={"to": str, "pin": str},
        parts={"redact": ("pin",)},
    )
    send = shop(settlement, api, [call]).tool("send_letter")
    api.fail("POST", "status", status=400, body='{"pin": "493817"}', times=-1)
    with caplog.at_level("DEBUG"), pytest.raises(Refused), settlement.transaction("t") as tx:
        tx.call(send, to="ada", pin="493817")
    assert api.log()[0]["body"] == '{"pin":"493817","to":"ada"}'
    told = [str(settlement.transactions()), caplog.text]
    assert [text for text in told if "493817" in text or TOKEN in text] == []


def test_what_is_kept_of_a_header_has_no_secrets_either():
    def answer(request):
        return httpx.Response(200, json={}, headers={"X-Who": request.headers["authorization"], "ETag": "v1"})

    look = Call("look", "GET", "/me", keep={"who": "X-Who", "version": "ETag"})
    options = {"headers": {"Authorization": "Bearer sk_live_7"}, "transport": httpx.MockTransport(answer)}
    assert Http("https://api.example", calls=[look], **options).tool("look")() == {"who": "[redacted]", "version": "v1"}
