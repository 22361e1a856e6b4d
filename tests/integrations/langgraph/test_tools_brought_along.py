"""Tools that an agent is not made with: a middleware offers them, and other agents have some of the same name."""

from __future__ import annotations

import json

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from tests.integrations.langgraph.world import answers, graph, turn

from settlemark import effect
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, settled

FAILS = "Refused: mail was held and never left, so nothing of it happened; decide again from this: fail failed: "
UNDONE = "undone: book had succeeded, and was undone because fail failed: ValueError: no Bad"


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


class Excuse(AgentMiddleware):
    """Tells the model of an error."""

    def wrap_tool_call(self, request, handler):
        try:
            return handler(request)
        except ValueError as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")

    async def awrap_tool_call(self, request, handler):
        try:
            return await handler(request)
        except ValueError as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


class Brings(AgentMiddleware):
    """Offers the model tools that the agent has not, and runs them, as LangChain's page on tools has it."""

    def __init__(self, tools):
        super().__init__()
        self._brought = {tool.name: tool for tool in tools}

    def _offering(self, request):
        return request.override(tools=[*request.tools, *self._brought.values()])

    def _with_tool(self, request):
        found = self._brought.get(request.tool_call["name"])
        return request if found is None else request.override(tool=found)

    def wrap_model_call(self, request, handler):
        return handler(self._offering(request))

    async def awrap_model_call(self, request, handler):
        return await handler(self._offering(request))

    def wrap_tool_call(self, request, handler):
        return handler(self._with_tool(request))

    async def awrap_tool_call(self, request, handler):
        return await handler(self._with_tool(request))


def tools_of(world, who):
    """Tools whose functions know whose they are."""

    @tool
    @effect("reversible", scope="room:/{what}", undo=lambda what: world.act(f"{who} unbooks {what}"))
    def book(what: str) -> str:
        """Book a room."""
        world.act(f"{who} books {what}")
        return "booked"

    @tool
    @effect("irreversible", scope="mail:/{what}")
    def mail(what: str) -> str:
        """Send a mail."""
        world.act(f"{who} mails {what}")
        return "sent"

    @tool
    @effect("read")
    def fail(what: str) -> str:
        """Fail."""
        raise ValueError(f"no {what}")

    return [book, mail, fail]


def agent(messages, tools, *middleware):
    model = Model(messages=iter([*messages, AIMessage("Done.")]))
    return create_agent(model, tools, middleware=[Excuse(), *middleware], checkpointer=InMemorySaver())


BREAKS = turn(("mail", {"what": "Ada"}), ("book", {"what": "Ada"}), ("fail", {"what": "Bad"}))
HOLDS = turn(("mail", {"what": "Bee"}), ("book", {"what": "Bee"}))


@pytest.mark.parametrize("brings_first", [True, False])
def test_a_tool_that_a_middleware_brings_settles_as_it_says_of_itself(world, settlement, invoke, brings_first):
    brought, settles = Brings(tools_of(world, "she")), SettlementMiddleware(settlement)
    both = [brought, settles] if brings_first else [settles, brought]

    def go(message, thread):
        given = {"messages": [("human", "go")]}
        return answers(invoke(agent([message], [], *both), given, {"configurable": {"thread_id": thread}}))

    assert go(BREAKS, "breaks") == [
        ("error", f"{FAILS}ValueError: no Bad"),
        ("error", UNDONE),
        ("error", "no Bad"),
    ]
    assert go(HOLDS, "holds") == [("success", "sent"), ("success", "booked")]
    assert world.log == ["she books Ada", "she unbooks Ada", "she books Bee", "she mails Bee"]
    assert settlement.residue() == []


def test_a_tool_that_a_nodes_wrapper_brings_settles_as_it_says_of_itself(world, settlement, invoke):
    brought = Brings(tools_of(world, "she"))
    node = SequencedToolNode(
        [],
        settlement=settlement,
        handle_tool_errors=True,
        wrap_tool_call=brought.wrap_tool_call,
        awrap_tool_call=brought.awrap_tool_call,
    )

    why = "Error: ValueError('no Bad')\n Please fix your mistakes."
    assert answers(invoke(graph(node), {"messages": [BREAKS]})) == [
        ("error", f"{FAILS}{why}"),
        ("error", f"undone: book had succeeded, and was undone because fail failed: {why}"),
        ("error", why),
    ]
    assert world.log == ["she books Ada", "she unbooks Ada"]
    assert settlement.residue() == []


def test_agents_that_share_a_middleware_have_their_own_tools(world, settlement, invoke):
    settles = SettlementMiddleware(settlement)
    agents = {who: agent([BREAKS], tools_of(world, who), settles) for who in ("ada", "bob")}

    for who, each in agents.items():
        invoke(each, {"messages": [("human", "go")]}, {"configurable": {"thread_id": who}})

    assert world.log == ["ada books Ada", "ada unbooks Ada", "bob books Ada", "bob unbooks Ada"]
    assert settlement.residue() == []


def test_settled_tools_of_one_name_are_each_what_was_said_of_it(world, settlement):
    def note(what: str) -> str:
        """Note it."""
        world.act(f"note {what}")
        return "noted"

    def mail(what: str) -> str:
        """Mail it."""
        world.act(f"mail {what}")
        return "sent"

    said = {"irreversible": mail, "idempotent": note}
    tools = [
        settled(
            StructuredTool.from_function(function, name="tell"),
            settlement,
            effect={"kind": kind, "scope": f"{kind}:/{{what}}"},
        )
        for kind, function in said.items()
    ]

    for each in (*tools, *tools):
        each.invoke({"what": "Ada"})

    acted = [effect.row for recorded in settlement.transactions() for effect in recorded.effects]
    assert world.log == ["mail Ada", "note Ada"] * 2
    assert (
        sorted((row.kind.value, row.scope, json.loads(row.arguments)["what"]) for row in acted)
        == [("idempotent", "idempotent:/Ada", "Ada")] * 2 + [("irreversible", "irreversible:/Ada", "Ada")] * 2
    )
