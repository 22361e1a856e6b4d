"""LangGraph injects its runtime by a parameter's name as well: it is no argument, and is not recorded."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool as tool_of
from langgraph.prebuilt import ToolNode
from tests.integrations.langgraph.test_shared_turns import model_of
from tests.integrations.langgraph.world import answers, graph, turn

from settlemark import effect
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, settled

TURN = turn(("book", {"hotel": "Ada"}))


def in_a_node(tool, settlement):
    return graph(SequencedToolNode([tool], settlement=settlement)), {"messages": [TURN]}


def in_an_agent(tool, settlement):
    agent = create_agent(model_of(TURN), [tool], middleware=[SettlementMiddleware(settlement)])
    return agent, {"messages": [HumanMessage("go")]}


def settled_alone(tool, settlement):
    return graph(ToolNode([settled(tool, settlement)])), {"messages": [TURN]}


@pytest.mark.parametrize("way", [in_a_node, in_an_agent, settled_alone])
def test_a_runtime_that_is_injected_by_its_name_reaches_the_tool_and_not_the_record(world, settlement, way):
    @tool_of
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"))
    def book(hotel: str, runtime: Any) -> str:
        """Book a room."""
        world.act(f"book {hotel} for {type(runtime).__name__}")
        return "booked"

    app, given = way(book, settlement)
    found = app.invoke(given)

    assert [status for status, _ in answers(found)] == ["success"]
    assert world.log == ["book Ada for ToolRuntime"]
    (recorded,) = settlement.transactions()
    assert [effect.row.arguments for effect in recorded.effects] == ['{"hotel":"Ada"}']
