"""Waiting has a deadline and a name: who holds what; nobody waits for what has finished."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time

import pytest

from settlemark import Injected, Retries, Scope, State, StateError, UsageError, WaitTimeout, WouldBlock, effect
from settlemark.hosting import host_of

PATIENCE = 60


@pytest.fixture
def holder(settlement, tools):
    """A transaction of another that has booked room a and is still thinking."""
    opening = settlement.transaction("holder")
    tx = opening.__enter__()
    tx.call(tools.book, room="a")
    yield tx
    if tx.state is State.OPEN:
        tx.commit()


def test_a_call_that_waited_too_long_names_the_holder_and_nothing_ran(settlement, world, tools, holder):
    with settlement.transaction("late", wait=0) as tx:
        settlement.transactions()  # a step: now it has its place
        before = host_of(settlement).protocol.freeze()
        with pytest.raises(WaitTimeout) as timeout:
            tx.call(tools.book, room="a")
        assert tx.state is State.OPEN
    assert str(timeout.value) == (
        "late gave up after 0 s waiting for holder, which holds room:/a: nothing was run;"
        " try again later, or raise wait="
    )
    assert (timeout.value.holder, timeout.value.scope, timeout.value.waited) == ("holder", Scope.parse("room:/a"), 0)
    assert world.log == [("book", "a")]
    assert [t.row.name for t in settlement.transactions()] == ["holder"]
    assert len(before[0]) == 2


def test_a_forgiven_wait_holds_nothing_so_that_the_rest_commits(settlement, world, tools, holder):
    with settlement.transaction("late", wait=0) as tx:
        tx.call(tools.book, room="b")
        with pytest.raises(WaitTimeout):
            tx.call(tools.book, room="a")
    assert tx.state is State.COMMITTED
    assert world.log == [("book", "a"), ("book", "b")]


def test_a_read_that_waited_too_long_ran_nothing(settlement, world, tools, holder):
    fetched = []
    with settlement.transaction("late", wait=0) as tx:
        with pytest.raises(WaitTimeout, match="waiting for holder, which holds room:/a"):
            tx.read("room:/a", lambda: fetched.append(1))
        with pytest.raises(WaitTimeout, match="waiting for holder"):
            tx.call(tools.look, room="a")
    assert fetched == []


def test_a_timeout_that_leaves_the_block_undoes_the_rest(settlement, world, tools, holder):
    with pytest.raises(WaitTimeout), settlement.transaction("late", wait=0) as tx:
        tx.call(tools.book, room="b")
        tx.call(tools.book, room="a")
    assert (world.rooms, tx.state) == ({"a"}, State.ABORTED)


def test_a_commit_that_waited_too_long_is_undone_and_names_the_holder(settlement, world, tools):
    with settlement.transaction("holder", may_touch=["room:/a"]):
        with pytest.raises(
            WaitTimeout, match="late was undone: it waited 0 s for holder, which holds room:/a"
        ) as timeout:
            with settlement.transaction("late", wait=0) as tx:
                tx.call(tools.book, room="a")
                tx.call(tools.send, to="ada")
        assert (timeout.value.holder, timeout.value.waited) == ("holder", 0)
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)


def test_deadlines_are_read_from_the_injected_clock(open_settlement, tools):
    clock = itertools.count(0, 1000)  # a thousand seconds pass between any two looks at it
    settlement = open_settlement(injected=Injected(monotonic=lambda: float(next(clock))), wait=999)
    with settlement.transaction("holder") as holder:
        holder.call(tools.book, room="a")
        with settlement.transaction("late") as late, pytest.raises(WaitTimeout, match="gave up after 999 s"):
            late.call(tools.book, room="a")


def test_a_name_in_use_is_waited_for_and_then_told(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        told = []

        def another():
            try:
                with settlement.transaction("trip", wait=0):
                    raise AssertionError("not reached")
            except WaitTimeout as timeout:
                told.append((timeout.holder, "is in use by another caller and has not finished" in str(timeout)))

        thread = threading.Thread(target=another)
        thread.start()
        thread.join()
        assert told == [("trip", True)]
    assert world.rooms == {"a"}


def test_a_name_in_use_is_free_when_its_holder_has_finished_and_then_replays(settlement, world, tools):
    opening = settlement.transaction("trip")
    tx = opening.__enter__()
    answers = []

    def second():
        with settlement.transaction("trip") as again:
            answers.append(again.call(tools.book, room="a"))

    tx.call(tools.book, room="a")
    thread = threading.Thread(target=second)
    thread.start()
    opening.__exit__(None, None, None)
    thread.join(PATIENCE)
    assert (answers, world.log) == ([{"confirmation": "R-a"}], [("book", "a")])


def test_a_waiter_goes_on_when_its_holder_has_finished(settlement, world, tools, holder, someone_waits):
    waits = someone_waits(settlement)

    def late():
        with settlement.transaction("late") as tx:
            tx.call(tools.book, room="a")

    thread = threading.Thread(target=late)
    thread.start()
    assert waits.wait(PATIENCE)
    assert settlement.waiting() == [("late", "holder", "room:/a")]
    holder.commit()
    thread.join(PATIENCE)
    assert (world.log, settlement.waiting()) == ([("book", "a")] * 2, [])


def test_unrelated_scopes_never_wait(settlement, world, tools, holder):
    with settlement.transaction("other", wait=0) as tx:
        tx.call(tools.book, room="b")
        tx.call(tools.send, to="a")
    assert world.log == [("book", "a"), ("book", "b"), ("send", "a", "hello")]


# ---- event loops and async tools


async def test_a_sync_call_inside_an_event_loop_works_until_it_would_have_to_wait(settlement, world, tools, holder):
    with settlement.transaction("late") as tx:
        assert tx.call(tools.look, room="b") is False
        with pytest.raises(WouldBlock, match="use `async with settlement.transaction") as would:
            tx.call(tools.book, room="a")
        assert (would.value.holder, would.value.scope) == ("holder", "room:/a")
        assert tx.state is State.OPEN
    assert world.log == [("book", "a")]


async def test_a_sync_commit_inside_an_event_loop_that_would_have_to_wait_undoes(settlement, world, tools):
    with settlement.transaction("holder", may_touch=["room:/a"]):
        with pytest.raises(WouldBlock), settlement.transaction("late") as tx:
            tx.call(tools.book, room="a")
        assert tx.state is State.ABORTED
    assert world.rooms == set()


async def an_async_tool():
    raise AssertionError("not reached")


@pytest.mark.parametrize("way", ["call", "plan", "read"])
def test_an_async_tool_in_the_sync_face_is_refused_and_nothing_ran(settlement, way):
    with settlement.transaction("trip") as tx:
        with pytest.raises(UsageError, match="an_async_tool is async: nothing was run; use `async with"):
            if way == "read":
                tx.read("room:/a", an_async_tool)
            else:
                (tx if way == "call" else tx.turn()).__getattribute__(way)(an_async_tool)
    assert (settlement.transactions(), tx.state) == ([], State.COMMITTED)


def test_an_async_undo_runs_in_the_sync_face_too(settlement, world):
    async def cancel(room):
        await asyncio.sleep(0)
        world.act("cancel", room)

    @effect("reversible", scope="room:/{room}", undo=cancel)
    def book(room):
        world.act("book", room)

    with settlement.transaction("trip") as tx:
        tx.call(book, room="a")
        tx.abort()
    assert world.log == [("book", "a"), ("cancel", "a")]


async def test_an_async_undo_runs_from_a_sync_face_inside_a_loop(settlement, world):
    async def cancel(room):
        await asyncio.sleep(0)
        world.act("cancel", room)

    @effect("reversible", scope="room:/{room}", undo=cancel)
    def book(room):
        world.act("book", room)

    with settlement.transaction("trip") as tx:
        tx.call(book, room="a")
        tx.abort()
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_an_undone_transaction_says_so_at_its_next_use(settlement, tools):
    with settlement.transaction("trip") as tx:
        tx.abort("changed my mind")
        with pytest.raises(Exception, match=r"trip was undone \(failed\): changed my mind"):
            tx.call(tools.book, room="a")


def test_the_pauses_of_retries_are_those_injected(open_settlement, world, tools, monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    settlement = open_settlement(retries=Retries(tries=4, first=0.5, factor=2, most=1.5))
    world.fail("book", *[OSError()] * 3)
    settlement.run("trip", lambda tx: tx.call(tools.book, room="a"))
    assert pauses == [0.5, 1.0, 1.5]


def test_closing_a_settlement_refuses_what_comes_later_and_says_what_to_do(tmp_path, open_settlement, world, tools):
    settlement = open_settlement(f"sqlite:///{tmp_path / 'ledger.db'}")
    settlement.close()
    settlement.close()
    with pytest.raises((StateError, Exception), match="is closed: make a new Settlement"):
        with settlement.transaction("trip") as tx:
            tx.call(tools.book, room="a")
    assert world.log == []


# ---- what is over is not shown


def test_a_wait_that_is_over_is_neither_listed_nor_shown(settlement, world, tools, holder, someone_waits):
    waits = someone_waits(settlement)
    opening = settlement.transaction("late")
    late = opening.__enter__()
    late.call(tools.book, room="b")
    thread = threading.Thread(target=late.call, args=(tools.book,), kwargs={"room": "a"})
    thread.start()
    assert waits.wait(PATIENCE)
    assert [(t.waits_for, t.waits_on) for t in settlement.transactions()] == [(None, None), ("holder", "room:/a")]
    holder.commit()
    thread.join(PATIENCE)
    assert (late.state, settlement.waiting()) == (State.OPEN, [])
    assert [(t.waits_for, t.waits_on) for t in settlement.transactions()] == [(None, None)] * 2
    assert "waiting" not in settlement.show()
    opening.__exit__(None, None, None)
    assert world.log == [("book", "a"), ("book", "b"), ("book", "a")]


def test_a_commit_waits_for_a_call_of_its_own_that_still_waits(settlement, world, tools, holder):
    both = Countdown(2)
    host_of(settlement).driver.kernel.waits.waiting = both
    late = settlement.transaction("late").__enter__()
    late.call(tools.book, room="b")
    calling = threading.Thread(target=late.call, args=(tools.book,), kwargs={"room": "a"})
    calling.start()
    assert both.first.wait(PATIENCE)
    committing = threading.Thread(target=late.commit)
    committing.start()
    assert both.all.wait(PATIENCE)
    assert late.state is State.OPEN
    assert ("late", "a call of its own that has not returned,", "room:/b") in settlement.waiting()
    holder.commit()
    calling.join(PATIENCE)
    committing.join(PATIENCE)
    assert late.state is State.COMMITTED
    assert world.log == [("book", "a"), ("book", "b"), ("book", "a")]
    assert (settlement.waiting(), host_of(settlement).protocol.live) == ([], {})


class Countdown(dict):
    """Says when the first has begun to wait, and when this many have."""

    def __init__(self, count):
        super().__init__()
        self.left = count
        self.first, self.all = threading.Event(), threading.Event()

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.left -= 1
        self.first.set()
        if not self.left:
            self.all.set()


def test_a_read_of_several_scopes_keeps_none_of_them_while_it_waits_for_another(settlement, someone_waits):
    @effect("read", scope="cell:/a", may_touch="cell:/b")
    def look():
        return "seen"

    @effect("reversible", scope="cell:/{cell}", undo=lambda cell: None)
    def write(cell):
        return cell

    older = settlement.transaction("older").__enter__()
    older.call(write, cell="b")
    waits, answers = someone_waits(settlement), []
    reader = threading.Thread(target=lambda: answers.append(settlement.run("reader", lambda tx: tx.call(look))))
    reader.start()
    assert waits.wait(PATIENCE)
    assert older.call(write, cell="a") == "a"  # at once: the reader is not at it
    older.commit()
    reader.join(PATIENCE)
    assert answers == ["seen"]
