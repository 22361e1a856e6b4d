"""What the stock framework does: the controls, and what a wrapper has to live with."""

from __future__ import annotations

import asyncio
import threading

import pytest
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, RunContext
from tests.integrations.contract.world import turns
from tests.integrations.pydantic_ai.world import FIVE, TOLD, agent, slow_act, texts


async def test_stock_acts_in_the_order_in_which_tools_are_done_and_its_transcript_does_not_show_it(world):
    result = await agent(FIVE, [slow_act(world)]).run("go")

    assert world.log == [4, 3, 2, 1, 0]
    assert texts(result) == TOLD


async def test_with_stock_calls_behind_one_that_needs_a_yes_act_before_it_is_answered(world):
    def pay(ctx: RunContext, what: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return world.act(f"pay {what}")

    def mail(what: str) -> str:
        return world.act(f"mail {what}")

    result = await agent(turns([("pay", "hotel"), ("mail", "ada")]), [pay, mail]).run("go")

    assert [call.tool_name for call in result.output.approvals] == ["pay"]
    assert world.log == ["mail ada"]


async def test_with_stock_a_synchronous_call_acts_when_its_run_has_failed_long_since(world):
    begun, run_failed, ended = threading.Event(), threading.Event(), threading.Event()

    async def fail() -> str:
        await asyncio.to_thread(begun.wait, 30)
        raise ValueError("down")

    def book() -> str:
        begun.set()
        run_failed.wait(30)
        world.act("book")
        ended.set()
        return "booked"

    with pytest.raises(ValueError, match="down"):
        await agent(turns([("fail", {}), ("book", {})]), [fail, book]).run("go")
    before = list(world.log)
    run_failed.set()
    await asyncio.to_thread(ended.wait, 30)

    assert (before, world.log) == ([], ["book"])


async def test_with_stock_a_wrapped_toolset_misses_the_tools_of_the_agent_itself(world):
    from pydantic_ai import FunctionToolset, WrapperToolset

    class Watching(WrapperToolset):
        async def call_tool(self, name, tool_args, ctx, tool):
            world.act(name)
            return await super().call_tool(name, tool_args, ctx, tool)

    def first() -> str:
        return "1"

    clerk = Agent(
        agent(turns([("first", {}), ("second", {})])).model,
        toolsets=[Watching(FunctionToolset([first]))],
        output_type=[str, DeferredToolRequests],
    )

    @clerk.tool_plain
    def second() -> str:
        return "2"

    assert texts(await clerk.run("go")) == ["1", "2"]
    assert world.log == ["first"]
