"""The treasury's wire, whose acknowledgement is lost: one wire, whatever happens, judged from the bank's own log.

An end-of-day agent sweeps 1.2 million into a fund. The bank does it, and its answer never arrives. Sending
again may pay twice, not sending may pay never: the bank is asked, or sent the same key, or a person decides.
"""

from __future__ import annotations

import pytest

from settlemark import InDoubt, Outcome, Settlement, current_call, effect, inverse
from settlemark.hosting import host_of, run_sync
from settlemark.testing import Bank, die, in_child

OPENING = {"ops": 2_000_000, "fund": 0}
AMOUNT = 1_200_000
SWEPT = {"fund": 1_200_000, "ops": 800_000}
DAY = 86_400.0
NAME = "eod-2026-11-20/sweep"
KEY = f"{NAME}#1/0"

pytestmark = pytest.mark.every_store


@pytest.fixture(scope="module")
def banks():
    """A bank that honours keys, and one to which a key is a mere reference."""
    with Bank(OPENING) as keyed, Bank(OPENING, keyed=False) as careless:
        yield {True: keyed, False: careless}


@pytest.fixture
def bank(banks):
    banks[True].heal()
    banks[True].reset()
    return banks[True]


@pytest.fixture
def careless(banks):
    banks[False].heal()
    banks[False].reset()
    return banks[False]


@pytest.fixture
def treasury(open_here):
    """Open a treasury's settlement, where nobody asks again but the test itself."""
    return lambda url, **options: open_here(url, **{"keep_open": 0, **options})


def wire_at(bank, kind="irreversible", **parts):
    """The tool, as a treasury declares it for one bank or another."""

    @effect(kind, scope="account:/{source}", **parts)
    def wire(source, target, amount):
        return {"wire": bank.wire(current_call().key, source, target, amount)}

    return wire


def status_at(bank):
    def status(key):
        sent = bank.status(key)
        return None if sent is None else {"wire": sent["id"]}

    return status


def sweep(settlement, wire):
    with settlement.transaction(NAME) as tx:
        tx.call(wire, source="ops", target="fund", amount=AMOUNT)


def events(bank):
    return [entry["event"] for entry in bank.wires()]


def keys(bank):
    return {entry["key"] for entry in bank.wires() if entry["key"] is not None}


def outcome(settlement, key=KEY):
    recorded = host_of(settlement).ledger.read(lambda book: book.find(key))
    (found,) = recorded.effects
    return recorded.state.value, found.outcome.value, found.tag and found.tag.value


def recover(settlement):
    """Have ended what a process left; the settlement may be at it already, by itself."""
    settlement.recover(keep_open=0)
    for txn in list(host_of(settlement).protocol.live.values()):
        run_sync(host_of(settlement).driver.fences.until_over(txn, host_of(settlement).driver.kernel.monotonic() + 20))
    assert host_of(settlement).protocol.live == {}


# ---- (a), (b), (c): three banks


def test_a_bank_that_honours_keys_is_sent_the_same_key_and_pays_once(url, treasury, bank):
    bank.lose_answer()
    settlement = treasury(url)
    sweep(settlement, wire_at(bank, keyed=True))
    assert events(bank) == ["booked", "replayed"]
    assert (keys(bank), bank.balances()) == ({KEY}, SWEPT)
    assert (outcome(settlement), settlement.in_doubt()) == (("committed", "confirmed", None), [])


def test_a_bank_that_only_tells_is_asked_and_pays_once(url, treasury, careless):
    careless.lose_answer()
    settlement = treasury(url)
    sweep(settlement, wire_at(careless, probe=status_at(careless)))
    assert events(careless) == ["booked"]
    assert careless.balances() == SWEPT
    assert (outcome(settlement), settlement.in_doubt()) == (("committed", "confirmed", None), [])


def test_a_wire_that_never_arrived_is_sent_again_under_its_key(url, treasury, careless):
    calls = []

    @effect("irreversible", scope="account:/{source}", probe=status_at(careless))
    def wire(source, target, amount):
        calls.append(current_call().key)
        if len(calls) == 1:
            raise TimeoutError("lost on its way there")
        return {"wire": careless.wire(calls[-1], source, target, amount)}

    sweep(treasury(url), wire)
    assert (calls, events(careless), careless.balances()) == ([KEY, KEY], ["booked"], SWEPT)


