"""A call that comes when its turn was abandoned: it is told that the turn is over, and nothing of it happens."""

from __future__ import annotations

import asyncio
import importlib
import threading
from contextlib import suppress

import pytest
from tests.integrations.contract.world import PATIENCE, play, together, turns, unaccounted, unfinished

from settlemark import effect
from settlemark.agents import OpenTurn

INLETS = {
    "langgraph": ("langgraph.prebuilt", "ToolNode", ("_run_one", "_arun_one"), lambda _node, call, *_: call),
    "crewai": (
        "crewai.agents.agent_executor", "AgentExecutor", ("_execute_single_native_tool_call",),
        lambda _executor, call: call,
    ),
    "autogen": (
        "autogen_agentchat.agents", "AssistantAgent", ("_execute_tool_call",), lambda tool_call, **_: tool_call
    ),
    "pydantic_ai": (
        "pydantic_ai.tool_manager", "ToolManager", ("execute_tool_call",), lambda _manager, found, **_: found.call
    ),
    "toy": ("tests.integrations.contract.toy", "SettledToy", ("_settled",), lambda _toy, _turn, _place, call: call),
}  # fmt: skip # a table
"""What of a framework runs one call, before any of ours hears of it, and how to find the call in what that is given."""
LATE = {"eager": ("book", "late"), "held": ("mail", "late")}


class Base(BaseException):
    """No `Exception`: frameworks let it out, or drop all that they have begun."""


RAISED = [Base, GeneratorExit, asyncio.CancelledError]
NEVER_ENDS = {
    ("autogen", Base): "an agent of AutoGen's never ends when a tool raises what is no Exception, with stock either"
}


class Door:
    """Where a late call stands until its turn is over; whatever cancels it there, it comes."""

    def __init__(self):
        self.reached, self.over = threading.Event(), threading.Event()

    def hold_back(self, call):
        if "late" not in repr(call):
            return
        self.reached.set()
        assert self.over.wait(PATIENCE)

    async def hold_back_task(self, call):
        held = asyncio.ensure_future(asyncio.to_thread(self.hold_back, call))
        while not held.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(held)
        held.result()


@pytest.fixture
def door(driver, monkeypatch):
    """The door of a framework's calls."""
    door = Door()
    module, name, inlets, call_of = INLETS[driver.name]
    kind = getattr(importlib.import_module(module), name)
    for inlet in inlets:
        monkeypatch.setattr(kind, inlet, _behind(door, kind.__dict__[inlet], call_of))

    abandon, leave = OpenTurn.abandon, OpenTurn.leave

    def abandoned(batch, error):
        try:
            return (yield from abandon(batch, error))
        finally:
            door.over.set()

    def left(batch, call, **how):
        yield from leave(batch, call, **how)
        if call.failed is not None and batch._end.cut is None:
            door.over.set()  # it has failed like any other: the turn goes on

    monkeypatch.setattr(OpenTurn, "abandon", abandoned)
    monkeypatch.setattr(OpenTurn, "leave", left)
    return door


def _behind(door, inlet, call_of):
    bound = inlet.__func__ if isinstance(inlet, classmethod | staticmethod) else inlet
    if asyncio.iscoroutinefunction(bound):

        async def come(*given, **named):
            await door.hold_back_task(call_of(*given, **named))
            return await bound(*given, **named)

    else:

        def come(*given, **named):
            door.hold_back(call_of(*given, **named))
            return bound(*given, **named)

    return type(inlet)(come) if isinstance(inlet, classmethod | staticmethod) else come


def desk(world, tarry):
    """A booking that can be undone, of which one tarries, and a mail that cannot."""

    @effect("reversible", scope="room:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    def book(what: str) -> str:
        """Book a room."""
        if what == "Bad":
            tarry()
        return f"number {world.act(f'book {what}')}"

    @effect("irreversible", scope="mail:/{what}")
    def mail(what: str) -> str:
        """Send a mail."""
        return f"number {world.act(f'mail {what}')}"

    return [book, mail]


def accounted(world, settlement):
    """What stands of the turn, what nobody knows of, and what nobody has ended."""
    settlement.recover(keep_open=0)
    return (world.standing(), unaccounted(world, settlement), unfinished(settlement))


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("raised", RAISED, ids=lambda kind: kind.__name__)
def test_a_call_that_comes_when_an_error_has_torn_its_turn_down_does_not_act(
    driver, world, settlement, face, door, raised, late
):
    if (driver.name, raised) in NEVER_ENDS:
        pytest.skip(NEVER_ENDS[driver.name, raised])

    def tarry():
        assert door.reached.wait(PATIENCE)
        raise raised("torn")

    play(driver, desk(world, tarry), turns([("book", "Ada"), ("book", "Bad"), LATE[late]]), settlement, face=face)

    assert {"book late", "mail late"}.isdisjoint(world.log)
    assert accounted(world, settlement) == ({}, [], [])


@pytest.mark.parametrize("late", LATE)
def test_a_call_that_comes_when_its_run_was_cancelled_does_not_act(driver, world, settlement, door, late):
    acting, let_go = threading.Event(), threading.Event()

    def tarry():
        assert door.reached.wait(PATIENCE)
        acting.set()
        assert let_go.wait(PATIENCE)

    async def cancel():
        script = turns([("book", "Ada"), ("book", "Bad"), LATE[late]])
        task = asyncio.create_task(driver.arun(desk(world, tarry), script, settlement=settlement))
        assert await asyncio.to_thread(acting.wait, PATIENCE)
        task.cancel()
        asyncio.get_running_loop().call_soon(let_go.set)
        with suppress(asyncio.CancelledError):
            await task

    together(lambda: asyncio.run(cancel()))

    assert {"book late", "mail late"}.isdisjoint(world.log)
    assert accounted(world, settlement) == ({}, [], [])
