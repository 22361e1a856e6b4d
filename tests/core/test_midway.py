"""What meets a transaction midway, between its decision and its end: a failing body, a failing ledger, Ctrl-C."""

from __future__ import annotations

import asyncio
import threading

import pytest

from settlemark import InDoubt, LedgerError, Outcome, State, StateError, Tag, effect
from settlemark.hosting import host_of
from settlemark.ledger import OutcomeChange, StateChange

PATIENCE = 60


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture
def abort_asked(monkeypatch):
    """Return an event that is set when a settlement is asked to abort something."""

    def watch(settlement):
        asked, abort = threading.Event(), host_of(settlement).protocol.abort

        def aborting(*args, **detail):
            abort(*args, **detail)
            asked.set()

        monkeypatch.setattr(host_of(settlement).protocol, "abort", aborting)
        return asked

    return watch


@pytest.fixture
def slow_mail(world):
    """A mail that says when it begins to leave, and leaves when it is let go."""

    class Mail:
        begun, go = threading.Event(), threading.Event()

        def __init__(self):
            @effect("irreversible", scope="mail:/{to}")
            def send(to):
                self.begun.set()
                assert self.go.wait(PATIENCE)
                world.act("send", to)

            self.send = send

    return Mail()


COMMITTED = ("committed", [("book", "confirmed", None), ("send", "confirmed", None)])


def committing(tx, outcome):
    def target():
        try:
            outcome.append(tx.commit())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    return thread


def test_a_body_that_raises_while_another_thread_releases_waits_and_leaves_it_committed(
    settlement, world, tools, slow_mail, abort_asked, recorded
):
    slow_mail.go = abort_asked(settlement)
    outcome = []
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(slow_mail.send, to="ada")
        thread = committing(tx, outcome)
        assert slow_mail.begun.wait(PATIENCE)
        raise Boom
    assert tx.state is State.COMMITTED
    thread.join(PATIENCE)
    assert (outcome, world.log) == ([None], [("book", "a"), ("send", "ada")])
    assert recorded(settlement, "trip") == [COMMITTED]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_an_abort_while_another_thread_releases_waits_and_says_that_it_is_committed(
    settlement, world, tools, slow_mail, abort_asked, recorded
):
    slow_mail.go = abort_asked(settlement)
    outcome = []
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(slow_mail.send, to="ada")
        thread = committing(tx, outcome)
        assert slow_mail.begun.wait(PATIENCE)
        with pytest.raises(StateError, match="trip is committed: it can no longer be undone"):
            tx.abort()
        assert tx.state is State.COMMITTED
        thread.join(PATIENCE)
    assert (outcome, world.log) == ([None], [("book", "a"), ("send", "ada")])
    assert recorded(settlement, "trip") == [COMMITTED]


def test_an_abort_that_waited_too_long_for_a_release_says_so_and_nothing_changed(
    settlement, world, tools, slow_mail, recorded
):
    outcome = []
    with settlement.transaction("trip", wait=0) as tx:
        tx.call(tools.book, room="a")
        tx.call(slow_mail.send, to="ada")
        thread = committing(tx, outcome)
        assert slow_mail.begun.wait(PATIENCE)
        before = host_of(settlement).protocol.freeze()
        with pytest.raises(StateError, match="trip is still releasing: whether it commits is not known yet"):
            tx.abort()
        assert (host_of(settlement).protocol.freeze(), world.log) == (before, [("book", "a")])
        slow_mail.go.set()
        thread.join(PATIENCE)
    assert (outcome, world.log) == ([None], [("book", "a"), ("send", "ada")])
    assert recorded(settlement, "trip") == [COMMITTED]


@pytest.mark.parametrize("how", ["raises", "is cancelled"])
async def test_a_task_that_ends_while_its_sibling_releases_waits_and_leaves_it_committed(
    settlement, world, tools, abort_asked, recorded, how
):
    loop, begun, go = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    asked = abort_asked(settlement)

    @effect("irreversible", scope="mail:/{to}")
    async def send(to):
        begun.set()
        assert await asyncio.to_thread(asked.wait, PATIENCE)
        world.act("send", to)

    siblings = []

    async def body():
        async with settlement.transaction("trip") as tx:
            await tx.call(tools.book, room="a")
            await tx.call(send, to="ada")
            siblings.append(loop.create_task(tx.commit()))
            await begun.wait()
            if how == "raises":
                raise Boom
            go.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    if how == "is cancelled":
        await go.wait()
        task.cancel()
    with pytest.raises(Boom if how == "raises" else asyncio.CancelledError):
        await task
    assert recorded(settlement, "trip") == [COMMITTED]
    assert await siblings[0] is None
    assert world.log == [("book", "a"), ("send", "ada")]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


# ---- the ledger fails


def decides(change):
    return isinstance(change, StateChange) and change.state in (State.RELEASING, State.COMMITTED)


def says_it_left(change):
    return isinstance(change, OutcomeChange) and change.outcome is Outcome.CONFIRMED


def ctrl_c():
    raise KeyboardInterrupt


@pytest.fixture
def fails_once(in_step, disk_full):
    """Have a settlement's store fail once, when it is to keep such a change."""

    def fail(settlement, is_it):
        left = [disk_full(host_of(settlement).ledger)]

        def refuse():
            if left:
                raise left.pop()

        in_step(settlement, is_it, refuse)

    return fail


def undone(*, held):
    return [("aborted", [("book", "undone", "clean"), *([("send", "dropped", "clean")] if held else [])])]


