"""Calls act in the order in which the model issued them."""

from __future__ import annotations

import pytest
from autogen_agentchat.agents import AssistantAgent
from tests.integrations.autogen.world import FIVE, Scripted, agent, answers, slow_act

from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench


@pytest.mark.parametrize("streams", [False, True])
async def test_effects_of_one_turn_happen_in_issuance_order(world, settlement, streams):
    settled = agent(Scripted(FIVE), [slow_act(world)], settlement, model_client_stream=streams)

    result = await settled.run(task="go")

    assert world.log == [0, 1, 2, 3, 4]
    assert answers(result) == [(False, str(n)) for n in range(5)]


async def test_a_workbench_alone_keeps_the_order_of_entry(world, settlement):
    workbench = SettledWorkbench([slow_act(world)], settlement, run="trip-42", unsettled="allow")

    result = await AssistantAgent("agent", Scripted(FIVE), workbench=workbench).run(task="go")

    assert world.log == [0, 1, 2, 3, 4]
    assert answers(result) == [(False, str(n)) for n in range(5)]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_client_alone_hands_out_one_call_at_a_time(world, settlement, streams):
    client = SettledChatCompletionClient(Scripted(FIVE), settlement, run="trip-42", unsettled="allow")

    result = await AssistantAgent(
        "agent", client, tools=[slow_act(world)], max_tool_iterations=6, model_client_stream=streams
    ).run(task="go")

    assert world.log == [0, 1, 2, 3, 4]
    assert answers(result) == [(False, str(n)) for n in range(5)]
    assert result.messages[-1].content == "done"
