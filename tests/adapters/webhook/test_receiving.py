"""A consumer believes what is signed and fresh, and handles each event once, however often it is delivered."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, func, select
from tests.adapters.webhook.service import SECRET
from tests.rooms.webhook import secret_bytes

from settlemark.testing import VirtualClock
from settlemark_adapters.webhook import Event, Seen, StillHandled, WebhookRejected, signature, verify

ROOT = Path(__file__).parents[3]
CONSUMER = """
import sys
sys.modules['httpx'] = None
from settlemark_adapters.webhook import Seen, Webhook, verify
try:
    Webhook('https://sink.example', secret='x')
except ImportError as error:
    print(error)
"""
NOW = 1_767_268_800
BODY = b'{"data": {"order": 7}, "type": "order.made"}'


def signed(body=BODY, *, event_id="msg_1", at=NOW, secret=SECRET):
    return {
        "Webhook-Id": event_id,
        "Webhook-Timestamp": str(at),
        "Webhook-Signature": signature(event_id, at, body, secret_bytes(secret)),
    }


# ---- verifying


def test_a_signature_is_that_of_standard_webhooks():
    secret = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', secret)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_is_signed_and_fresh_is_told():
    assert verify(signed(), BODY, SECRET, now=NOW) == Event("msg_1", "order.made", {"order": 7}, float(NOW))


def test_without_a_time_it_is_the_systems():
    with pytest.raises(WebhookRejected, match="s ago, and 300 s are allowed"):
        verify(signed(), BODY, SECRET)


@given(st.binary(max_size=60), st.integers(0, 10**11), st.from_regex(r"[a-z0-9_]{1,20}", fullmatch=True), st.data())
def test_nothing_that_was_changed_is_believed(body, at, event_id, data):
    headers = signed(body, event_id=event_id, at=at)
    field = data.draw(st.sampled_from(["Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "body"]))
    if field == "body":
        changed = data.draw(st.binary(max_size=60).filter(lambda other: other != body))
    else:
        text = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)
        changed, headers[field] = body, data.draw(text.filter(lambda other: other.strip() != headers[field]))
    if headers["Webhook-Timestamp"].lstrip("0") == str(at).lstrip("0") and field == "Webhook-Timestamp":
        return
    with pytest.raises(WebhookRejected):
        verify(headers, changed, SECRET, now=float(at))


@pytest.mark.parametrize("late", [-301, 301, 10**5])
def test_what_is_too_old_or_from_the_future_is_rejected(late):
    with pytest.raises(WebhookRejected, match=f"it was signed {late:g} s ago, and 300 s are allowed"):
        verify(signed(), BODY, SECRET, now=NOW + late)
    assert verify(signed(), BODY, SECRET, now=NOW + late, tolerance=10**7).id == "msg_1"


@pytest.mark.parametrize("name", ["Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"])
def test_a_header_that_is_missing_or_empty_is_rejected(name):
    headers = signed()
    for wrong in ({k: v for k, v in headers.items() if k != name}, headers | {name: ""}):
        with pytest.raises(WebhookRejected, match=f"there is no {name.lower()} header"):
            verify(wrong, BODY, SECRET, now=NOW)


@pytest.mark.parametrize("told", ["soon", "1e9", "-5", "٣", "9" * 13, "1767268800.0"])
def test_a_time_that_is_none_is_rejected(told):
    with pytest.raises(WebhookRejected, match="webhook-timestamp is no time"):
        verify(signed() | {"Webhook-Timestamp": told}, BODY, SECRET, now=NOW)


def test_an_id_with_a_dot_cannot_pass_for_another_id_and_time():
    body = b'{"type": "a", "data": 1}'
    inner = str(NOW).encode() + b"." + body
    headers = signed(inner, event_id="msg_1", at=NOW - 5)
    forged = headers | {"Webhook-Id": f"msg_1.{NOW - 5}", "Webhook-Timestamp": str(NOW)}
    with pytest.raises(WebhookRejected, match="webhook-id is none"):
        verify(forged, body, SECRET, now=NOW)


def test_one_of_several_signatures_and_secrets_is_enough():
    other = "whsec_" + "b3RoZXIgc2VjcmV0IG9mIHNvbWUgbGVuZ3Ro"
    headers = signed()
    headers["Webhook-Signature"] = f"v1,bm9uZQ== v1a,x {headers['Webhook-Signature']}"
    assert verify(headers, BODY, [other, SECRET], now=NOW).id == "msg_1"
    with pytest.raises(WebhookRejected, match="the signature is wrong"):
        verify(headers, BODY, other, now=NOW)


def test_a_signature_that_no_text_can_hold_is_rejected():
    headers = {"webhook-id": "a", "webhook-timestamp": "100", "webhook-signature": "v1,\udce9"}
    with pytest.raises(WebhookRejected, match="the signature is wrong"):
        verify(headers, b"{}", SECRET, now=100)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"type": "a"}', b"null", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_no_event_is_rejected(body):
    with pytest.raises(WebhookRejected, match="the body is no event"):
        verify(signed(body), body, SECRET, now=NOW)


@pytest.mark.parametrize("secret", ["", "hunter2", "whsec_c2hvcnQ=", []])
def test_a_secret_that_is_none_is_the_consumers_mistake(secret):
    with pytest.raises(ValueError, match="secret") as refused:
        verify(signed(), BODY, secret, now=NOW)
    assert not isinstance(refused.value, WebhookRejected)


# ---- handling once


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request, tmp_path):
    if request.param == "memory":
        yield None
        return
    engine = create_engine(
        request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path / 'c.db'}"
    )
    yield engine
    engine.dispose()


def test_a_delivery_that_is_repeated_is_handled_once(store):
    seen, handled = Seen(store), []
    for event_id in ("a", "a", "b", "a"):
        with seen.once(event_id) as first:
            if first:
                handled.append(event_id)
    assert handled == ["a", "b"]


def test_one_whose_handling_failed_is_handled_when_it_comes_again(store):
    seen = Seen(store)
    with pytest.raises(RuntimeError), seen.once("a") as first:
        assert first
        raise RuntimeError
    with seen.once("a") as again:
        assert again
    with seen.once("a") as third:
        assert not third


def test_one_that_comes_while_it_is_handled_waits_and_is_not_handled_again(store):
    seen, entered, told = Seen(store), threading.Event(), []

    def second():
        entered.wait(10)
        with seen.once("a") as first:
            told.append(first)

    thread = threading.Thread(target=second)
    thread.start()
    with seen.once("a") as first:
        entered.set()
        assert (first, told) == (True, [])
    thread.join(20)
    assert told == [False]


def test_one_that_comes_to_the_thread_that_handles_it_cannot_wait_and_says_so(store):
    seen = Seen(store)

    async def handle():
        with seen.once("a") as first:
            await asyncio.sleep(0)
            return first

    async def both():
        return await asyncio.gather(handle(), handle(), return_exceptions=True)

    first, second = asyncio.run(both())
    assert (first, type(second), second.event_id) == (True, StillHandled, "a")
    assert "answer 503, so that it is sent again" in str(second)
    with seen.once("a") as again:
        assert not again


def test_one_waits_for_no_other_event_whose_handler_forgets_the_old_ones(request):
    engine = create_engine(request.getfixturevalue("postgres_url"), connect_args={"options": "-c lock_timeout=5s"})
    clock = VirtualClock()
    seen = Seen(engine, window=100, clock=clock)
    with seen.once("old"):
        pass
    clock.advance(200)
    with seen.once("a") as first, seen.once("b") as other:
        assert (first, other) == (True, True)
    with seen.once("old") as again:
        assert again
    engine.dispose()


@pytest.mark.parametrize(("waited", "again"), [(99, False), (100, True)])
def test_it_is_remembered_for_its_window(store, waited, again):
    clock = VirtualClock()
    seen = Seen(store, window=100, clock=clock)
    with seen.once("a"):
        clock.advance(0)
    clock.advance(waited)
    with seen.once("a") as first:
        assert first is again


def test_a_repeat_does_not_make_it_remembered_for_longer(store):
    clock = VirtualClock()
    seen = Seen(store, window=100, clock=clock)
    told = []
    for waited in (0, 60, 60):
        clock.advance(waited)
        with seen.once("a") as first:
            told.append(first)
    assert told == [True, False, True]


def test_a_repeat_that_ends_lets_nobody_in_beside_whoever_handles_the_event_by_then():
    clock = VirtualClock()
    seen = Seen(window=100, clock=clock)
    repeated, ended = threading.Event(), threading.Event()
    told = []

    def repeat():
        with pytest.raises(RuntimeError), seen.once("a") as first:
            told.append(first)
            repeated.set()
            ended.wait(10)
            raise RuntimeError

    def third():
        with seen.once("a") as first:
            told.append(first)

    with seen.once("a"):
        pass
    threads = [threading.Thread(target=target) for target in (repeat, third)]
    threads[0].start()
    repeated.wait(10)
    clock.advance(200)
    with seen.once("a") as handling:  # its window is over
        ended.set()
        threads[0].join(20)
        threads[1].start()
        threads[1].join(0.05)
        assert (handling, told) == (True, [False])
    threads[1].join(20)
    assert told == [False, False]


def test_without_a_window_it_is_remembered_for_good(store):
    clock = VirtualClock()
    seen = Seen(store, window=None, clock=clock)
    with seen.once("a"):
        clock.advance(1e9)
    with seen.once("a") as first:
        assert not first


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
def test_what_the_handler_writes_is_kept_if_and_only_if_the_event_is(store):
    orders = Table("orders", MetaData(), Column("number", Integer, primary_key=True))
    orders.metadata.create_all(store)
    seen = Seen(store)

    def handle(fails):
        with store.begin() as connection:
            if seen.claim(connection, "a"):
                connection.execute(orders.insert().values(number=7))
            if fails:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        handle(fails=True)
    handle(fails=False)
    handle(fails=False)
    with store.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(orders)) == 1


def test_two_consumers_of_one_table_handle_it_once(tmp_path):
    url, handled = f"sqlite:///{tmp_path / 'c.db'}", []
    for _ in range(2):
        seen = Seen(url, table="mine")
        with seen.once("a") as first:
            handled.append(first)
        seen.close()
    assert handled == [True, False]


def test_a_store_of_another_kind_is_refused():
    class Other:
        class dialect:  # noqa: N801 - as SQLAlchemy names it
            name = "mysql"

    with pytest.raises(ValueError, match="mysql is no store for this: use SQLite or PostgreSQL"):
        Seen(Other())


def test_a_consumer_needs_no_http_client():
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            CONSUMER,
        ],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{ROOT / 'core'}:{ROOT / 'adapters'}"},
    ).stdout
    assert said == 'this adapter speaks HTTP with httpx: pip install "settlemark[http]"\n'


def test_a_body_is_verified_to_the_byte():
    with pytest.raises(WebhookRejected, match="the signature is wrong"):
        verify(signed(), json.dumps(json.loads(BODY)).encode() + b" ", SECRET, now=NOW)
