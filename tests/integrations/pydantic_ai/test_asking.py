"""An agent that cannot ask a person is refused when it is constructed, before anything waits for an answer."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, FunctionToolset
from pydantic_ai.capabilities import HandleDeferredToolCalls, Hooks
from tests.integrations.contract.world import desk
from tests.integrations.pydantic_ai.driver import scripted

from settlemark import UsageError, effect
from settlemark_pydantic_ai import Settled


def build(settlement, *, tools=(), toolsets=(), output=str, others=(), effects=None):
    ours = Settled(settlement, run="trip", effects=effects)
    return Agent(scripted([]), tools=tools, toolsets=toolsets, output_type=output, capabilities=[*others, ours])


@pytest.mark.parametrize("where", ["tools", "toolsets", "prefixed", "effects"])
def test_an_agent_whose_tool_needs_a_yes_that_nobody_can_be_asked_for_is_refused(world, settlement, where):
    def wire(what: str) -> str:
        """Wire."""
        return what

    how = {
        "tools": {"tools": desk(world)},
        "toolsets": {"toolsets": [FunctionToolset(desk(world))]},
        "prefixed": {"toolsets": [FunctionToolset(desk(world)).prefixed("my")]},
        "effects": {
            "tools": [wire],
            "effects": {"wire": {"kind": "irreversible", "scope": "bill:/{what}", "approve": True}},
        },
    }[where]

    with pytest.raises(UsageError, match=r"needs a person's yes \(approve=, or a policy\), and this agent cannot ask"):
        build(settlement, **how)
    build(settlement, **how, output=[str, DeferredToolRequests])
    build(settlement, **how, output=str | DeferredToolRequests)


def test_one_whose_questions_a_capability_answers_may_be_constructed(world, settlement):
    async def answer(_ctx, requests):
        return DeferredToolResults(approvals={call.tool_call_id: True for call in requests.approvals})

    build(settlement, tools=desk(world), others=[HandleDeferredToolCalls(answer)])
    build(settlement, tools=desk(world), others=[Hooks(deferred_tool_calls=answer)])


def test_one_whose_tools_need_no_yes_may_be_constructed(world, settlement):
    @effect("irreversible", scope="mail:/{what}")
    def mail(what: str) -> str:
        """Mail."""
        return what

    build(settlement, tools=[mail])
