"""A counterparty forgets a key after a while: past its window nothing is sent again, whatever is known of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from settlemark import UNKNOWN, DeclarationError, InDoubt, Refused, Settlement, State, current_call, effect
from settlemark.hosting import host_of, run_sync
from settlemark.testing import die, in_child

DAY = 86_400.0

pytestmark = pytest.mark.own_time


class Bank:
    """Answers after a time that the test chooses; each try is one line in its log."""

    def __init__(self, clock):
        self.clock = clock
        self.log = []
        self.slow = []  # seconds that the next tries take before they time out; none: it answers
        self.known = UNKNOWN
        self.dies = False

    def tool(self, kind="idempotent", **parts):
        parts.setdefault("window", DAY)

        @effect(kind, scope="account:/{account}", **parts)
        def wire(account):
            if self.dies:
                die()
            self.log.append(current_call().key)
            if self.slow:
                self.clock.advance(self.slow.pop(0))
                raise TimeoutError("no answer")
            return "w1"

        return wire

    def by_key(self, key):
        del key
        return self.known

    def by_account(self, account):
        del account
        return self.known


@pytest.fixture
def bank(clock):
    return Bank(clock)


def test_within_its_window_a_keyed_call_is_sent_again(settlement, bank):
    bank.slow = [DAY / 2]
    with settlement.transaction("sweep") as tx:
        assert tx.call(bank.tool(), account="ops") == "w1"
    assert bank.log == ["sweep#1/0"] * 2


def test_past_its_window_it_is_not_and_the_doubt_says_why(settlement, bank, recorded):
    bank.slow = [DAY]
    with settlement.transaction("sweep") as tx:
        with pytest.raises(InDoubt, match="not sent again: its counterparty remembers a key for 86400 s"):
            tx.call(bank.tool(), account="ops")
    assert bank.log == ["sweep#1/0"]
    assert recorded(settlement, "sweep") == [("committed", [("wire", "unknown", "unresolved")])]
    (doubt,) = settlement.in_doubt()
    assert doubt.why == (
        "TimeoutError: no answer; not sent again: its counterparty remembers a key for 86400 s, which have passed"
    )


def test_a_counterparty_without_a_window_never_forgets(settlement, bank):
    bank.slow = [1_000 * DAY]
    with settlement.transaction("sweep") as tx:
        assert tx.call(bank.tool(window=None), account="ops") == "w1"
    assert bank.log == ["sweep#1/0"] * 2


def test_past_its_window_a_probe_may_still_find_it(settlement, bank):
    bank.slow, bank.known = [DAY], "w1"
    with settlement.transaction("sweep") as tx:
        assert tx.call(bank.tool(probe=bank.by_key), account="ops") == "w1"
    assert bank.log == ["sweep#1/0"]


def test_past_its_window_a_probe_by_key_that_finds_nothing_proves_nothing(settlement, bank, recorded):
    bank.slow, bank.known = [DAY], None
    with settlement.transaction("sweep") as tx:
        with pytest.raises(InDoubt):
            tx.call(bank.tool(probe=bank.by_key), account="ops")
    assert bank.log == ["sweep#1/0"]
    assert recorded(settlement, "sweep") == [("committed", [("wire", "unknown", "unresolved")])]


def test_past_its_window_a_probe_that_needs_no_key_is_believed_and_nothing_is_sent_again(settlement, bank, recorded):
    bank.slow, bank.known = [DAY], None
    with settlement.transaction("sweep") as tx:
        with pytest.raises(TimeoutError):
            tx.call(bank.tool(probe=bank.by_account), account="ops")
    assert bank.log == ["sweep#1/0"]
    assert recorded(settlement, "sweep") == [("committed", [("wire", "failed", None)])]


def test_within_its_window_absent_is_sent_again_by_whoever_has_no_key_too(quick, bank):
    bank.slow, bank.known = [DAY / 2], None
    with quick.transaction("sweep") as tx:
        assert tx.call(bank.tool("opaque", probe=bank.by_key), account="ops") == "w1"
    assert bank.log == ["sweep#1/0"] * 2


def test_a_gated_wire_may_wait_longer_than_its_window_for_its_first_sending(settlement, bank, clock):
    with settlement.transaction("sweep") as tx:
        tx.call(bank.tool("irreversible", keyed=True), account="ops")
        clock.advance(3 * DAY)  # somebody's approval takes its time
        bank.slow = [DAY / 2]
    assert (bank.log, tx.state) == (["sweep#1/0"] * 2, State.COMMITTED)


def test_a_gated_wire_is_not_sent_again_past_its_window_either(settlement, bank, recorded):
    bank.slow = [DAY]
    with pytest.raises(InDoubt), settlement.transaction("sweep") as tx:
        tx.call(bank.tool("irreversible", keyed=True), account="ops")
    assert bank.log == ["sweep#1/0"]
    assert recorded(settlement, "sweep") == [("committed", [("wire", "unknown", "unresolved")])]


def test_past_its_window_asking_again_later_believes_no_empty_answer_to_a_key(settlement, bank, clock):
    bank.slow = [1]
    with settlement.transaction("sweep") as tx:
        with pytest.raises(InDoubt):
            tx.call(bank.tool("opaque", probe=bank.by_key), account="ops")
    bank.known = None
    run_sync(host_of(settlement).driver.resolution.ask_again())
    clock.advance(DAY)
    run_sync(host_of(settlement).driver.resolution.ask_again())
    assert [doubt.key for doubt in settlement.in_doubt()] == ["sweep#1/0"]
    bank.known = "w1"
    clock.advance(DAY)
    run_sync(host_of(settlement).driver.resolution.ask_again())
    assert settlement.in_doubt() == []


# ---- after a restart


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def cut_off(url, clock, tool, bank, wrong=None):
    """Make a call in a process that ends before anything is sent."""

    def play(_tell):
        bank.dies = True
        given = clock.options()
        given["injected"] = replace(given["injected"], **(wrong or {}))
        with Settlement(url, **given) as settlement, settlement.transaction("sweep") as tx:
            tx.call(tool, account="ops")

    assert in_child(play).killed


@pytest.mark.parametrize(("waited", "sent"), [(DAY / 2, ["sweep#1/0"]), (DAY, [])])
def test_a_call_that_was_cut_off_is_sent_again_within_its_window_only(open_here, sqlite_url, bank, clock, waited, sent):
    tool = bank.tool()
    cut_off(sqlite_url, clock, tool, bank)
    clock.advance(waited)
    second = open_here(sqlite_url, keep_open=1e9)
    with second.transaction("sweep") as tx:
        if sent:
            assert tx.call(tool, account="ops") == "w1"
        else:
            with pytest.raises(InDoubt, match="not sent again: its counterparty remembers a key for 86400 s"):
                tx.call(tool, account="ops")
    assert bank.log == sent


@pytest.mark.parametrize("ahead", [-10 * DAY, -600, 600, 10 * DAY])
@pytest.mark.parametrize("over", [False, True], ids=["within", "past"])
def test_a_window_goes_by_the_stores_clock_however_wrong_that_of_a_host_is(
    open_here, sqlite_url, bank, clock, ahead, over
):
    tool = bank.tool()
    cut_off(sqlite_url, clock, tool, bank, {"clock": lambda: clock() + ahead})
    clock.advance(DAY if over else DAY / 2)
    with open_here(sqlite_url, keep_open=1e9).transaction("sweep") as tx:
        if over:
            with pytest.raises(InDoubt, match="not sent again"):
                tx.call(tool, account="ops")
        else:
            assert tx.call(tool, account="ops") == "w1"
    assert len(bank.log) == (0 if over else 1)


def test_a_key_that_seems_to_be_sent_after_now_is_of_unknown_age_and_not_sent_again(open_here, sqlite_url, bank, clock):
    tool = bank.tool()
    # Then somebody set the store's clock back.
    cut_off(sqlite_url, clock, tool, bank, {"store_clock": lambda: clock() + 3_600})
    with open_here(sqlite_url, keep_open=1e9).transaction("sweep") as tx:
        with pytest.raises(InDoubt, match="not sent again"):
            tx.call(tool, account="ops")
    assert bank.log == []


def test_one_that_was_cut_off_and_did_not_happen_is_decided_anew_past_its_window(
    open_here, sqlite_url, bank, clock, recorded
):
    bank.known = None
    tool = bank.tool(probe=bank.by_account)
    cut_off(sqlite_url, clock, tool, bank)
    clock.advance(DAY)
    second = open_here(sqlite_url, keep_open=1e9)
    with second.transaction("sweep") as tx:
        with pytest.raises(
            Refused, match="wire on account:/ops did not happen, and is not sent again.*make a new call"
        ) as told:
            tx.call(tool, account="ops")
        assert told.value.data == {"transaction": "sweep", "epoch": tx.epoch, "key": "sweep#1/0"}
        assert tx.call(tool, account="ops") == "w1"
    assert bank.log == ["sweep#1/1"]
    assert recorded(second, "sweep") == [("committed", [("wire", "failed", None), ("wire", "confirmed", None)])]


# ---- declaring it


@pytest.mark.parametrize("window", [0, -1, True, "24 h"])
def test_a_window_that_is_no_time_is_refused(window):
    with pytest.raises(DeclarationError, match="give the seconds for which the counterparty remembers a key"):
        effect("idempotent", scope="account:/a", window=window)(lambda: None)
