"""A step in memory that fails is not taken at all: neither the record nor the protocol has a half of it."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy

import pytest
from tests.rooms.memory import ledger as _memory
from tests.rooms.protocol import FINISHED
from tests.rooms.replica import image

from settlemark import LedgerError, SettlemarkError, Stale
from settlemark.hosting import host_of

FAULTS = {
    "no room": LedgerError("no room"),
    "a text": UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates not allowed"),
    "an interrupt": KeyboardInterrupt(),
}


def whole(ledger):
    """All that a ledger has: the protocol's state, and the record."""
    protocol, record = deepcopy(image(ledger.protocol)), [deepcopy(each) for each in ledger.book.transactions()]
    return (
        protocol,
        record,
        dict(ledger.book._fences),
        sorted(ledger.book._effects),
        sorted(ledger.book._last),
        list(ledger.book._finished),
    )


class Failing:
    """Has the n-th write of a ledger raise, when it is made, and compares what is there before and after its step."""

    def __init__(self, ledger, at, fault):
        self.ledger, self.at, self.fault = ledger, at, fault
        self.writes, self.steps = 0, 0
        self.wrong = []
        self._now, self._write = ledger.now, ledger.book.write
        ledger.now, ledger.book.write = self.now, self.write

    def write(self, changes):
        self._write(changes)
        self.writes += 1
        if self.writes == self.at:
            raise self.fault

    def now(self, step, *, told=True):
        def looking(protocol, book):
            before.append(whole(self.ledger))
            return step(protocol, book)

        before, written = [], self.writes
        try:
            return self._now(looking, told=told)
        finally:
            if written < self.at <= self.writes:
                self.steps += 1
                with self.ledger.lock:
                    after = whole(self.ledger)
                self.wrong += [(b, a) for b, a in zip(before[0], after, strict=True) if b != a]


def play(settlement, tools):
    """Do a bit of everything."""
    run, call = settlement.run, lambda tx, tool, **given: tx.call(getattr(tools, tool), **given)
    left = []

    def leave():
        left.append(settlement.transaction("left").__enter__())
        call(left[0], "book", room="d")
        settlement.cancel("left")

    acts = [
        lambda: run("kept", lambda tx: (call(tx, "book", room="a"), call(tx, "send", to="ada"))),
        lambda: run("fails", lambda tx: (call(tx, "book", room="b"), call(tx, "put", cell="c", value=1), 1 / 0)),
        lambda: run("charges", lambda tx: (call(tx, "look", room="a"), call(tx, "charge", account="x", amount=1))),
        leave,
        lambda: run("kept", lambda tx: call(tx, "book", room="a")),
    ]
    for act in acts:
        with suppress(SettlemarkError, ZeroDivisionError, KeyboardInterrupt, UnicodeError, Stale):
            act()


@pytest.mark.parametrize(
    ("fault", "every"), [("no room", 1), ("no room", 1_000), ("a text", 1), ("an interrupt", 1_000)]
)  # the protocol begins anew from an image, or from all of its steps
def test_of_a_step_whose_write_fails_nothing_stays_whichever_write_it_is(
    fault, every, open_settlement, tools, monkeypatch
):
    fault = FAULTS[fault]
    monkeypatch.setattr(_memory, "IMAGE_EVERY", every)
    counting = Failing(host_of(first := open_settlement(wait=1)).ledger, 0, fault)
    play(first, tools)
    assert counting.writes > 20
    failed = 0
    for at in range(1, counting.writes + 1):
        settlement = open_settlement(wait=1)
        failing = Failing(host_of(settlement).ledger, at, fault)
        play(settlement, tools)
        assert failing.wrong == [], at
        failed += failing.steps
        # What lost its end by the fault is ended by whoever recovers: the next to look finds all of it finished.
        for txn in list(host_of(settlement).protocol.live.values()):
            with suppress(SettlemarkError):
                settlement.cancel(txn.run)
        settlement.recover(keep_open=0)
        live = [f"{txn.name} is {txn.state}" for txn in host_of(settlement).protocol.live.values()]
        assert (at, live) == (at, [])
        assert [r.row.name for r in settlement.transactions() if r.state not in FINISHED] == []
    assert failed == counting.writes


def test_a_step_that_nobody_hears_of_is_not_taken_when_it_has_a_fault(open_settlement, tools):
    ledger = host_of(open_settlement()).ledger
    before = whole(ledger)

    def faulty(protocol, _book):
        protocol.cancel("gone")
        raise ValueError("a fault of our own")

    ledger.later(faulty)
    assert whole(ledger) == before
