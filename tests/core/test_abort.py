"""An abort undoes its own work and nobody else's, and names what it could not undo."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest
from tests.rooms.acts import Pending

from settlemark import (
    Cancelled,
    LateAppend,
    LedgerError,
    SettlemarkError,
    Settlement,
    State,
    Tag,
    Wounded,
    current_call,
    effect,
)
from settlemark.hosting import host_of
from settlemark.ledger import EffectRow

PATIENCE = 60


class Boom(Exception):
    """A failure of the caller's own."""


def test_a_missing_undo_is_named(settlement, world, tools):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tools.charge, account="x", amount=3)
        raise Boom
    assert [(r.tool, r.tag, r.result) for r in settlement.residue()] == [("charge", Tag.UNRESOLVED, 3)]


def test_an_undo_that_fails_for_good_is_tried_three_times_and_named_and_the_others_are_undone(settlement, world, tools):
    told = []
    host_of(settlement).driver.residue.on_residue = told.append
    world.fail("cancel", None, *[Boom("closed")] * 3)
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        for room in "abc":
            tx.call(tools.book, room=room)
        raise Boom
    assert world.log[3:] == [("cancel", "c"), ("cancel", "a")]
    (left,) = settlement.residue()
    assert (left.tool, left.scope, left.tag, left.arguments) == ("book", "room:/b", Tag.UNRESOLVED, {"room": "b"})
    assert left.note == "its undo failed 3 times: Boom: closed"
    assert told == ["trip"]


def test_an_undo_that_fails_once_is_tried_again(settlement, world, tools):
    world.fail("cancel", Boom("busy"))
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        raise Boom
    assert (world.rooms, settlement.residue()) == (set(), [])


def test_on_residue_that_raises_harms_nobody(open_settlement, tools, caplog):
    def complain(name):
        raise RuntimeError(name)

    settlement = open_settlement(on_residue=complain)
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tools.shout, word="hi")
        raise Boom
    assert tx.state is State.ABORTED
    assert "on_residue failed for trip" in caplog.text


@pytest.mark.parametrize("how", [Boom("closed"), SystemExit(3), "async cancelled"])
def test_an_undo_that_raises_never_surfaces_in_whoever_wounded_it(settlement, world, tools, how):
    async def cancelled(room):
        raise asyncio.CancelledError

    def raising(room):
        raise how

    @effect("reversible", scope="room:/{room}", undo=cancelled if isinstance(how, str) else raising)
    def reserve(room):
        world.act("reserve", room)

    with settlement.transaction("older", may_touch=["room:/a"]) as older:
        victim = settlement.transaction("younger").__enter__()
        victim.call(reserve, room="a")
        older.call(tools.book, room="a")
    with pytest.raises(Wounded):
        victim.call(tools.book, room="b")
    assert (older.state, victim.state) == (State.COMMITTED, State.ABORTED)
    assert [(r.transaction, r.tool, r.tag) for r in settlement.residue()] == [("younger", "reserve", Tag.UNRESOLVED)]
    assert (world.rooms, host_of(settlement).protocol.live) == ({"a"}, {})


@pytest.mark.parametrize("result", [object(), {1, 2}, {"x": object()}, float("nan"), "\ud800"])
def test_a_result_json_cannot_hold_neither_loses_the_effect_nor_its_undo(settlement, world, recorded, result):
    undone = []

    @effect("reversible", scope="room:/{room}", undo=lambda result: undone.append(result))
    def book(room):
        return result

    with settlement.transaction("kept") as tx:
        assert tx.call(book, room="a") is result
    with pytest.raises(Boom), settlement.transaction("undone") as tx:
        tx.call(book, room="b")
        raise Boom
    assert undone == [result]
    assert recorded(settlement, "kept") == [("committed", [("book", "confirmed", None)])]
    assert recorded(settlement, "undone") == [("aborted", [("book", "undone", "clean")])]


def test_abort_spares_peers_of_another_run_and_of_another_agent(settlement, world, tools):
    with settlement.transaction("run-2/agent-b") as peer, settlement.transaction("run-1/agent-b") as sibling:
        peer.call(tools.book, room="peer")
        sibling.call(tools.book, room="sibling")
        sibling.call(tools.send, to="sibling")
        with pytest.raises(Boom), settlement.transaction("run-1/agent-a") as tx:
            tx.call(tools.book, room="mine")
            tx.call(tools.send, to="mine")
            raise Boom
        assert world.rooms == {"peer", "sibling"}
        assert (peer.state, sibling.state) == (State.OPEN, State.OPEN)
    assert world.rooms == {"peer", "sibling"}
    assert [e for e in world.log if e[0] != "book"] == [("cancel", "mine"), ("send", "sibling", "hello")]


