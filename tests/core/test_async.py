"""The async face does what the sync one does; a cancelled task's effect is settled, undone or in doubt."""

from __future__ import annotations

import asyncio
import threading

import pytest

from settlemark import InDoubt, Queued, Refused, Retries, State, Tag, Vetoed, WaitTimeout, Wounded, current_call, effect
from settlemark.hosting import host_of, to_its_end

PATIENCE = 60


class Boom(Exception):
    """A failure of the caller's own."""


class Slow:
    """An async tool that says when it began and returns when it is let go."""

    def __init__(self, world, **parts):
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        slow = self

        async def undo(name):
            await asyncio.sleep(0)
            world.act("undo", name)

        @effect("reversible", scope="slow:/{name}", undo=undo, **parts)
        async def act(name):
            slow.begun.set()
            await slow.go.wait()
            world.act("slow", name)
            return current_call().key

        self.act = act


async def test_async_and_sync_tools_settle_together(settlement, world, tools):
    slow = Slow(world)
    slow.go.set()
    async with settlement.transaction("trip") as tx:
        assert await tx.call(tools.book, room="a") == {"confirmation": "R-a"}
        assert await tx.call(slow.act, name="x") == "trip#1/1"
        queued = await tx.call(tools.send, to="ada")
        assert isinstance(queued, Queued)
        assert await tx.read("price:/a", lambda: 7) == 7
    assert (queued.result(), tx.state) == ("sent to ada", State.COMMITTED)
    assert world.log == [("book", "a"), ("slow", "x"), ("send", "ada", "hello")]


async def test_an_exception_undoes_in_reverse_order(settlement, world, tools):
    slow = Slow(world)
    slow.go.set()
    with pytest.raises(Boom):
        async with settlement.transaction("trip") as tx:
            await tx.call(tools.book, room="a")
            await tx.call(slow.act, name="x")
            raise Boom
    assert world.log == [("book", "a"), ("slow", "x"), ("undo", "x"), ("cancel", "a")]
    assert settlement.residue() == []


async def test_a_committed_name_replays(settlement, world, tools):
    for _ in range(2):
        async with settlement.transaction("trip") as tx:
            assert await tx.call(tools.book, room="a") == {"confirmation": "R-a"}
    assert world.log == [("book", "a")]


async def test_commit_abort_and_hooks_are_awaited(settlement, world, tools):
    async def never(_):
        return "never"

    with pytest.raises(Vetoed):
        async with settlement.transaction("vetoed", before_commit=[never]) as tx:
            await tx.call(tools.book, room="a")
    async with settlement.transaction("kept") as tx:
        await tx.call(tools.send, to="ada")
        await tx.commit()
        assert tx.state is State.COMMITTED
    async with settlement.transaction("dropped") as tx:
        await tx.call(tools.book, room="b")
        await tx.abort()
    assert world.log == [("book", "a"), ("cancel", "a"), ("send", "ada", "hello"), ("book", "b"), ("cancel", "b")]


async def test_run_with_an_async_function_retries_a_lost_race(settlement, world, tools):
    opening = settlement.transaction("older", may_touch=["room:/a"])
    older = await opening.__aenter__()

    async def book(tx):
        await tx.call(tools.book, room="a")
        if tx.attempt == 1:
            await older.call(tools.book, room="a")
            await opening.__aexit__(None, None, None)
        return tx.attempt

    assert await settlement.run("trip", book) == 2
    assert [entry[0] for entry in world.log] == ["book", "cancel", "book", "book"]


async def test_the_calls_of_a_turn_act_in_issuance_order_under_gather(settlement, world):
    @effect("reversible", scope="room:/{name}", undo=lambda name: None)
    async def book(name, rounds):
        for _ in range(rounds):
            await asyncio.sleep(0)
        world.act("book", name)

    async with settlement.transaction("trip") as tx:
        turn = tx.turn()
        planned = [turn.plan(book, name=str(n), rounds=9 - n) for n in range(9)]
        await asyncio.gather(*(call.arun() for call in reversed(planned)))
    assert world.log == [("book", str(n)) for n in range(9)]


async def test_a_wait_ends_at_the_deadline_and_names_the_holder(settlement, world, tools):
    async with settlement.transaction("holder") as holder:
        await holder.call(tools.book, room="a")
        async with settlement.transaction("late", wait=0) as tx:
            with pytest.raises(WaitTimeout, match="waiting for holder, which holds room:/a"):
                await tx.call(tools.book, room="a")
    assert world.log == [("book", "a")]


