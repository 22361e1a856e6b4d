"""What the stock framework does: the controls, and what a wrapper has to live with."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.tools import StaticStreamWorkbench, TextResultContent, ToolResult, Workbench
from tests.integrations.autogen.world import FIVE, Scripted, agent, answers, slow_act, soon, trip, turn


async def test_stock_acts_in_the_order_in_which_tools_are_done_and_its_transcript_does_not_show_it(world):
    result = await agent(Scripted(FIVE), [slow_act(world)]).run(task="go")

    assert world.log == [4, 3, 2, 1, 0]
    assert answers(result) == [(False, str(n)) for n in range(5)]


async def test_stock_keeps_what_the_other_calls_of_a_failed_turn_did(world):
    message = turn(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "a"}))

    result = await agent(Scripted(message), trip(world, broken=["rent"])).run(task="go")

    assert sorted(world.log) == ["book Ada", "mail a"]
    assert answers(result) == [(False, "book done"), (True, "rent is down"), (False, "mail done")]


class Raising(Workbench):
    """One that raises for the tool "fail", and answers for any other."""

    def __init__(self, error, world):
        self.error = error
        self.world = world

    async def list_tools(self):
        return [{"name": "fail"}, {"name": "act"}]

    async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
        if name == "fail":
            raise self.error
        self.world.act(name)
        return ToolResult(name=name, result=[TextResultContent(content="done")])

    async def start(self): ...
    async def stop(self): ...
    async def reset(self): ...
    async def save_state(self):
        return {}

    async def load_state(self, state): ...


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()], ids=["error", "cancellation"])
async def test_with_stock_a_workbench_that_raises_hangs_the_agent_for_ever_while_its_siblings_act(world, error):
    stock = AssistantAgent("agent", Scripted(turn(("fail", {}), ("act", {}))), workbench=Raising(error, world))
    hung = asyncio.ensure_future(stock.run(task="go"))

    await soon(lambda: world.log)
    for _ in range(1000):
        await asyncio.sleep(0)

    assert not hung.done()
    assert world.log == ["act"]
    hung.cancel()
    await asyncio.wait([hung])


async def test_with_stock_the_calls_of_a_cancelled_agent_still_act(world):
    gate, running = asyncio.Event(), asyncio.Event()

    async def act() -> str:
        """Act."""
        running.set()
        await gate.wait()
        world.act("late")
        return "done"

    job = asyncio.ensure_future(agent(Scripted(turn(("act", {}))), [act]).run(task="go"))
    await running.wait()
    job.cancel()
    await asyncio.wait([job])
    gate.set()
    await soon(lambda: world.log)

    assert job.cancelled()
    assert world.log == ["late"]


async def test_stock_runs_a_call_whose_token_was_cancelled_to_a_cancellation_that_hangs_the_agent(world):
    running, token = asyncio.Event(), CancellationToken()

    async def act() -> str:
        """Act."""
        running.set()
        await asyncio.Event().wait()

    job = asyncio.ensure_future(agent(Scripted(turn(("act", {}))), [act]).run(task="go", cancellation_token=token))
    await running.wait()
    token.cancel()
    for _ in range(1000):
        await asyncio.sleep(0)

    assert not job.done()
    job.cancel()
    await asyncio.wait([job])


def test_agents_stream_from_static_stream_workbenches_alone():
    source = inspect.getsource(AssistantAgent._execute_tool_call)

    assert "isinstance(wb, StaticStreamWorkbench)" in source
    assert issubclass(StaticStreamWorkbench, Workbench)
