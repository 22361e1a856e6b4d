"""A call that failed, or was suspended, acts again under its key: as safely as it did the first time."""

from __future__ import annotations

import pytest
from tests.rooms.record import SqlBook

from settlemark import LedgerError, Outcome, Refused
from settlemark.agents import open_turn
from settlemark.hosting import host_of, run_sync
from settlemark.ledger import OutcomeChange


class Boom(Exception):
    """What a tool fails with."""


class Ask(Exception):
    """A framework's control flow: it suspends a call."""


def is_intent(change):
    return isinstance(change, OutcomeChange) and change.outcome is Outcome.INTENDED


class Again:
    """A booking that has failed, or was suspended, and that is made again in the same transaction."""

    def __init__(self, settlement, tools, how):
        self.settlement, self.how = settlement, how
        self.batch = run_sync(open_turn(settlement, "trip", run="trip", resumable=True, let_through=(Ask,)))
        self.call = self.batch.place(host_of(settlement).tools.of(tools.book), {"room": "a"}, call_id="1")
        self.error = Boom("full") if how == "failed" else Ask()

        def stop():
            raise self.error

        with pytest.raises(type(self.error)):
            self.run(stop)

    @property
    def txn(self):
        return self.batch.attempt.txn

    @property
    def held(self):
        self.settlement.transactions()  # what is known by now is noted
        return self.txn.claims, self.txn.running

    def run(self, tool):
        return run_sync(self.batch.perform(self.call, tool, {"room": "a"}))

    def end(self):
        run_sync(self.batch.leave(self.call))
        run_sync(self.batch.finish(self.call))


@pytest.fixture(params=["failed", "suspended"])
def again(request, settlement, tools):
    return Again(settlement, tools, request.param)


@pytest.mark.every_store
def test_its_intent_is_on_record_and_it_holds_what_it_acts_on_before_it_acts_again(again, tools, world, recorded):
    seen = []

    def book():
        seen.append((recorded(again.settlement, "trip"), again.held))
        return tools.book("a")

    assert again.held == ((0, 0) if again.how == "failed" else (1, 0))
    assert again.run(book) == {"confirmation": "R-a"}
    assert seen == [([("open", [("book", "intended", None)])], (1, 1))]
    again.end()
    assert recorded(again.settlement, "trip") == [("committed", [("book", "confirmed", None)])]
    assert (world.log, host_of(again.settlement).protocol.live, again.settlement.residue()) == ([("book", "a")], {}, [])


@pytest.mark.parametrize("how", ["failed", "suspended"])
def test_its_intent_is_on_disk_before_it_acts_again(how, open_settlement, tools, tmp_path, monkeypatch):
    again = Again(open_settlement(f"sqlite:///{tmp_path / 'ledger.db'}"), tools, how)
    keep, levels = SqlBook.write, []

    def write(book, changes):
        if any(map(is_intent, changes)):
            levels.append(book._wire._driver.execute("PRAGMA synchronous").fetchone()[0])
        keep(book, changes)

    monkeypatch.setattr(SqlBook, "write", write)
    again.run(lambda: tools.book("a"))
    again.end()
    assert levels == [2]


@pytest.mark.every_store
def test_what_cannot_be_recorded_does_not_act_again_and_nothing_changed(
    again, tools, world, recorded, in_step, disk_full
):
    before, held, full = recorded(again.settlement, "trip"), again.held, [True]

    def fail():
        if full:
            raise disk_full(host_of(again.settlement).ledger)

    in_step(again.settlement, is_intent, fail)
    with pytest.raises(LedgerError, match="full"):
        again.run(lambda: tools.book("a"))
    assert (world.log, again.held, recorded(again.settlement, "trip")) == ([], held, before)
    full.clear()
    assert again.run(lambda: tools.book("a")) == {"confirmation": "R-a"}
    again.end()
    assert recorded(again.settlement, "trip") == [("committed", [("book", "confirmed", None)])]


@pytest.mark.every_store
def test_what_is_cancelled_before_its_intent_is_on_record_does_not_act_again(again, tools, world, recorded):
    time, cancelled = host_of(again.settlement).ledger.time, []

    def cancel():
        if not cancelled:
            cancelled.append(True)
            host_of(again.settlement).ledger.later(lambda protocol, _book: protocol.cancel("trip"))
        return time()

    host_of(again.settlement).ledger.time = cancel
    with pytest.raises(Refused, match="trip was cancelled"):
        again.run(lambda: tools.book("a"))
    assert (world.log, host_of(again.settlement).protocol.live, again.settlement.residue()) == ([], {}, [])
    ((state, _),) = recorded(again.settlement, "trip")
    assert state == "aborted"


@pytest.mark.every_store
def test_what_could_not_be_recorded_did_not_act_again_so_nothing_of_it_is_undone(
    again, tools, world, recorded, in_step, disk_full
):
    full = [True]

    def fail():
        if full:
            raise disk_full(host_of(again.settlement).ledger)

    in_step(again.settlement, is_intent, fail)
    with pytest.raises(LedgerError, match="full") as refused:
        again.run(lambda: tools.book("a"))
    full.clear()
    run_sync(again.batch.abandon(refused.value))
    ((state, _),) = recorded(again.settlement, "trip")
    assert (state, world.log, again.settlement.residue(), host_of(again.settlement).protocol.live) == (
        "aborted",
        [],
        [],
        {},
    )


def test_what_is_put_aside_after_it_has_written_is_on_disk_and_what_has_not_waits_for_no_disk(
    open_settlement, tools, tmp_path, monkeypatch
):
    settlement, waited = open_settlement(f"sqlite:///{tmp_path / 'ledger.db'}"), []
    submit = host_of(settlement).ledger.submit

    def submitted(step, *, durable, **options):
        waited.append(durable)
        return submit(step, durable=durable, **options)

    for name, writes in (("reads", False), ("writes", True)):
        batch = run_sync(open_turn(settlement, name, run=name, resumable=True, let_through=(Ask,)))
        call = batch.place(
            host_of(settlement).tools.of(tools.book if writes else tools.look), {"room": name}, call_id="1"
        )

        def stop():
            raise Ask

        with pytest.raises(Ask):
            run_sync(batch.perform(call, stop, {"room": name}))
        monkeypatch.setattr(host_of(settlement).ledger, "submit", submitted)
        run_sync(host_of(settlement).driver.undoing.suspend(batch.attempt))
        monkeypatch.setattr(host_of(settlement).ledger, "submit", submit)
        assert (waited, batch.attempt.suspended) == ([writes], True)
        waited.clear()