def test_at_a_bank_that_neither_deduplicates_nor_tells_a_person_decides(url, treasury, careless):
    careless.lose_answer()
    settlement = treasury(url)
    with pytest.raises(InDoubt, match=r"wire on account:/ops is unknown .*: do not repeat it; ask the counterparty"):
        sweep(settlement, wire_at(careless))
    assert events(careless) == ["booked"]
    (doubt,) = settlement.in_doubt()
    assert (doubt.transaction, doubt.tool, doubt.scope, doubt.key) == (NAME, "wire", "account:/ops", KEY)
    assert "the connection broke before an answer" in doubt.why
    assert "ask its counterparty by the key" in doubt.remedy
    (found,) = careless.wires()  # ada looks at the bank's own statement
    verdict = settlement.resolve(doubt, "confirmed", by="ada", note="on the statement", result={"wire": found["id"]})
    assert verdict is Outcome.CONFIRMED
    assert (outcome(settlement), settlement.in_doubt(), settlement.residue()) == (
        ("committed", "confirmed", None),
        [],
        [],
    )
    assert (events(careless), careless.balances()) == (["booked"], SWEPT)


def test_an_agent_that_goes_on_and_comes_back_is_told_the_same_again_and_nothing_is_sent(url, treasury, careless):
    careless.lose_answer()
    settlement = treasury(url)
    wire = wire_at(careless, "opaque")
    for _ in range(2):
        with settlement.transaction(NAME) as tx:
            with pytest.raises(InDoubt, match="do not repeat it"):
                tx.call(wire, source="ops", target="fund", amount=AMOUNT)
    assert (events(careless), careless.balances()) == (["booked"], SWEPT)


# ---- the bank is slow to tell


def test_a_bank_that_cannot_tell_yet_is_asked_until_it_can(url, treasury, clock, careless):
    closed = [True]

    def status(key):
        if closed:
            raise ConnectionError("the bank's status service is closed")
        return status_at(careless)(key)

    careless.lose_answer()
    settlement = treasury(url)
    with pytest.raises(InDoubt):
        sweep(settlement, wire_at(careless, probe=status))
    run_sync(host_of(settlement).driver.resolution.ask_again())
    for _ in range(4):
        clock.advance(host_of(settlement).driver.resolution.until_due())
        run_sync(host_of(settlement).driver.resolution.ask_again())
    assert outcome(settlement) == ("committed", "unknown", "unresolved")
    closed.clear()
    clock.advance(host_of(settlement).driver.resolution.until_due())
    run_sync(host_of(settlement).driver.resolution.ask_again())
    assert (outcome(settlement), settlement.in_doubt()) == (("committed", "confirmed", None), [])
    assert (events(careless), careless.balances()) == (["booked"], SWEPT)


# ---- (d): the process dies between the wire and its acknowledgement


def killed_behind_the_wire(url, bank, **parts):
    """Sweep in a process that is killed when the bank has done it; nothing of its answer is seen."""

    @effect(parts.pop("kind", "irreversible"), scope="account:/{source}", **parts)
    def wire(source, target, amount):
        with Bank.connect(**bank.address) as there:
            there.wire(current_call().key, source, target, amount)
        die()

    def play(_tell):
        with Settlement(url) as settlement:
            sweep(settlement, wire)

    assert in_child(play).killed
    assert events(bank) == ["booked"]


def test_the_next_process_sends_the_same_key_and_the_bank_pays_once(shared_url, treasury, bank):
    killed_behind_the_wire(shared_url, bank, keyed=True)
    wire_at(bank, keyed=True)
    settlement = treasury(shared_url)
    recover(settlement)
    assert events(bank) == ["booked", "replayed"]
    assert (keys(bank), bank.balances()) == ({KEY}, SWEPT)
    assert outcome(settlement) == ("committed", "confirmed", None)


def test_the_next_process_asks_and_sends_nothing(shared_url, treasury, careless):
    killed_behind_the_wire(shared_url, careless, probe=status_at(careless))
    wire_at(careless, probe=status_at(careless))
    settlement = treasury(shared_url)
    recover(settlement)
    assert (events(careless), careless.balances()) == (["booked"], SWEPT)
    assert outcome(settlement) == ("committed", "confirmed", None)


def test_the_next_process_can_only_name_it(shared_url, treasury, careless):
    killed_behind_the_wire(shared_url, careless)
    wire_at(careless)
    settlement = treasury(shared_url)
    recover(settlement)
    assert events(careless) == ["booked"]
    assert outcome(settlement) == ("committed", "unknown", "unresolved")
    assert [(d.key, d.why) for d in settlement.in_doubt()] == [
        (KEY, "its process ended before the answer was recorded")
    ]


def test_an_open_sweep_of_a_dead_process_is_found_and_reversed(shared_url, treasury, careless):
    parts = {"probe": status_at(careless), "undo": inverse(careless.reverse, wire_id="wire")}
    killed_behind_the_wire(shared_url, careless, kind="reversible", **parts)
    wire_at(careless, "reversible", **parts)
    settlement = treasury(shared_url)
    recover(settlement)
    assert (events(careless), careless.balances()) == (["booked", "cancelled"], {"fund": 0, "ops": 2_000_000})
    assert outcome(settlement) == ("aborted", "undone", "clean")


