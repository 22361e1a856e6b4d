"""Undo, probe and release get and give what the tool itself returns, whatever LangChain makes of that."""

from __future__ import annotations

from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langgraph.types import Command, Send
from tests.integrations.langgraph.test_shared_turns import Model
from tests.integrations.langgraph.world import THREAD, graph, turn
from tests.rooms.langgraph import answer_from, plain

from settlemark import Settlement, effect, inverse
from settlemark.hosting import json_text
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, settled

BOOKED = {"id": "R7", "at": ["Ada", 1]}


def messages(said):
    return [message for message in said["messages"] if isinstance(message, ToolMessage)]


class Odd:
    def __repr__(self):
        return "odd"


def _command(**fields):
    return lambda id_: Command(**fields, update={"messages": [ToolMessage("booked", tool_call_id=id_)]})


RETURNED = {
    "text": (None, lambda _: "booked", "booked"),
    "blocks": (None, lambda _: [{"type": "text", "text": "booked"}], [{"type": "text", "text": "booked"}]),
    "a message": (None, lambda id_: ToolMessage("booked", tool_call_id=id_), "booked"),
    "a message of data": (None, lambda id_: ToolMessage('{"id": "R7"}', id="m", tool_call_id=id_), {"id": "R7"}),
    "an artifact": ("content_and_artifact", lambda _: ("booked", BOOKED), ["booked", BOOKED]),
    "data and an artifact": ("content_and_artifact", lambda _: ({"n": 1}, [BOOKED]), [{"n": 1}, [BOOKED]]),
    "an artifact that is no JSON": ("content_and_artifact", lambda _: ("booked", Odd()), ["booked", {"$repr": "odd"}]),
    "a command": (None, _command(), {"update": {"messages": ["booked"]}}),
    "a command that goes on": (
        None,
        _command(goto=[Send("rest", {"booking": BOOKED})]),
        {"update": {"messages": ["booked"]}, "goto": [{"node": "rest", "arg": {"booking": BOOKED}}]},
    ),
    "messages": (None, lambda id_: [ToolMessage("booked", id="m", tool_call_id=id_)], ["booked"]),
}


def tools(form, made, handlers, kind="reversible"):
    def book(hotel: str, tool_call_id: Annotated[str, InjectedToolCallId]):
        """Book a room."""
        return made(tool_call_id)

    async def abook(hotel: str, tool_call_id: Annotated[str, InjectedToolCallId]):
        return made(tool_call_id)

    declared = effect(kind, scope="room:/{hotel}", **handlers)(book)

    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    return [
        StructuredTool.from_function(declared, coroutine=abook, name="book", response_format=form or "content"),
        StructuredTool.from_function(fail, name="fail"),
    ]


class Node:
    def run(self, tools, settlement, invoke, *calls, saver=None):
        node = SequencedToolNode(tools, settlement=settlement, handle_tool_errors=True)
        return invoke(graph(node, checkpointer=saver), {"messages": [turn(*calls)]}, THREAD)


class Agent:
    def run(self, tools, settlement, invoke, *calls, saver=None):
        said = iter([turn(*calls), AIMessage("done", id="done")])
        for tool in tools:
            tool.handle_tool_error = True
        agent = create_agent(
            Model(messages=said, told=[]), tools, middleware=[SettlementMiddleware(settlement)], checkpointer=saver
        )
        try:
            return invoke(agent, {"messages": [HumanMessage("go")]}, THREAD)
        except ValueError:
            return None


@pytest.fixture(params=[Node, Agent], ids=["node", "create_agent"])
def kind(request):
    return request.param()


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
def test_an_undo_gets_what_the_tool_returned(settlement, invoke, kind, returned):
    form, made, own = returned
    got = []

    def undo(result):
        got.append(result)

    kind.run(tools(form, made, {"undo": undo}), settlement, invoke, ("book", {"hotel": "Ada"}), ("fail", {}))

    assert got == [own]
    assert [left.tool for left in settlement.residue() if left.tool == "book"] == []


def test_an_inverse_takes_fields_of_a_message_of_data(settlement, invoke, kind):
    got = []
    undo = inverse(lambda booking: got.append(booking), booking="id")
    made = lambda id_: ToolMessage('{"id": "R7"}', id="m", tool_call_id=id_)  # noqa: E731

    kind.run(tools(None, made, {"undo": undo}), settlement, invoke, ("book", {"hotel": "Ada"}), ("fail", {}))

    assert got == ["R7"]


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
def test_an_undo_in_another_process_gets_the_same(tmp_path, invoke, returned):
    form, made, own = returned
    got = []
    found = tools(form, made, {"undo": lambda result: got.append(result)})[:1]
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        Node().run(found, settlement, invoke, ("book", {"hotel": "Ada"}))
        (name,) = [found.row.name for found in settlement.transactions()]
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        settlement.declare("book", "reversible", scope="room:/{hotel}", undo=lambda result: got.append(result))
        settlement.rewind(name, by="ada", dry_run=False)

    assert got == [own]


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
def test_an_answer_from_the_record_is_what_the_tool_said(settlement, invoke, returned):
    form, made, _ = returned
    found = tools(form, made, {"undo": lambda: None})[:1]
    built = graph(SequencedToolNode(found, settlement=settlement))
    first = invoke(built, {"messages": [turn(("book", {"hotel": "Ada"}))]}, THREAD)

    (recorded,) = settlement.transactions()[0].effects
    call = turn(("book", {"hotel": "Ada"})).tool_calls[0]
    again = answer_from(json_text.decode(recorded.result), call)
    assert plain(again) == plain(answer_from(plain(again), call))
    if isinstance(again, ToolMessage):
        assert again.content == messages(first)[0].content


@pytest.mark.parametrize("handler", ["probe", "release"])
def test_what_a_handler_returns_in_its_place_is_content_and_artifact_too(settlement, invoke, kind, handler):
    def made(_):
        raise TimeoutError("no answer")

    def instead(hotel):
        return ("booked", BOOKED)

    effect_kind = "idempotent" if handler == "probe" else "irreversible"
    found = tools("content_and_artifact", made, {handler: instead}, effect_kind)[:1]

    said = kind.run(found, settlement, invoke, ("book", {"hotel": "Ada"}))

    (answer,) = messages(said)
    assert (answer.content, answer.artifact) == ("booked", BOOKED)


@pytest.mark.parametrize("form", ["content", "content_and_artifact"])
def test_a_settled_tool_called_with_its_arguments_alone_returns_what_stock_does(settlement, form):
    def book(hotel: str):
        """Book a room."""
        return ("booked", BOOKED) if form != "content" else "booked"

    stock = StructuredTool.from_function(book, response_format=form)
    ours = settled(stock, settlement, effect={"kind": "irreversible", "scope": "room:/{hotel}"})

    assert ours.invoke({"hotel": "Ada"}) == stock.invoke({"hotel": "Ada"}) == "booked"
    call = {"name": "book", "args": {"hotel": "Bee"}, "id": "1", "type": "tool_call"}
    assert ours.invoke(call).artifact == stock.invoke(call).artifact