async def test_a_waiter_is_woken_by_a_task_of_the_same_loop(settlement, world, tools, someone_waits):
    async def late():
        async with settlement.transaction("late") as tx:
            await tx.call(tools.book, room="a")

    async with settlement.transaction("holder") as holder:
        await holder.call(tools.book, room="a")
        waits = someone_waits(settlement)
        task = asyncio.create_task(late())
        assert await asyncio.to_thread(waits.wait, 20)
    await task
    assert world.log == [("book", "a")] * 2


async def test_acancel_fences_a_run_from_inside_a_loop(settlement, world, tools):
    opening = settlement.transaction("trip/1")
    tx = await opening.__aenter__()
    await tx.call(tools.book, room="a")
    await settlement.acancel("trip")
    with pytest.raises(Refused, match="trip was cancelled"):
        async with settlement.transaction("trip/2"):
            raise AssertionError("not reached")
    assert (world.rooms, tx.state) == (set(), State.ABORTED)


# ---- cancelled tasks


async def cancelled_in_the_tool(settlement, slow, tools=None):
    async def body():
        async with settlement.transaction("trip") as tx:
            if tools is not None:
                await tx.call(tools.book, room="a")
            await tx.call(slow.act, name="x")

    task = asyncio.create_task(body())
    await slow.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_tool_cancelled_midway_leaves_an_unknown_that_is_named(settlement, world, tools, recorded):
    await cancelled_in_the_tool(settlement, Slow(world), tools)
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert recorded(settlement, "trip") == [
        ("aborted", [("book", "undone", "clean"), ("act", "unknown", "unresolved")])
    ]
    assert [(r.tool, r.note) for r in settlement.residue()] == [
        ("act", "nobody can tell whether it happened: ask the counterparty")
    ]
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize(("found", "undone", "outcome"), [(None, [], "failed"), ("yes", [("undo", "x")], "undone")])
async def test_a_probe_tells_what_became_of_a_cancelled_tool(settlement, world, recorded, found, undone, outcome):
    await cancelled_in_the_tool(settlement, Slow(world, probe=lambda: found))
    assert world.log == undone
    assert recorded(settlement, "trip") == [("aborted", [("act", outcome, "clean")])]
    assert settlement.residue() == []


async def test_a_sync_tool_in_a_thread_is_waited_for_and_then_undone(settlement, world):
    loop = asyncio.get_running_loop()
    begun, go = asyncio.Event(), threading.Event()

    @effect("reversible", scope="slow:/x", undo=lambda: world.act("undo"))
    def slow():
        loop.call_soon_threadsafe(begun.set)
        assert go.wait(20)
        world.act("slow")

    async def body():
        async with settlement.transaction("trip") as tx:
            await tx.call(slow)

    task = asyncio.create_task(body())
    await begun.wait()
    task.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.log == [("slow",), ("undo",)]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