# ---- (e): the confirmation comes hours later, by another way


def lost_and_undone(settlement, bank, kind="reversible", **parts):
    """The answer is lost, nobody can be asked, and the agent gives up."""
    if kind == "reversible":
        parts["undo"] = inverse(bank.reverse, wire_id="wire")
    bank.lose_answer()
    with pytest.raises(InDoubt):
        sweep(settlement, wire_at(bank, kind, **parts))
    assert outcome(settlement) == ("aborted", "unknown", "unresolved")
    (entry,) = bank.wires()
    return entry["id"]


def test_a_confirmation_after_the_abort_has_the_wire_reversed_once(url, treasury, clock, careless):
    settlement = treasury(url)
    wire_id = lost_and_undone(settlement, careless)
    clock.advance(6 * 3600)
    for _ in range(3):  # webhooks come at least once
        assert settlement.confirm(KEY, {"wire": wire_id}, note="camt.054") is Outcome.UNDONE
    assert (events(careless), careless.balances()) == (["booked", "cancelled"], OPENING)
    assert (outcome(settlement), settlement.in_doubt(), settlement.residue()) == (
        ("aborted", "undone", "clean"),
        [],
        [],
    )


def test_a_confirmation_of_a_wire_without_a_reversal_is_named(url, treasury, careless):
    settlement = treasury(url)
    wire_id = lost_and_undone(settlement, careless, "opaque")
    assert settlement.confirm(KEY, {"wire": wire_id}) is Outcome.CONFIRMED
    assert (events(careless), careless.balances()) == (["booked"], SWEPT)
    (left,) = settlement.residue()
    assert (left.key, left.result) == (KEY, {"wire": wire_id})
    assert left.note.startswith("it happened after its transaction was undone, and opaque effects of wire have no undo")


def test_a_reversal_that_its_process_did_not_survive_is_carried_on_by_the_next(shared_url, treasury, careless):
    settlement = treasury(shared_url)
    wire_id = lost_and_undone(settlement, careless)
    settlement.close()

    def reverse_and_die(result):
        with Bank.connect(**careless.address) as there:
            there.reverse(result["wire"])
        die()

    def webhook(_tell):
        wire_at(careless, "reversible", undo=reverse_and_die)
        with Settlement(shared_url) as there:
            there.confirm(KEY, {"wire": wire_id})

    assert in_child(webhook).killed
    assert events(careless) == ["booked", "cancelled"]
    wire_at(careless, "reversible", undo=inverse(careless.reverse, wire_id="wire"))
    settlement = treasury(shared_url)
    recover(settlement)
    assert (events(careless), careless.balances()) == (["booked", "cancelled", "cancel-replayed"], OPENING)
    assert (outcome(settlement), settlement.in_doubt(), settlement.residue()) == (
        ("aborted", "undone", "clean"),
        [],
        [],
    )
    assert host_of(settlement).protocol.live == {}


def test_a_truth_that_its_process_did_not_act_on_is_acted_on_by_the_next(shared_url, treasury, clock, careless):
    settlement = treasury(shared_url)
    wire_id = lost_and_undone(settlement, careless)
    host_of(settlement).driver.kernel.declaration = lambda _tool, _version=None: None  # a web server: it has no tools
    assert settlement.confirm(KEY, {"wire": wire_id}) is Outcome.CONFIRMED
    settlement.close()
    assert events(careless) == ["booked"]
    following = treasury(shared_url)
    run_sync(host_of(following).driver.resolution.ask_again())
    assert (events(careless), careless.balances()) == (["booked", "cancelled"], OPENING)
    assert outcome(following) == ("aborted", "undone", "clean")


# ---- (f): past the window


def test_past_its_window_no_wire_is_sent_again(shared_url, treasury, clock, bank):
    killed_behind_the_wire(shared_url, bank, keyed=True, window=DAY)
    wire_at(bank, keyed=True, window=DAY)
    clock.advance(400 * DAY)  # the child lived in real time, the clock begins in January
    settlement = treasury(shared_url)
    recover(settlement)
    assert events(bank) == ["booked"]
    assert outcome(settlement) == ("committed", "unknown", "unresolved")
    (doubt,) = settlement.in_doubt()
    assert "not sent again: its counterparty remembers a key for 86400 s, which have passed" in doubt.why


def test_past_its_window_the_bank_is_still_asked(shared_url, treasury, clock, bank):
    killed_behind_the_wire(shared_url, bank, keyed=True, window=DAY, probe=status_at(bank))
    wire_at(bank, keyed=True, window=DAY, probe=status_at(bank))
    clock.advance(400 * DAY)
    settlement = treasury(shared_url)
    recover(settlement)
    assert (events(bank), bank.balances()) == (["booked"], SWEPT)
    assert outcome(settlement) == ("committed", "confirmed", None)