def again(settlement, world, tools):
    """Enter the name again, which must be free, and return (attempt, state, rooms)."""
    with settlement.transaction("trip", wait=0) as tx:
        tx.call(tools.book, room="a")
    return tx.attempt, tx.state, world.rooms


@pytest.mark.parametrize("held", [False, True], ids=["eager only", "with a mail held"])
def test_a_decision_that_cannot_be_recorded_undoes_everything_and_frees_the_name(
    settlement, world, tools, fails_once, recorded, held
):
    fails_once(settlement, decides)
    with pytest.raises(LedgerError, match="disk is full"), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        if held:
            tx.call(tools.send, to="ada")
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    assert recorded(settlement, "trip") == undone(held=held)
    assert (settlement.residue(), host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == (
        [],
        {},
        {},
    )
    assert again(settlement, world, tools) == (2, State.COMMITTED, {"a"})


@pytest.mark.parametrize("held", [False, True], ids=["eager only", "with a mail held"])
def test_ctrl_c_before_the_decision_is_on_record_undoes_everything_and_frees_the_name(
    settlement, world, tools, in_step, recorded, held
):
    interrupts = [ctrl_c]

    def interrupt():
        if interrupts and threading.current_thread() is threading.main_thread():
            interrupts.pop()()

    in_step(settlement, decides, interrupt)
    with pytest.raises(KeyboardInterrupt), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        if held:
            tx.call(tools.send, to="ada")
        settlement.transactions()  # nothing is queued: the decision is taken in this thread
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    assert recorded(settlement, "trip") == undone(held=held)
    assert (settlement.residue(), host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == (
        [],
        {},
        {},
    )
    assert again(settlement, world, tools) == (2, State.COMMITTED, {"a"})


def test_ctrl_c_behind_a_decision_that_lets_nothing_leave_finds_it_committed(
    settlement, world, tools, when_taken, recorded
):
    when_taken(settlement, decides, ctrl_c)
    with pytest.raises(KeyboardInterrupt), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
    assert (world.log, tx.state) == ([("book", "a")], State.COMMITTED)
    assert recorded(settlement, "trip") == [("committed", [("book", "confirmed", None)])]
    assert (settlement.residue(), host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == (
        [],
        {},
        {},
    )
    assert again(settlement, world, tools) == (1, State.COMMITTED, {"a"})
    assert world.log == [("book", "a")]


def test_ctrl_c_behind_a_decision_of_which_nothing_has_left_undoes_everything_and_frees_the_name(
    settlement, world, tools, when_taken, recorded
):
    when_taken(settlement, decides, ctrl_c)
    with pytest.raises(KeyboardInterrupt), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="ada")
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    assert recorded(settlement, "trip") == undone(held=True)
    assert (settlement.residue(), host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == (
        [],
        {},
        {},
    )
    assert again(settlement, world, tools) == (2, State.COMMITTED, {"a"})


def test_a_release_that_left_and_could_not_be_recorded_stops_the_rest_until_the_store_works_again(
    settlement, world, tools, fails_once, recorded
):
    fails_once(settlement, says_it_left)
    with (
        pytest.raises(LedgerError, match="the rest follows by itself when the store works again.*disk is full"),
        settlement.transaction("trip") as tx,
    ):
        tx.call(tools.send, to="a")
        tx.call(tools.send, to="b")
    assert (world.log[:1], settlement.residue()) == ([("send", "a", "hello")], [])
    settlement.recover()
    assert (world.log, tx.state) == ([("send", "a", "hello"), ("send", "b", "hello")], State.COMMITTED)
    assert recorded(settlement, "trip") == [("committed", [("send", "confirmed", None), ("send", "confirmed", None)])]
    assert (settlement.residue(), host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == (
        [],
        {},
        {},
    )


def test_ctrl_c_between_a_release_and_its_record_leaves_on_record_that_it_left_and_what_did_not(
    settlement, world, tools, in_step, recorded
):
    interrupts = [ctrl_c]

    def interrupt():
        if interrupts and threading.current_thread() is threading.main_thread():
            interrupts.pop()()

    in_step(settlement, says_it_left, interrupt)
    with pytest.raises(KeyboardInterrupt), settlement.transaction("trip") as tx:
        tx.call(tools.send, to="a")
        tx.call(tools.send, to="b")
        settlement.transactions()  # nothing is queued: the record is made in this thread
    assert (world.log, tx.state) == ([("send", "a", "hello")], State.COMMITTED)
    assert recorded(settlement, "trip") == [
        ("committed", [("send", "confirmed", None), ("send", "dropped", "partial_commit")])
    ]
    assert [(r.key, r.tag) for r in settlement.residue()] == [("trip#1/1", Tag.PARTIAL_COMMIT)]
    assert (host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == ({}, {})


def test_an_outcome_nobody_knows_is_residue_when_its_transaction_commits_all_the_same(
    url, open_settlement, tools, recorded
):
    told = []
    settlement = open_settlement(url, on_residue=told.append)

    @effect("opaque", scope="desk:/{desk}")
    def hire(desk):
        raise TimeoutError("no answer")

    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        with pytest.raises(InDoubt):
            tx.call(hire, desk="d")
    assert (tx.state, told) == (State.COMMITTED, ["trip"])
    assert recorded(settlement, "trip") == [
        ("committed", [("book", "confirmed", None), ("hire", "unknown", "unresolved")])
    ]
    assert [(r.key, r.tag, r.note) for r in settlement.residue()] == [
        ("trip#1/1", Tag.UNRESOLVED, "nobody can tell whether it happened: ask the counterparty")
    ]
    assert host_of(settlement).protocol.live == {}