def late_sibling(settlement, world, tools, ending):
    """Abort a transaction while one of its calls still runs; return what that call was told."""
    started, finish = threading.Event(), threading.Event()
    told = []

    @effect("reversible", scope="slow:/{room}", undo=lambda room: world.act("undo slow", room))
    def slow(room):
        started.set()
        assert finish.wait(PATIENCE)
        world.act("slow", room)

    opening = settlement.transaction("trip/1", wait=0)
    tx = opening.__enter__()
    tx.call(tools.book, room="a")

    def sibling():
        try:
            tx.call(slow, room="late")
        except SettlemarkError as error:
            told.append(error)

    thread = threading.Thread(target=sibling)
    thread.start()
    assert started.wait(PATIENCE)
    ending(opening, tx)
    assert tx.state is State.ABORTING
    finish.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    return tx, told


def test_late_sibling_still_running_when_its_turn_aborted_leaves_nothing(settlement, world, tools, recorded):
    boom = Boom()
    tx, (told,) = late_sibling(settlement, world, tools, lambda opening, _: opening.__exit__(Boom, boom, None))
    assert "trip/1 was undone" in str(told)
    assert world.log == [("book", "a"), ("slow", "late"), ("undo slow", "late"), ("cancel", "a")]
    assert tx.state is State.ABORTED
    assert recorded(settlement, "trip/1") == [("aborted", [("book", "undone", "clean"), ("slow", "undone", "clean")])]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_late_sibling_of_a_cancelled_run_leaves_nothing_and_nothing_of_the_run_acts_again(settlement, world, tools):
    tx, (told,) = late_sibling(settlement, world, tools, lambda *_: settlement.cancel("trip"))
    assert isinstance(told, Cancelled)
    assert world.log == [("book", "a"), ("slow", "late"), ("undo slow", "late"), ("cancel", "a")]
    with pytest.raises(Cancelled):
        tx.call(tools.book, room="b")
    with pytest.raises(Cancelled), settlement.transaction("trip/2"):
        raise AssertionError("not reached")
    with pytest.raises(Cancelled):
        settlement.run("trip/3", lambda tx: None)
    assert len(world.log) == 4


def test_a_fence_outlives_the_process(tmp_path, open_settlement):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    first = open_settlement(url)
    first.cancel("trip")
    first.cancel("trip")
    first.close()
    second = open_settlement(url)
    with pytest.raises(Cancelled, match="start again under another run id"), second.transaction("trip/1"):
        raise AssertionError("not reached")
    with second.transaction("other/1"):
        pass


def test_a_commit_waits_for_a_call_of_its_own_that_has_not_returned(settlement, world, someone_waits):
    started, finish = threading.Event(), threading.Event()

    @effect("reversible", scope="slow:/{room}", undo=lambda room: None)
    def slow(room):
        started.set()
        assert finish.wait(PATIENCE)
        world.act("slow", room)

    with settlement.transaction("trip") as tx:
        threads = [threading.Thread(target=tx.call, args=(slow,), kwargs={"room": "a"})]
        threads += [threading.Thread(target=lambda: (tx.commit(), world.act("committed")))]
        threads[0].start()
        assert started.wait(PATIENCE)
        waits = someone_waits(settlement)
        threads[1].start()
        assert waits.wait(PATIENCE)
        finish.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert world.log == [("slow", "a"), ("committed",)]


def test_a_call_that_arrives_after_the_commit_began_is_refused_and_aborts_it(settlement, world, tools, someone_waits):
    with settlement.transaction("blocker", may_touch=["room:/a"]) as blocker:
        tx = settlement.transaction("trip").__enter__()
        tx.call(tools.book, room="a")
        told = []

        def commit():
            try:
                tx.commit()
            except LateAppend as error:
                told.append(error)

        waits = someone_waits(settlement)
        thread = threading.Thread(target=commit)
        thread.start()
        assert waits.wait(PATIENCE)
        with pytest.raises(LateAppend, match="came after trip was sealed"):
            tx.call(tools.book, room="b")
        thread.join(PATIENCE)
    assert (len(told), tx.state, blocker.state) == (1, State.ABORTED, State.COMMITTED)
    assert world.rooms == set()


def outcome_of(act):
    """What an act returns, or the error that it raises."""
    try:
        return act()
    except SettlemarkError as error:
        return error


