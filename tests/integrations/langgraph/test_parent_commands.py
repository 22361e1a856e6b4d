"""Calls of one turn that each hand over to agents of the parent graph: all are handed over to, each once."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send
from tests.integrations.langgraph.world import turn

from settlemark import effect
from settlemark_langgraph import SettlementMiddleware


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def handoff(clerk, declare):
    def go(what: str) -> Command:
        """Hand over."""
        return Command(graph=Command.PARENT, goto=[Send(clerk, {"messages": [("human", what)]})])

    return tool(f"to_{clerk}")(declare(go))


def company(middleware, declare):
    """An agent that hands over to two others, which note what they were sent."""
    noted = []
    issued = turn(("to_ada", {"what": "book"}), ("to_bee", {"what": "mail"}))
    tools = [handoff("ada", declare), handoff("bee", declare)]
    agent = create_agent(Model(messages=iter([issued])), tools, middleware=middleware)
    builder = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent")
    for clerk in ("ada", "bee"):
        builder.add_node(clerk, lambda state, clerk=clerk: noted.append((clerk, state["messages"][-1][1])))
    return builder.compile(), noted


DECLARED = {
    "undeclared": lambda function: function,
    "read": effect("read"),
    "idempotent": effect("idempotent", scope="clerk:/{what}"),
}


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("declared", DECLARED)
async def test_every_handoff_of_a_turn_is_obeyed_once_and_stock_obeys_one(settlement, declared, awaited):
    async def run(middleware):
        graph, noted = company(middleware, DECLARED[declared])
        given = {"messages": [("human", "go")]}
        await graph.ainvoke(given) if awaited else graph.invoke(given)
        return sorted(noted)

    assert len(await run([])) == 1
    assert await run([SettlementMiddleware(settlement)]) == [("ada", "book"), ("bee", "mail")]
