"""With an agent-wide settlement undeclared tools time out, retry, defer and are cancelled as with stock."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import (
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDenied,
    ToolFailed,
    capture_run_messages,
)
from pydantic_ai.messages import ToolReturnPart
from tests.integrations.clocks import LIMIT, use_up
from tests.integrations.contract.world import turns
from tests.integrations.pydantic_ai.world import agent, answers

from settlemark import Settlement
from settlemark_pydantic_ai import Settled


class Tools:
    """Tools of nobody, and what they did."""

    def __init__(self):
        self.log = []
        self.tried = []

    def found(self):
        async def hang(what: str) -> str:
            self.tried.append(what)
            if len(self.tried) == 1:
                use_up()
                await asyncio.Event().wait()
            return f"hung {what}"

        async def try_again(ctx: RunContext, what: str) -> str:
            self.tried.append(ctx.retry)
            if ctx.retry < 1:
                raise ModelRetry("again")
            return f"tried {what}"

        def plain(what: str) -> str:
            self.log.append(what)
            return f"plain {what}"

        def fail(what: str) -> str:
            raise ToolFailed(f"no {what}")

        def careful(ctx: RunContext, what: str) -> str:
            if not ctx.tool_call_approved:
                raise ApprovalRequired(metadata={"about": what})
            self.log.append(what)
            return f"careful {what}"

        def elsewhere(what: str) -> str:
            raise CallDeferred(metadata={"task": what})

        def signed(what: str) -> str:
            self.log.append(what)
            return f"signed {what}"

        toolset = FunctionToolset([try_again, plain, fail, careful, elsewhere, signed])
        toolset.add_function(hang, timeout=LIMIT)
        return toolset.approval_required(lambda ctx, tool_def, args: tool_def.name == "signed")


async def played(script, approvals=None, calls=None, *, ours):
    """What a run came to: its output's kind and questions, the answers, and what was done."""
    tools = Tools()
    with Settlement("memory:") as settlement:
        capabilities = [Settled(settlement, run="trip")] if ours else []
        clerk = agent(turns(*script), toolsets=[tools.found()], capabilities=capabilities)
        result, asked = await clerk.run("go"), []
        if isinstance(result.output, DeferredToolRequests):
            found = result.output
            asked = [[call.tool_call_id for call in kind] for kind in (found.approvals, found.calls)]
            asked.append(found.metadata)
            answered = DeferredToolResults(approvals=approvals or {}, calls=calls or {})
            result = await clerk.run(message_history=result.all_messages(), deferred_tool_results=answered)
        return result.output, asked, answers(result), tools.log, tools.tried, result.usage.tool_calls


SCRIPTS = {
    "a time limit, and then in time": ([[("hang", "a")], [("hang", "b")]],),
    "a time limit, and then the same again": ([[("hang", "a")], [("hang", "a")]],),
    "a time limit beside another call": ([[("plain", "a")], [("hang", "a")], [("plain", "b")]],),
    "a call beside one that fails": ([[("plain", "a"), ("fail", "b")]],),
    "a retry": ([[("try_again", "a")], [("try_again", "b")]],),
    "two approvals at once": (
        [[("signed", "a"), ("signed", "b")]],
        {"call-0-0": True, "call-0-1": True},
    ),
    "an approval, with other arguments": (
        [[("careful", "a")]],
        {"call-0-0": ToolApproved(override_args={"what": "c"})},
    ),
    "a denial": ([[("careful", "a")]], {"call-0-0": ToolDenied("no")}),
    "a call that is carried out elsewhere": ([[("elsewhere", "a")]], {}, {"call-0-0": "done"}),
    "one that failed elsewhere": ([[("elsewhere", "a")]], {}, {"call-0-0": ModelRetry("again")}),
}


async def test_of_two_calls_that_ask_in_their_own_bodies_the_second_asks_when_the_first_is_answered():
    """The rule of order: its body might act at once, before the first call is answered. With stock both bodies run."""
    script = ([[("careful", "a"), ("careful", "b")]], {"call-0-0": True, "call-0-1": True})

    _, asked, _, _, _, _ = await played(*script, ours=False)
    assert asked[0] == ["call-0-0", "call-0-1"]
    output, asked, *_ = await played(*script, ours=True)
    assert asked[0] == ["call-0-0"]
    assert [call.tool_call_id for call in output.approvals] == ["call-0-1"]


@pytest.mark.parametrize("case", SCRIPTS)
async def test_a_run_comes_to_what_it_comes_to_with_stock(case):
    ours, stock = [await played(*SCRIPTS[case], ours=side) for side in (True, False)]
    also = " Whether it acted is not known." if "time limit" in case else ""
    told = [(outcome, text.removesuffix(also) if outcome == "retried" else text) for outcome, text in ours[2]]
    assert (*ours[:2], told, *ours[3:]) == stock


@pytest.mark.parametrize("ours", [True, False])
async def test_calls_of_reads_run_beside_each_other_and_all_are_cancelled_with_their_run(ours):
    met, cancelled = asyncio.Barrier(3), []

    async def meet(what: str) -> str:
        await met.wait()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(what)
        return what

    with Settlement("memory:") as settlement:
        capabilities = [Settled(settlement, run="trip", effects={"meet": "read"})] if ours else []
        clerk = agent(turns([("meet", "a"), ("meet", "b")]), [meet], capabilities=capabilities)
        job = asyncio.create_task(clerk.run("go"))
        async with asyncio.timeout(30):
            await met.wait()
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
    assert sorted(cancelled) == ["a", "b"]


@pytest.mark.parametrize("ours", [True, False])
async def test_a_run_that_is_cancelled_keeps_the_answers_of_calls_that_were_over(ours):
    """A call that waits for the others is over: what its tool has returned stands, for nobody declared it."""
    begun, acted = asyncio.Event(), []

    async def fast(what: str) -> str:
        acted.append(what)
        return f"fast {what}"

    async def slow(what: str) -> str:
        begun.set()
        await asyncio.Event().wait()
        return what

    with Settlement("memory:") as settlement:
        capabilities = [Settled(settlement, run="trip")] if ours else []
        clerk = agent(turns([("fast", "a"), ("slow", "b")]), [fast, slow], capabilities=capabilities)
        with capture_run_messages() as messages:
            job = asyncio.create_task(clerk.run("go"))
            async with asyncio.timeout(30):
                await begun.wait()
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
        parts = [part for message in messages for part in message.parts]
        named = [(left.tool, left.tag.value) for left in settlement.residue()]
    assert [(part.outcome, part.content) for part in parts if isinstance(part, ToolReturnPart)] == [
        ("success", "fast a")
    ]
    assert (acted, named) == (["a"], [("fast", "unresolved"), ("slow", "unresolved")] if ours else [])