class SlowAnswer(Pending):
    """The answer of a store that takes until it is let go, and then may have failed."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer
        self.reached, self.go = threading.Event(), threading.Event()

    def lead(self):
        self.answer.lead()

    def result(self, timeout=None):
        self.reached.set()
        assert self.go.wait(PATIENCE)
        return self.answer.result(timeout)


@pytest.fixture
def slow_intent(open_settlement, tmp_path, tools, in_step, disk_full):
    """A transaction with a held call whose intent is on disk, or (`full`) was refused, which it does not know yet."""
    threads, answers = [], []

    def begin(*, full=False):
        settlement = open_settlement(f"sqlite:///{tmp_path / 'ledger.db'}")
        ledger, submit, slow, told = host_of(settlement).ledger, host_of(settlement).ledger.submit, [], []
        tx = settlement.transaction("trip").__enter__()

        def submitting(step, **options):
            ledger.submit = submit
            slow.append(SlowAnswer(submit(step, **options)))
            return slow[0]

        def send():
            ledger.submit = submitting
            told.append(outcome_of(lambda: tx.call(tools.send, to="ada")))

        def refuse():
            raise disk_full(ledger)

        if full:
            in_step(settlement, lambda change: isinstance(change, EffectRow), refuse)
        threads.append(threading.Thread(target=send))
        threads[0].start()
        while not slow:
            threads[0].join(0.001)
        answers.append(slow[0])
        assert slow[0].reached.wait(PATIENCE)
        return settlement, tx, slow[0].go, threads[0], told

    yield begin
    for answer in answers:
        answer.go.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_commit_waits_for_a_held_call_that_is_being_recorded(slow_intent, world, someone_waits):
    settlement, tx, go, thread, told = slow_intent()
    waits, committed = someone_waits(settlement), []
    commit = threading.Thread(target=lambda: committed.append(outcome_of(tx.commit)))
    commit.start()
    assert waits.wait(PATIENCE)
    assert (tx.state, world.log) == (State.OPEN, [])
    go.set()
    for each in (thread, commit):
        each.join(PATIENCE)
    assert (committed, told[0].outcome) == ([None], "confirmed")
    assert (tx.state, world.log) == (State.COMMITTED, [("send", "ada", "hello")])


def test_a_held_call_whose_intent_could_not_be_recorded_does_not_leave(slow_intent, world, someone_waits):
    settlement, tx, go, thread, told = slow_intent(full=True)
    waits, committed = someone_waits(settlement), []
    commit = threading.Thread(target=lambda: committed.append(outcome_of(tx.commit)))
    commit.start()
    assert waits.wait(PATIENCE)
    go.set()
    for each in (thread, commit):
        each.join(PATIENCE)
    assert isinstance(told[0], LedgerError)
    assert "disk is full" in str(told[0])
    assert committed == [None]
    assert (tx.state, world.log, settlement.transactions()) == (State.COMMITTED, [], [])
    assert (host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == ({}, {})


def test_a_held_call_whose_transaction_was_aborted_meanwhile_is_told_and_recorded_as_dropped(
    slow_intent, world, recorded
):
    settlement, tx, go, thread, told = slow_intent()
    settlement.cancel("trip")
    go.set()
    thread.join(PATIENCE)
    assert isinstance(told[0], Cancelled)
    assert (tx.state, world.log) == (State.ABORTED, [])
    assert recorded(settlement, "trip") == [("aborted", [("send", "dropped", "clean")])]


def test_a_run_that_is_wounded_while_its_call_runs_and_then_fails_leaves_its_place_to_nobody(
    settlement, world, someone_waits, recorded
):
    begun, go = threading.Event(), threading.Event()

    @effect("reversible", scope="room:/{room}", undo=lambda room: world.act("cancel", room))
    def book(room):
        if current_call().transaction == "trip":
            begun.set()
            assert go.wait(PATIENCE)
        world.act("book", room)

    def calling(tx):
        with pytest.raises(Wounded):
            tx.call(book, room="a")

    threads = []

    def body(tx):
        threads.append(threading.Thread(target=calling, args=(tx,)))
        threads[0].start()
        assert begun.wait(PATIENCE)
        waits = someone_waits(settlement)
        threads.append(threading.Thread(target=older.call, args=(book,), kwargs={"room": "a"}))
        threads[1].start()
        assert waits.wait(PATIENCE)
        raise Boom

    opening = settlement.transaction("older", may_touch=["room:/a"])
    older = opening.__enter__()
    with pytest.raises(Boom):
        settlement.run("trip", body, wait=0)
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    opening.__exit__(None, None, None)
    assert world.log == [("book", "a"), ("cancel", "a"), ("book", "a")]
    assert recorded(settlement, "trip") == [("aborted", [("book", "undone", "clean")])]
    assert (settlement.residue(), host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == (
        [],
        {},
        {},
    )


def test_each_undo_is_on_record_before_the_next_one_begins(tmp_path):
    file = tmp_path / "ledger.db"
    seen = []

    def outcomes():
        with closing(sqlite3.connect(file)) as connection:
            return [row[0] for row in connection.execute("SELECT outcome FROM settlemark_effect ORDER BY position")]

    @effect("reversible", scope="room:/{room}", undo=lambda room: seen.append((room, outcomes())))
    def book(room):
        return room

    with Settlement(f"sqlite:///{file}") as settlement:
        with pytest.raises(ValueError, match="no"), settlement.transaction("trip") as tx:
            for room in "abc":
                tx.call(book, room=room)
            raise ValueError("no")
    assert seen == [
        ("c", ["confirmed", "confirmed", "confirmed"]),
        ("b", ["confirmed", "confirmed", "undone"]),
        ("a", ["confirmed", "undone", "undone"]),
    ]
