"""Calls of one turn that each hand over to agents of the parent graph: all are handed over to, each once."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command, Send
from tests.integrations.langgraph.world import turn

from settlemark import effect
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware


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


# ---- every shape


class Company(MessagesState):
    active: str
    notes: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]


def _state(runtime):
    return runtime.state["messages"]


def by_name(clerk):
    def go(runtime: ToolRuntime) -> Command:
        """Hand over."""
        answer = ToolMessage(f"to {clerk}", name=f"to_{clerk}", tool_call_id=runtime.tool_call_id)
        update = {"messages": [*_state(runtime), answer], "active": clerk, "notes": [clerk], "count": 1}
        return Command(graph=Command.PARENT, goto=clerk, update=update)

    return go


def by_list(clerk):
    def go(runtime: ToolRuntime) -> Command:
        """Hand over."""
        return replace(by_name(clerk)(runtime), goto=[clerk])

    return go


def by_send(clerk):
    def go(runtime: ToolRuntime) -> Command:
        """Hand over."""
        whole = by_name(clerk)(runtime)
        return Command(graph=Command.PARENT, goto=[Send(clerk, {"messages": []})], update=whole.update)

    return go


SHAPES = {"a name": by_name, "a list of names": by_list, "Sends": by_send}


def _agent(said, tools, settlement):
    return create_agent(Model(messages=iter([said])), tools, middleware=[SettlementMiddleware(settlement)])


def _node(said, tools, settlement):
    builder = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [said]})
    builder.add_node("tools", SequencedToolNode(tools, settlement=settlement))
    return builder.add_edge(START, "say").add_edge("say", "tools").compile()


def _in_memory(said, tools, settlement):
    return _node(said, tools, None)


@pytest.fixture(params=[_agent, _node, _in_memory], ids=["create_agent", "node", "node without a settlement"])
def run(request, settlement, invoke):
    """Let an agent of these tools make these calls within a graph; return what clerks were reached, and the state."""

    def run(tools, *calls):
        noted = []
        agent = request.param(turn(*calls), tools, settlement)
        builder = StateGraph(Company).add_node("agent", agent, destinations=("ada", "bee")).add_edge(START, "agent")
        for clerk in ("ada", "bee"):
            builder.add_node(clerk, lambda state, clerk=clerk: noted.append(clerk))
        return noted, invoke(builder.compile(), {"messages": [("human", "go")]})

    return run


def _answered(state):
    return [message.tool_call_id for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("second", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("first", SHAPES.values(), ids=SHAPES)
def test_whatever_shape_they_have_all_are_obeyed_and_every_call_is_answered(run, first, second):
    tools = [tool("to_ada")(first("ada")), tool("to_bee")(second("bee"))]

    noted, state = run(tools, ("to_ada", {}), ("to_bee", {}))

    assert sorted(noted) == ["ada", "bee"]
    assert _answered(state) == ["call-0", "call-1"]
    assert (state["active"], state["notes"]) == ("bee", ["ada", "bee"])
    assert len({message.id for message in state["messages"]}) == len(state["messages"])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("handed", [0, 1])
def test_a_plain_answer_of_the_turn_goes_along(run, world, shape, handed):
    @tool
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: None)
    def book(hotel: str) -> str:
        """Book a room."""
        world.act(f"book {hotel}")
        return "booked"

    calls = [("book", {"hotel": "Ada"})]
    calls.insert(handed, ("to_bee", {}))

    noted, state = run([book, tool("to_bee")(shape("bee"))], *calls)

    assert (noted, world.log) == (["bee"], ["book Ada"])
    assert sorted(_answered(state)) == ["call-0", "call-1"]


def test_two_to_the_same_agent_reach_it_once(run):
    tools = [tool("to_ada")(by_name("ada")), tool("also_to_ada")(by_name("ada"))]

    noted, state = run(tools, ("to_ada", {}), ("also_to_ada", {}))

    assert noted == ["ada"]
    assert (_answered(state), state["notes"]) == (["call-0", "call-1"], ["ada", "ada"])


def test_one_command_alone_is_obeyed_as_it_is(run):
    noted, state = run([tool("to_ada")(by_name("ada"))], ("to_ada", {}))

    assert (noted, state["active"], state["count"], _answered(state)) == (["ada"], "ada", 1, ["call-0"])


def test_the_update_of_a_command_that_sends_is_kept_too(run):
    noted, state = run([tool("to_ada")(by_send("ada"))], ("to_ada", {}))

    assert (noted, state["active"], state["count"], _answered(state)) == (["ada"], "ada", 1, ["call-0"])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_turn_that_was_undone_hands_nothing_over_and_says_so(world, settlement, invoke, shape):
    @tool
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"))
    def book(hotel: str) -> str:
        """Book."""
        world.act(f"book {hotel}")
        return "booked"

    @tool
    @effect("read", scope="mailbox:/{to}")
    def check(to: str) -> str:
        """Check."""
        raise ValueError(f"{to} is no address")

    tools = [book, check, tool("to_ada")(effect("read")(shape("ada")))]
    said = turn(("book", {"hotel": "Ada"}), ("to_ada", {}), ("check", {"to": "x"}))
    node = SequencedToolNode(tools, settlement=settlement, handle_tool_errors=True)
    agent = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [said]}).add_node("tools", node)
    agent = agent.add_edge(START, "say").add_edge("say", "tools").compile()
    noted = []
    builder = StateGraph(Company).add_node("agent", agent, destinations=("ada",)).add_edge(START, "agent")
    builder.add_node("ada", lambda state: noted.append("ada"))

    state = invoke(builder.compile(), {"messages": [("human", "go")]})

    assert (noted, world.log) == ([], ["book Ada", "cancel Ada"])
    answers = {message.tool_call_id: message for message in state["messages"] if isinstance(message, ToolMessage)}
    assert answers["call-1"].status == "error"
    assert answers["call-1"].text.startswith("to_ada handed nothing over: its turn was undone")
