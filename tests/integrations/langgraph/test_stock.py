"""What the stock node does with errors, commands and injected arguments, ours does too."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.prebuilt import InjectedState, InjectedStore, ToolNode, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send
from tests.integrations.langgraph.world import THREAD, graph, turn
from tests.rooms.langgraph import pack, unpack

from settlemark import Settlement
from settlemark_langgraph import SequencedToolNode


class OddError(ValueError):
    pass


def handler(error: OddError) -> str:
    return f"handled {error}"


MODES = [True, False, "oh no", ValueError, KeyError, (OddError, KeyError), handler, lambda error: "any"]


def nodes(tools, **options):
    yield ToolNode(tools, **options)
    yield SequencedToolNode(tools, **options)
    yield SequencedToolNode(tools, settlement=Settlement("memory:"), **options)


def ended(invoke, node, message, **options):
    """The messages a node added, or what it raised."""
    try:
        state = invoke(graph(node, **options), {"messages": [message]}, THREAD)
    except Exception as error:
        return type(error), str(error)
    return [m.model_dump(exclude={"id"}) for m in state["messages"][1:]]


def fail(kind: str) -> str:
    """Fail."""
    raise {"odd": OddError, "value": ValueError, "key": KeyError}[kind]("no")


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: getattr(mode, "__name__", str(mode)))
@pytest.mark.parametrize("kind", ["odd", "value", "key"])
def test_every_error_mode_ends_as_with_the_stock_node(invoke, mode, kind):
    message = turn(("fail", {"kind": kind}))

    stock, ours, settled = (ended(invoke, node, message) for node in nodes([fail], handle_tool_errors=mode))

    assert ours == stock
    assert settled == stock


@pytest.mark.parametrize("call", [("fail", {}), ("fail", {"kind": {"a": 1}}), ("unknown", {})])
def test_bad_arguments_and_unknown_tools_are_answered_as_by_the_stock_node(invoke, call):
    stock, ours, settled = (ended(invoke, node, turn(call)) for node in nodes([fail]))

    assert ours == stock
    assert settled == stock


def test_calls_whose_ids_are_empty_are_answered_as_by_the_stock_node_and_each_is_done(invoke):
    notes = []

    def note(text: str) -> str:
        """Note it."""
        notes.append(text)
        return f"noted {text}"

    message = turn(("note", {"text": "a"}), ("note", {"text": "b"}))
    for call in message.tool_calls:
        call["id"] = ""

    stock, ours, settled = (ended(invoke, node, message) for node in nodes([note]))

    assert ours == stock
    assert settled == stock
    assert sorted(notes) == ["a", "a", "a", "b", "b", "b"]


def test_without_a_settlement_the_other_calls_of_a_failed_turn_run_as_with_the_stock_node(invoke):
    def fine(n: int) -> str:
        """Succeed."""
        return str(n)

    message = turn(("fine", {"n": 1}), ("fail", {"kind": "odd"}), ("fine", {"n": 2}))
    stock, ours, _ = (ended(invoke, node, message) for node in nodes([fine, fail], handle_tool_errors=True))

    assert ours == stock


@tool
def inject(
    x: int,
    state: Annotated[dict, InjectedState],
    store: Annotated[Any, InjectedStore],
    call_id: Annotated[str, InjectedToolCallId],
    runtime: ToolRuntime,
) -> str:
    """Use all that is injected."""
    found = store.get(("prefs",), "colour").value["is"]
    return f"{x} {len(state['messages'])} {found} {call_id} {runtime.tool_call_id}"


def test_state_store_call_id_and_runtime_are_injected(invoke):
    store = InMemoryStore()
    store.put(("prefs",), "colour", {"is": "blue"})

    stock, ours, settled = (ended(invoke, node, turn(("inject", {"x": 7})), store=store) for node in nodes([inject]))

    assert stock[0]["content"] == "7 1 blue call-0 call-0"
    assert ours == stock
    assert settled == stock


@tool
def command(call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Update the state."""
    return Command(update={"messages": [ToolMessage("updated", tool_call_id=call_id)]})


@tool
def several(call_id: Annotated[str, InjectedToolCallId]) -> list:
    """Update the state, and answer beside it."""
    return [Command(update={"messages": []}), ToolMessage("beside", tool_call_id=call_id)]


def test_commands_and_lists_of_them_update_the_state_as_with_the_stock_node(invoke):
    message = turn(("command", {}), ("several", {}))

    stock, ours, settled = (ended(invoke, node, message) for node in nodes([command, several]))

    assert [m["content"] for m in stock] == ["updated", "beside"]
    assert ours == stock
    assert settled == stock


def test_a_message_without_calls_is_answered_as_by_the_stock_node(invoke):
    stock, ours, settled = (ended(invoke, node, turn()) for node in nodes([fail]))

    assert ours == stock == settled == []


@pytest.mark.parametrize(
    "value",
    [
        ToolMessage("done", tool_call_id="1", name="t", artifact={"rows": [1, None]}, status="error"),
        Command(update={"messages": [ToolMessage("x", tool_call_id="1")], "n": 2}, goto=["a"]),
        Command(graph=Command.PARENT, goto=[Send("node", {"x": [1.5, True]})]),
        [ToolMessage([{"type": "text", "text": "hi"}], tool_call_id="1"), Command(resume={"$odd": "key"})],
    ],
    ids=repr,
)
def test_what_a_tool_returned_comes_back_equal_from_the_ledger(value):
    assert unpack(pack(value)) == value


def test_what_json_cannot_hold_comes_back_as_its_text():
    packed = pack(ToolMessage("done", tool_call_id="1", artifact={1, 2}))

    assert unpack(packed).content == "done"
    assert unpack(packed).artifact == "{1, 2}"
