"""A wrong answer to a question with a schema fails its run alone: nothing is undone, and the right answer goes on."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool as tool_of
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError
from tests.integrations.langgraph.test_shared_turns import model_of, sent
from tests.integrations.langgraph.world import THREAD, answers, graph, turn

from settlemark import effect
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware

errors = pytest.importorskip("langgraph.errors")
if not hasattr(errors, "is_invalid_resume"):
    pytest.skip("this release of LangGraph has no answers with a schema", allow_module_level=True)


class Approval(BaseModel):
    """What a person is to answer."""

    approved: bool


class State(BaseModel):
    """What a graph within a tool knows."""

    answer: str = ""


def question():
    return interrupt("Approve?", response_schema=Approval).approved


def within():
    """Ask in a graph of its own, as an agent does that a tool runs."""
    inner = StateGraph(State).add_node("ask", lambda _state: {"answer": str(question())}).add_edge(START, "ask")
    return inner.compile().invoke({})["answer"] == "True"


ASKS = {"in the tool": question, "in a graph within": within}
CLASSES = {
    "undeclared": lambda function: function,
    "read": effect("read"),
    "reversible": effect("reversible", scope="form:/", undo=lambda: None),
}


@pytest.fixture(params=CLASSES)
def kind(request):
    return request.param


@pytest.fixture(params=ASKS)
def tools(request, kind, world):
    @effect("reversible", scope="room:/{at}", undo=lambda at: world.act(f"cancel {at}"))
    def book(at: str) -> str:
        """Book a room."""
        world.act(f"book {at}")
        return f"booked {at}"

    @effect("irreversible", scope="mail:/{at}")
    def mail(at: str) -> str:
        """Send a mail."""
        world.act(f"mail {at}")
        return "sent"

    def ask() -> str:
        """Ask a person."""
        return f"approved: {ASKS[request.param]()}"

    return [tool_of(book), tool_of(CLASSES[kind](ask)), tool_of(mail)]


TURN = turn(("book", {"at": "Ada"}), ("mail", {"at": "ada"}), ("ask", {}), ("book", {"at": "Bee"}))


def in_a_node(tools, settlement):
    return graph(SequencedToolNode(tools, settlement=settlement), checkpointer=InMemorySaver()), {"messages": [TURN]}


def with_errors_handled(tools, settlement):
    node = SequencedToolNode(tools, settlement=settlement, handle_tool_errors=True)
    return graph(node, checkpointer=InMemorySaver()), {"messages": [TURN]}


def sent_apart(tools, settlement):
    return sent(tools, TURN, settlement, checkpointer=InMemorySaver()), {"messages": []}


def in_an_agent(tools, settlement):
    middleware = [SettlementMiddleware(settlement)]
    agent = create_agent(model_of(TURN), tools, middleware=middleware, checkpointer=InMemorySaver())
    return agent, {"messages": [HumanMessage("go")]}


WAYS = {
    "a node": in_a_node,
    "a node that handles errors": with_errors_handled,
    "a task for each call": sent_apart,
    "an agent": in_an_agent,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_answer_undoes_nothing_and_the_right_one_is_taken(world, settlement, tools, way, invoke):
    app, given = WAYS[way](tools, settlement)
    [asked] = invoke(app, given, THREAD)["__interrupt__"]
    before = list(world.log)

    for _ in range(2):
        with pytest.raises(ValidationError, match="approved"):
            invoke(app, Command(resume={asked.id: {"approved": "maybe"}}), THREAD)
        assert [each.id for each in app.get_state(THREAD).interrupts] == [asked.id]
        assert world.log == before
        assert settlement.residue() == []

    found = invoke(app, Command(resume={asked.id: {"approved": True}}), THREAD)
    assert "__interrupt__" not in found
    assert [status for status, _ in answers(found)] == ["success"] * 4
    assert "approved: True" in [text for _, text in answers(found)]
    assert sorted(world.log) == ["book Ada", "book Bee", "mail ada"]
    assert world.log[-1] == "mail ada"
    assert settlement.residue() == []


def test_a_wrong_answer_to_a_middleware_that_asks_in_a_tools_place_undoes_nothing(world, settlement, tools, invoke):
    class Asks(AgentMiddleware):
        def wrap_tool_call(self, request, handler):
            if request.tool_call["name"] == "ask":
                question()
            return handler(request)

        async def awrap_tool_call(self, request, handler):
            if request.tool_call["name"] == "ask":
                question()
            return await handler(request)

    quiet = [each for each in tools if each.name != "ask"]

    @tool_of
    @effect("read")
    def ask() -> str:
        """Look."""
        return "looked"

    middleware = [SettlementMiddleware(settlement), Asks()]
    agent = create_agent(model_of(TURN), [*quiet, ask], middleware=middleware, checkpointer=InMemorySaver())
    [asked] = invoke(agent, {"messages": [HumanMessage("go")]}, THREAD)["__interrupt__"]

    with pytest.raises(ValidationError, match="approved"):
        invoke(agent, Command(resume={asked.id: {"approved": "maybe"}}), THREAD)
    assert (settlement.residue(), [entry for entry in world.log if "cancel" in entry]) == ([], [])

    found = invoke(agent, Command(resume={asked.id: {"approved": True}}), THREAD)
    assert [status for status, _ in answers(found)] == ["success"] * 4
    assert sorted(world.log) == ["book Ada", "book Bee", "mail ada"]