async def test_a_task_cancelled_while_it_waits_ran_nothing_and_holds_nothing(settlement, world, tools, someone_waits):
    async def late():
        async with settlement.transaction("late") as tx:
            await tx.call(tools.book, room="a")

    async with settlement.transaction("holder") as holder:
        await holder.call(tools.book, room="a")
        waits = someone_waits(settlement)
        task = asyncio.create_task(late())
        assert await asyncio.to_thread(waits.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [txn.name for txn in host_of(settlement).protocol.live.values()] == ["holder"]
    assert (world.log, settlement.waiting(), host_of(settlement).protocol.live) == ([("book", "a")], [], {})


class Gate:
    """What a tool or a handler waits at; who waits there may be in a thread."""

    def __init__(self, threaded):
        self.loop = asyncio.get_running_loop()
        self.begun, self.go = asyncio.Event(), threading.Event() if threaded else asyncio.Event()

        async def wait():
            self.begun.set()
            await self.go.wait()

        def wait_in_thread():
            self.loop.call_soon_threadsafe(self.begun.set)
            assert self.go.wait(PATIENCE)

        self.wait = wait_in_thread if threaded else wait


def nothing():
    """A tool that has nothing to do."""


CUT = {
    "a tool": ("idempotent", {}),
    "a release": ("irreversible", {}),
    "an undo": ("reversible", {"undo": None}),
}


@pytest.mark.parametrize("branch", [False, True], ids=["alone", "a branch"])
@pytest.mark.parametrize("threaded", [False, True], ids=["awaited", "in a thread"])
@pytest.mark.parametrize("place", CUT)
async def test_a_cancellation_has_its_message_by_which_a_cancel_scope_knows_its_own(
    settlement, place, threaded, branch
):
    gate = Gate(threaded)
    kind, parts = CUT[place]
    handlers = dict.fromkeys(parts, gate.wait)
    tool = effect(kind, scope="slow:/x", name="slow", **handlers)(nothing if handlers else gate.wait)

    async def body(tx):
        await tx.call(tool)
        if handlers:
            raise Boom

    async def job():
        if branch:
            await settlement.speculate([body], lambda _values: 0, name="trip")
        async with settlement.transaction("trip") as tx:
            await body(tx)

    task = asyncio.create_task(job())
    async with asyncio.timeout(PATIENCE):
        await gate.begun.wait()
    task.cancel("by its scope")
    await asyncio.sleep(0)
    gate.go.set()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    assert raised.value.args == ("by its scope",)
    assert host_of(settlement).protocol.live == {}


async def test_a_cancellation_during_a_release_lets_it_end_and_is_raised_then(settlement, world):
    begun, go = asyncio.Event(), asyncio.Event()

    @effect("irreversible", scope="mail:/x")
    async def send():
        begun.set()
        await go.wait()
        world.act("send")

    async def body():
        async with settlement.transaction("trip") as tx:
            await tx.call(send)
            await tx.call(send)

    task = asyncio.create_task(body())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.log == [("send",), ("send",)]
    assert [t.state for t in settlement.transactions()] == [State.COMMITTED]


async def test_a_cancellation_while_an_undo_pauses_does_not_leave_it_half_done(open_settlement, world):
    settlement = open_settlement(retries=Retries(first=0.02, most=0.02))
    failed = asyncio.Event()
    fails = [True]

    async def undo():
        if fails:
            fails.pop()
            failed.set()
            raise Boom
        world.act("undo")

    @effect("reversible", scope="slow:/x", undo=undo)
    async def act():
        world.act("act")

    async def body():
        async with settlement.transaction("trip") as tx:
            await tx.call(act)
            await tx.abort()

    task = asyncio.create_task(body())
    await failed.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (world.log, settlement.residue()) == ([("act",), ("undo",)], [])


async def test_a_timeout_around_a_tool_is_in_doubt_and_not_lost(settlement, world):
    slow = Slow(world)
    slow.go.set()

    @effect("idempotent", scope="slow:/{name}", keyed=False)
    async def act(name):
        raise TimeoutError("no answer")

    with pytest.raises(InDoubt, match="do not repeat it"):
        async with settlement.transaction("trip") as tx:
            await tx.call(act, name="x")
    assert [(r.tool, r.tag) for r in settlement.residue()] == [("act", Tag.UNRESOLVED)]


async def test_the_victim_of_a_wound_is_told_at_its_next_call(settlement, world, tools):
    async with settlement.transaction("older", may_touch=["room:/a"]) as older:
        opening = settlement.transaction("younger")
        younger = await opening.__aenter__()
        await younger.call(tools.book, room="a")
        await older.call(tools.book, room="a")
        with pytest.raises(Wounded, match="younger was undone: older came first and needed room:/a; run it again"):
            await younger.call(tools.book, room="b")
        with pytest.raises(Wounded):
            await opening.__aexit__(None, None, None)
    assert world.rooms == {"a"}


async def test_a_cancellation_that_a_tools_failure_hides_is_raised_at_the_next_wait_or_end(settlement, world, recorded):
    loop, begun, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    @effect("reversible", scope="room:/{room}", undo=lambda room: world.act("cancel", room))
    def book(room):
        loop.call_soon_threadsafe(begun.set)
        assert go.wait(20)
        raise Boom(room)

    async def body():
        async with settlement.transaction("trip") as tx:
            await tx.call(book, room="a")
            raise AssertionError("not reached")

    task = asyncio.create_task(body())
    await begun.wait()
    task.cancel()
    loop.call_soon(go.set)
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    assert isinstance(cancelled.value.__cause__, Boom)
    assert (world.log, task.cancelled()) == ([], True)
    assert recorded(settlement, "trip") == [("aborted", [("book", "failed", "clean")])]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


async def test_a_timeout_over_work_that_cannot_be_cut_short_is_told_as_one_and_its_task_can_go_on():
    """Who counts the cancellations of a task, as `asyncio.timeout` does, finds one."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            assert await to_its_end(asyncio.sleep(0, "done")) == "done"
            await asyncio.Event().wait()

    assert asyncio.current_task().cancelling() == 0
