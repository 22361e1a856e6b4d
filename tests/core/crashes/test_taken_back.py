"""A step that its store does not take has not been: not on record, not in the replica, not in what a process knows."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from tests.core.crashes.programs import PATIENCE, Beside
from tests.core.crashes.sweep import Case, judged
from tests.core.crashes.test_recovery import ends, until, until_over, waits_behind
from tests.core.crashes.tools import tools
from tests.rooms.protocol import Mode
from tests.rooms.replica import Own, image, load
from tests.rooms.runtime import carry_out
from tests.rooms.sql import wire

from settlemark import LedgerError, Outcome, Refused, Scope, State
from settlemark.hosting import Protocol, Reason, host_of, run_sync
from settlemark.observe import Recovered
from settlemark.testing import die, in_child

A, B = Scope.parse("cell:/a"), Scope.parse("cell:/b")


class Store:
    """A SQLite store that may refuse to commit so many times, and from then on to do anything at all."""

    def __init__(self):
        self.refuses = 0
        self.then_is_down = False
        self.is_down = False
        self._writes = False

    def watch(self, moment, text):
        if moment == "after":
            return
        writes = text == "COMMIT" and self._writes
        self._writes = text == "BEGIN IMMEDIATE" or (self._writes and text != "COMMIT")
        if self.is_down or (writes and self.refuses):
            self.refuses -= not self.is_down
            self.is_down = self.is_down or self.then_is_down
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error


@pytest.fixture
def store():
    """What the SQLite stores of this process refuse."""
    found = Store()
    wire.watchers.append(found.watch)
    yield found
    wire.watchers.remove(found.watch)


@pytest.fixture
def file(tmp_path):
    return Case(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "desk.db")


def done(desk):
    return [(verb, cell) for verb, cell, *_ in desk.log()]


# ---- what a process knows of its own


@pytest.mark.parametrize("unreadable", [False, True])
def test_a_beginning_that_is_refused_leaves_nothing_behind(file, still, store, unreadable):
    settlement, desk = file.open()
    with settlement, closing(desk):
        store.refuses, store.then_is_down = 1, unreadable
        with pytest.raises(LedgerError, match="disk I/O error"):
            settlement.transaction("trip", may_touch="cell:/a").__enter__()
        store.is_down = store.then_is_down = False
        assert (host_of(settlement).driver.kernel.attempts, settlement.transactions()) == ({}, [])
        with settlement.transaction("trip", wait=0) as tx:
            tx.call(tools(desk)["add"], cell="a")
        assert (tx.attempt, tx.state, host_of(settlement).driver.kernel.attempts) == (1, State.COMMITTED, {})


@pytest.mark.parametrize("unreadable", [False, True])
def test_a_beginning_that_is_refused_with_its_first_step_leaves_nothing_behind(file, still, store, unreadable):
    settlement, desk = file.open()
    with settlement, closing(desk):
        with pytest.raises(LedgerError, match="disk I/O error"), settlement.transaction("trip") as tx:
            store.refuses, store.then_is_down = 1, unreadable
            try:
                tx.call(tools(desk)["add"], cell="a")
            finally:
                store.is_down = store.then_is_down = False
        assert (settlement.transactions(), host_of(settlement).driver.kernel.attempts, done(desk)) == ([], {}, [])
        with settlement.transaction("trip", wait=0) as tx:
            tx.call(tools(desk)["add"], cell="a")
        assert (tx.state, host_of(settlement).driver.kernel.attempts) == (State.COMMITTED, {})
        assert done(desk) == [("write", "a")]


def test_taking_up_that_is_refused_is_taken_up_again(file, still, store):
    first, _ = file.open()
    tx = first.transaction("trip").__enter__()
    tx.call(tools(_)["add"], cell="a")
    first.close()
    settlement, desk = file.open()
    with settlement, closing(desk):
        store.refuses = 1
        with pytest.raises(LedgerError, match="disk I/O error"):
            settlement.recover(keep_open=0)
        assert (host_of(settlement).driver.kernel.attempts, done(desk)) == ({}, [("write", "a")])
        assert settlement.recover(keep_open=0).undone == ["trip"]
        assert done(desk) == [("write", "a"), ("undo", "a")]
        assert (host_of(settlement).driver.kernel.attempts, judged(settlement, desk)) == ({}, [])


def test_coming_back_that_is_refused_leaves_it_put_aside(file, still, store):
    settlement, desk = file.open()
    add = tools(desk)["add"]
    with settlement, closing(desk):
        with settlement.transaction("trip", park="keep") as tx:
            tx.call(add, cell="a")
            tx.park()
        before = settlement.transactions()
        store.refuses = 1
        with pytest.raises(LedgerError, match="disk I/O error"):
            settlement.transaction("trip").__enter__()
        assert (settlement.transactions(), len(host_of(settlement).driver.kernel.attempts)) == (before, 1)
        with settlement.transaction("trip", wait=0) as tx:
            assert tx.call(add, cell="a") == 1
        assert (tx.state, done(desk)) == (State.COMMITTED, [("write", "a")])
        assert host_of(settlement).driver.kernel.attempts == {}


# ---- what others hold of the replica


@pytest.mark.parametrize("refused", range(1, 6))
def test_an_undo_goes_on_whichever_of_its_steps_are_refused(file, store, refused):
    settlement, desk = file.open(lease=600)
    with settlement, closing(desk):
        with pytest.raises(ZeroDivisionError), settlement.transaction("trip") as tx:
            tx.call(tools(desk)["add"], cell="a")
            tx.call(tools(desk)["put"], cell="b")
            store.refuses = refused
            raise ZeroDivisionError
        until_over(settlement)
        store.refuses = 0  # there were fewer steps
        assert (tx.state, ends(settlement)) == (State.ABORTED, {"trip": State.ABORTED})
        assert done(desk) == [("write", "a"), ("undo", "a")]
        assert (host_of(settlement).driver.kernel.attempts, judged(settlement, desk)) == ({}, [])


def test_a_call_that_failed_is_over_although_that_was_refused_at_first(file, store):
    settlement, desk = file.open(lease=600)
    add = tools(desk)["add"]

    def fails(*_asked, **_options):
        store.refuses = 1
        raise ValueError("no")

    with settlement, closing(desk):
        with pytest.raises(Refused), settlement.transaction("trip") as tx:
            ask, desk.ask = desk.ask, fails
            with pytest.raises(ValueError, match="no"):
                tx.call(add, cell="a")
            desk.ask = ask
            until(lambda: not store.refuses)
            settlement.cancel("trip")
        until_over(settlement)
        assert (tx.state, host_of(settlement).driver.kernel.attempts, done(desk)) == (State.ABORTED, {}, [])
        assert (host_of(settlement).protocol.live, settlement.residue()) == ({}, [])


def test_whoever_waited_goes_on_although_the_step_that_let_it_was_refused_at_first(file, still, store):
    settlement, desk = file.open()
    add = tools(desk)["add"]
    with settlement, closing(desk):
        older = settlement.transaction("older").__enter__()
        older.call(add, cell="a")

        def younger():
            with settlement.transaction("younger") as tx:
                tx.call(add, cell="a")

        waits = Beside(younger)
        waits.start()
        until(settlement.waiting)
        store.refuses = 1
        older.abort()
        waits.join()
        assert ends(settlement) == {"older": State.ABORTED, "younger": State.COMMITTED}
        assert done(desk) == [("write", "a"), ("undo", "a"), ("write", "a")]


# ---- a decision


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("unreadable", [False, True])
def test_a_decision_that_is_refused_is_none_and_all_is_undone(file, store, held, unreadable):
    settlement, desk = file.open(lease=600)
    known = tools(desk)

    def fails(_footprint):
        store.refuses, store.then_is_down = 1, unreadable

    with settlement, closing(desk):
        with pytest.raises(LedgerError, match="disk I/O error"):
            with settlement.transaction("trip", before_commit=fails) as tx:
                tx.call(known["add"], cell="a")
                if held:
                    tx.call(known["wire"], cell="b")
        store.is_down = store.then_is_down = False
        until_over(settlement)
        assert (ends(settlement), done(desk)) == ({"trip": State.ABORTED}, [("write", "a"), ("undo", "a")])
        assert (tx.state, host_of(settlement).driver.kernel.attempts, judged(settlement, desk)) == (
            State.ABORTED,
            {},
            [],
        )


# ---- a release


def stopped(settlement, desk, store, tool):
    """Have a store fail behind the second of four releases."""
    known, ask = tools(desk), desk.ask

    def fails(verb, cell, *asked, **options):
        store.is_down = cell == "b"
        return ask(verb, cell, *asked, **options)

    desk.ask = fails
    with pytest.raises(LedgerError, match="trip is decided, and 2 of its 4 held effects have left"):
        with settlement.transaction("trip") as tx:
            for cell in "abcd":
                tx.call(known[tool], cell=cell)
    desk.ask = ask
    assert (tx.state, len(done(desk))) == (State.RELEASING, 2)
    return tx


@pytest.mark.parametrize("tool", ["wire", "send", "register", "put_blind"])
def test_a_release_that_the_store_stops_goes_on_and_nobody_has_to_be_asked(file, store, tool):
    settlement, desk = file.open(lease=600)
    with settlement, closing(desk):
        tx = stopped(settlement, desk, store, tool)
        store.is_down = False
        until_over(settlement)
        verb = {"send": "plain letter", "put_blind": "write"}.get(tool, "letter")
        assert (tx.state, done(desk)) == (State.COMMITTED, [(verb, cell) for cell in "abcd"])
        assert [e.outcome for r in settlement.transactions() for e in r.effects] == [Outcome.CONFIRMED] * 4
        assert (host_of(settlement).driver.kernel.attempts, settlement.residue()) == ({}, [])


@pytest.mark.parametrize("entered", [True, False])
def test_a_release_that_the_store_stops_goes_on_when_recovery_is_asked_for_or_its_name_is_entered(
    file, still, store, entered
):
    settlement, desk = file.open()
    with settlement, closing(desk):
        stopped(settlement, desk, store, "send")
        store.is_down = False
        if entered:
            with settlement.transaction("trip") as tx:
                told = [tx.call(tools(desk)["send"], cell=cell).outcome for cell in "abcd"]
            assert told == ["confirmed"] * 4
        else:
            assert settlement.recover().committed == ["trip"]
            assert not settlement.recover()
        assert (ends(settlement), settlement.residue()) == ({"trip": State.COMMITTED}, [])
        assert host_of(settlement).driver.kernel.attempts == {}
        assert done(desk) == [("plain letter", cell) for cell in "abcd"]


def test_a_release_that_the_store_stops_is_the_next_process_to_go_on_with_when_this_one_ends(file, still):
    def child(_tell):
        store = Store()
        wire.watchers.append(store.watch)
        settlement, desk = file.open()
        stopped(settlement, desk, store, "wire")
        die()

    ended = in_child(child, timeout=PATIENCE)
    assert ended.killed, ended.error or ended.stack
    settlement, desk = file.open()
    with settlement, closing(desk):
        assert settlement.recover().committed == ["trip"]
        assert done(desk) == [("letter", cell) for cell in "abcd"]
        assert (settlement.residue(), judged(settlement, desk)) == ([], [])


def test_a_run_whose_release_the_store_stops_is_told_so_at_once(file, still, store):
    settlement, desk = file.open()
    known, ask = tools(desk), desk.ask

    def fails(*asked, **options):
        store.is_down = True
        return ask(*asked, **options)

    with settlement, closing(desk):
        desk.ask = fails
        with pytest.raises(LedgerError, match="trip is decided, and 1 of its 2"):
            settlement.run("trip", lambda tx: [tx.call(known["wire"], cell=cell) for cell in "ab"], wait=0)
        desk.ask, store.is_down = ask, False
        assert settlement.recover().committed == ["trip"]
        assert done(desk) == [("letter", "a"), ("letter", "b")]


def test_a_tool_that_fails_for_good_stops_its_release_as_ever_also_with_a_ledgers_error(file, still):
    settlement, desk = file.open()
    known, ask = tools(desk), desk.ask

    def fails(verb, cell, *asked, **options):
        if cell == "b":
            raise LedgerError("of a ledger of its own", url="memory:")
        return ask(verb, cell, *asked, **options)

    with settlement, closing(desk):
        desk.ask = fails
        with pytest.raises(Exception, match="trip is committed in part"), settlement.transaction("trip") as tx:
            for cell in "abc":
                tx.call(known["wire"], cell=cell)
        assert (tx.state, done(desk)) == (State.COMMITTED, [("letter", "a")])
        assert [r.key for r in settlement.residue()] == ["trip#1/1", "trip#1/2"]
        assert (host_of(settlement).driver.kernel.attempts, host_of(settlement).protocol.live) == ({}, {})


# ---- what a store loses with its power


def a_worker():
    """Return a protocol at work, and one transaction of it with an effect in the world."""
    protocol = Protocol()
    protocol.board.closed = []
    txn = protocol.begin("trip", owner="w")
    call = protocol.request(txn, A, Mode.EAGER)
    protocol.admit(call)
    return protocol, txn, call


def put_back(protocol, before, tried=()):
    own = Own(protocol, "w", tried)
    load(protocol, before, worker="w")
    for repair in own.repairs(protocol):
        repair(protocol)


@pytest.mark.parametrize("happened", [True, False])
def test_a_return_that_the_store_has_lost_is_made_good_so_that_its_transaction_can_end(happened):
    protocol, txn, call = a_worker()
    before = image(protocol)
    protocol.acted(call, happened=happened)
    protocol.board.closed = []  # committed, and lost
    put_back(protocol, before)
    assert (txn.running, [c.returned for c in txn.calls.values()]) == (0, [True])
    protocol.abort(txn, Reason.FAILED)
    assert protocol.take_aborted() == [txn]


@pytest.mark.parametrize("happened", [True, False])
def test_a_return_that_is_told_again_is_not_made_good_twice(happened):
    protocol, txn, call = a_worker()
    before = image(protocol)
    protocol.journal = tried = []
    protocol.acted(call, happened=happened)
    protocol.journal = None
    put_back(protocol, before, tried)
    assert (txn.running, txn.calls, call.returned) == (1, {1: call}, False)
    protocol.acted(call, happened=happened)
    assert (txn.running, txn.claims) == (0, 1 if happened else 0)


def test_a_read_that_the_store_has_lost_undoes_its_transaction():
    protocol, txn, call = a_worker()
    protocol.acted(call, happened=True)
    before = image(protocol)
    protocol.admit(protocol.request(txn, B, Mode.READ))
    put_back(protocol, before)
    assert (txn.state, txn.reason) == (State.ABORTING, Reason.LOST)


def test_what_had_ended_in_a_step_that_was_not_taken_is_the_same_object_again():
    protocol, txn, call = a_worker()
    protocol.acted(call, happened=True)
    protocol.seal(txn)
    before, was = image(protocol), protocol.freeze()
    assert protocol.decide(txn) is None
    assert (txn.state, protocol.live) == (State.COMMITTED, {})
    put_back(protocol, before)
    assert (txn.state, protocol.by_id, protocol.freeze()) == (State.SEALED, {txn.id: txn}, was)
    assert (call.hold, call.returned) == (next(iter(txn.holds.values())), True)


def test_what_was_retried_in_a_step_that_was_not_taken_has_no_successor():
    protocol = Protocol()
    protocol.board.closed = []
    txn = protocol.begin("trip", owner="w", retry=True)
    before = image(protocol)
    protocol.abort(txn, Reason.WOUNDED, scope=A, holder="other")
    again = txn.successor
    put_back(protocol, before)
    assert (txn.state, txn.successor, protocol.by_id) == (State.OPEN, None, {txn.id: txn})
    assert (again.state, again.reason) == (State.ABORTED, Reason.LOST)


# ---- whose turn comes


def test_who_enters_what_was_left_sealed_goes_on_as_soon_as_the_one_before_it_has_ended(file, still):
    killed = in_child(lambda _tell: waits_behind_in(file), timeout=PATIENCE)
    assert killed.killed, killed.error or killed.stack
    settlement, desk = file.open(keep_open=PATIENCE)
    with settlement, closing(desk):
        entered = Beside(lambda: settlement.transaction("younger").__enter__())
        entered.start()
        until(lambda: host_of(settlement).protocol.named["younger"].owner == host_of(settlement).ledger.worker)
        with settlement.transaction("older"):
            pass
        entered.join()
        assert ends(settlement) == {"older": State.COMMITTED, "younger": State.COMMITTED}


def test_what_was_left_sealed_goes_on_by_itself_as_soon_as_the_one_before_it_has_ended(file):
    killed = in_child(lambda _tell: waits_behind_in(file), timeout=PATIENCE)
    assert killed.killed, killed.error or killed.stack
    settlement, desk = file.open(keep_open=PATIENCE, lease=600)
    with settlement, closing(desk):
        until(lambda: host_of(settlement).protocol.named["younger"].owner == host_of(settlement).ledger.worker)
        with settlement.transaction("older"):
            pass
        until_over(settlement)
        assert ends(settlement) == {"older": State.COMMITTED, "younger": State.COMMITTED}


def test_of_two_who_look_at_once_one_ends_what_was_left(file, still):
    killed = in_child(lambda _tell: waits_behind_in(file), timeout=PATIENCE)
    assert killed.killed, killed.error or killed.stack
    settlement, desk = file.open(keep_open=PATIENCE)
    with settlement, closing(desk):
        first = host_of(settlement).driver.recovery.take_up("younger")
        found = first.send(carry_out(next(first)))
        its_turn_has_not_come = carry_out(found)
        with settlement.transaction("older"):
            pass
        ask, looks = desk.ask, []

        def meanwhile(*asked, **options):
            if not looks:
                with pytest.raises(StopIteration) as ended:
                    first.send(its_turn_has_not_come)
                looks.extend([ended.value.value, run_sync(host_of(settlement).driver.recovery.take_up())])
            return ask(*asked, **options)

        desk.ask = meanwhile
        assert settlement.recover().committed == ["younger"]
        assert looks == [Recovered(waiting=["younger"]), Recovered()]
        assert (done(desk)[-2:], host_of(settlement).driver.kernel.attempts) == ([("write", "a"), ("letter", "c")], {})


def waits_behind_in(file):
    settlement, desk = file.open()
    waits_behind(settlement, tools(desk))
