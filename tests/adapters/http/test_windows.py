"""Keys are remembered for a while: past that nothing is sent under one, so that no server takes a repeat for new."""

from __future__ import annotations

import pytest
from tests.adapters.http.service import DAY
from tests.adapters.http.subject import KEY, shop

from settlemark import InDoubt, Settlement
from settlemark.testing import die, in_child
from settlemark_adapters.http import Call, HttpUnanswered, Patience, Request

LETTER = Call("send_letter", "POST", "/letters", body={"to": str}, key_header=KEY, window=DAY)
PATIENCE = Patience(tries=3, first=1.0, most=60.0)
MARGIN = PATIENCE.longest(5.0)


@pytest.fixture
def passes(api, clock):
    """Let time pass, here and at the server."""

    def passing(seconds):
        clock.advance(seconds)
        api.at(clock())

    return passing


@pytest.fixture
def opened(api, clock, passes):
    """An API's adapter in the clock's time."""

    def open_(settlement, call=LETTER, **options):
        return shop(settlement, api, [call], **{"patience": PATIENCE, "clock": clock, "sleep": passes} | options)

    return open_


@pytest.fixture
def lose(api, passes, monkeypatch):
    """Lose an adapter's next answer, and let time pass before that is known."""

    def losing(adapter, waited):
        api.fail("POST /letters", "cut", acts=True)
        once = adapter._client._once

        def slow(sending, url):
            monkeypatch.undo()
            try:
                return once(sending, url)
            finally:
                passes(waited)

        monkeypatch.setattr(adapter._client, "_once", slow)

    return losing


def test_a_server_that_has_forgotten_a_key_takes_a_repeat_for_new(api, clock, passes, opened):
    """What all this is about: the same key, sent twice by hand."""
    api.tell("now", now=clock())
    call = Call("send_letter", "POST", "/letters", body={"to": str}, headers={KEY: "always"})
    for _ in range(2):
        opened(None, call).tool("send_letter")("ada")
        passes(DAY)
    assert len(api.state()["letters"]) == 2


def test_within_its_window_a_lost_answer_is_sent_again_under_its_key(settlement, api, opened, lose):
    adapter = opened(settlement)
    lose(adapter, DAY / 2)
    with settlement.transaction("t") as tx:
        tx.call(adapter.tool("send_letter"), to="ada")
    assert api.events("key") == [("sent", "t#1/0"), ("replayed", "t#1/0")]
    assert settlement.in_doubt() == []


@pytest.mark.parametrize("waited", [DAY - MARGIN, DAY, 3 * DAY])
def test_past_its_window_it_is_never_sent_again_but_in_doubt_and_named(settlement, api, opened, lose, waited):
    adapter = opened(settlement)
    lose(adapter, waited)
    with pytest.raises(InDoubt, match="not sent again: its counterparty remembers a key for"):
        with settlement.transaction("t") as tx:
            tx.call(adapter.tool("send_letter"), to="ada")
    assert api.events("key") == [("sent", "t#1/0")]
    (doubt,) = settlement.in_doubt()
    assert (doubt.tool, doubt.key, len(api.state()["letters"])) == ("send_letter", "t#1/0", 1)


def test_an_operators_word_ends_the_doubt(settlement, api, opened, lose):
    adapter = opened(settlement)
    lose(adapter, DAY)
    with pytest.raises(InDoubt), settlement.transaction("t") as tx:
        tx.call(adapter.tool("send_letter"), to="ada")
    settlement.resolve("t#1/0", "confirmed", by="ada", result={"number": 1})
    assert (settlement.in_doubt(), settlement.residue(), len(api.log())) == ([], [], 1)


def test_past_its_window_a_probe_by_key_that_finds_nothing_proves_nothing(settlement, api, opened, lose):
    call = Call(
        "send_letter",
        "POST",
        "/letters",
        body={"to": str},
        key_header=KEY,
        window=DAY,
        probe=Request("GET", "/orders/by-key/{key}"),
    )
    adapter = opened(settlement, call)
    lose(adapter, DAY)
    with pytest.raises(InDoubt), settlement.transaction("t") as tx:
        tx.call(adapter.tool("send_letter"), to="ada")
    assert [did for did in api.events() if did != "refused"] == ["sent"]


def test_a_busy_server_is_not_waited_for_past_the_window_of_a_key(settlement, api, opened):
    call = Call("send_letter", "POST", "/letters", body={"to": str}, key_header=KEY, window=60)
    adapter = opened(settlement, call)
    api.fail("POST /letters", "status", status=503, headers={"Retry-After": "45"}, acts=True, times=-1)
    with pytest.raises(HttpUnanswered):
        adapter.tool("send_letter")("ada")
    assert len(api.log()) == 1


@pytest.mark.parametrize("window", [1.0, 60.0, DAY])
def test_no_try_of_a_call_is_sent_past_its_window_however_long_it_is_put_off(settlement, api, clock, opened, window):
    began = clock()
    call = Call("send_letter", "POST", "/letters", body={"to": str}, key_header=KEY, window=window)
    adapter = opened(settlement, call)
    api.fail("POST /letters", "status", status=503, headers={"Retry-After": "59"}, times=-1)
    with pytest.raises(InDoubt), settlement.transaction("t") as tx:
        tx.call(adapter.tool("send_letter"), to="ada")
    assert [entry for entry in api.log() if entry["now"] - began >= window] == []


@pytest.mark.parametrize(("waited", "did"), [(DAY / 2, ["sent", "replayed"]), (DAY, ["sent"])])
def test_the_next_process_sends_it_again_within_its_window_only(
    open_here, api, url, clock, passes, opened, waited, did
):
    def play(_tell):
        with Settlement(url, **clock.options()) as settlement:
            adapter = opened(settlement, sleep=lambda _seconds: die())
            api.fail("POST /letters", "status", status=503, acts=True)
            with settlement.transaction("t") as tx:
                tx.call(adapter.tool("send_letter"), to="ada")

    assert in_child(play).killed
    passes(waited)
    settlement = open_here(url)
    opened(settlement)
    settlement.recover(keep_open=0)
    assert api.events("key") == [(each, "t#1/0") for each in did]
    assert [doubt.key for doubt in settlement.in_doubt()] == ([] if len(did) == 2 else ["t#1/0"])
