"""What meets a transaction midway, between its decision and its end: a failing body, a failing ledger, Ctrl-C."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from settlemark import InDoubt, LedgerError, StateError, Tag, effect
from settlemark._effect import Outcome
from settlemark._states import State
from settlemark.ledger._contract import OutcomeChange, StateChange

PATIENCE = 20


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture
def abort_asked(monkeypatch):
    """Return an event that is set when a settlement is asked to abort something."""

    def watch(settlement):
        asked, abort = threading.Event(), settlement.protocol.abort

        def aborting(*args, **detail):
            abort(*args, **detail)
            asked.set()

        monkeypatch.setattr(settlement.protocol, "abort", aborting)
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
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


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
        before = settlement.protocol.freeze()
        with pytest.raises(StateError, match="trip is still releasing: whether it commits is not known yet"):
            tx.abort()
        assert (settlement.protocol.freeze(), world.log) == (before, [("book", "a")])
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
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


# ---- the ledger fails


@pytest.fixture
def at_the_decision():
    """Let something happen once, when a settlement writes a commit decision; it is handed the write itself."""

    def meet(settlement, what):
        write = settlement.ledger.write

        def meeting(changes):
            if any(isinstance(change, StateChange) and change.state is State.RELEASING for change in changes):
                settlement.ledger.write = write
                return what(lambda: write(changes))
            return write(changes)

        settlement.ledger.write = meeting

    return meet


def refused(_write):
    raise LedgerError("disk full", url="memory:")


def refused_later(_write):
    pending = Future()
    pending.set_exception(LedgerError("disk full", url="memory:"))
    return pending


@pytest.mark.parametrize("refusal", [refused, refused_later], ids=["at once", "in the writer"])
@pytest.mark.parametrize("held", [False, True], ids=["eager only", "with a mail held"])
def test_a_decision_that_cannot_be_recorded_undoes_everything_and_frees_the_name(
    settlement, world, tools, at_the_decision, recorded, refusal, held
):
    at_the_decision(settlement, refusal)
    with pytest.raises(LedgerError, match="disk full"), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        if held:
            tx.call(tools.send, to="ada")
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    undone = [("book", "undone", "clean"), *([("send", "dropped", "clean")] if held else [])]
    assert recorded(settlement, "trip") == [("aborted", undone)]
    assert (settlement.residue(), settlement.protocol.live, settlement.driver._names) == ([], {}, {})
    with settlement.transaction("trip", wait=0) as tx:
        tx.call(tools.book, room="a")
    assert (tx.attempt, tx.state, world.rooms) == (2, State.COMMITTED, {"a"})


class Interrupted(Future):
    """A write that Ctrl-C meets while somebody waits for it."""

    def result(self, timeout=None):
        raise KeyboardInterrupt


@pytest.mark.parametrize("held", [False, True], ids=["eager only", "with a mail held"])
def test_ctrl_c_while_the_decision_is_written_undoes_everything_and_frees_the_name(
    settlement, world, tools, at_the_decision, recorded, held
):
    def interrupted(write):
        write()
        return Interrupted()

    at_the_decision(settlement, interrupted)
    with pytest.raises(KeyboardInterrupt), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        if held:
            tx.call(tools.send, to="ada")
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    undone = [("book", "undone", "clean"), *([("send", "dropped", "clean")] if held else [])]
    assert recorded(settlement, "trip") == [("aborted", undone)]
    assert (settlement.residue(), settlement.protocol.live) == ([], {})
    with settlement.transaction("trip", wait=0) as tx:
        tx.call(tools.book, room="a")
    assert (tx.attempt, tx.state, world.rooms) == (2, State.COMMITTED, {"a"})


def test_a_release_that_left_and_could_not_be_recorded_stops_the_rest_and_names_it(settlement, world, tools, recorded):
    write = settlement.ledger.write

    def busy_once(changes):
        if any(isinstance(change, OutcomeChange) and change.outcome is Outcome.CONFIRMED for change in changes):
            settlement.ledger.write = write
            return refused_later(None)
        return write(changes)

    with pytest.raises(LedgerError, match="disk full"), settlement.transaction("trip") as tx:
        tx.call(tools.send, to="a")
        tx.call(tools.send, to="b")
        settlement.ledger.write = busy_once
    assert (world.log, tx.state) == ([("send", "a", "hello")], State.COMMITTED)
    assert recorded(settlement, "trip") == [
        ("committed", [("send", "confirmed", None), ("send", "dropped", "partial_commit")])
    ]
    assert [(r.key, r.note) for r in settlement.residue()] == [("trip#1/1", "not run: LedgerError: disk full")]
    assert settlement.protocol.live == {}


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
    assert settlement.protocol.live == {}
