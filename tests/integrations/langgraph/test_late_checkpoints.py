"""Nothing acts before the checkpoint is stored by which a resume knows it, and nothing stored is left unsettled."""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from tests.integrations.langgraph.world import THREAD, answers, trip, turn

from settlemark import State
from settlemark_langgraph import SequencedToolNode, corrections, settled_checkpointer

GO = {"messages": [HumanMessage("go")]}
BOOK = turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))
LOOK = turn(("look", {"hotel": "Ada"}))


class Late(InMemorySaver):
    """Stores a checkpoint late, to give somebody the time to act before, and logs that it has."""

    def __init__(self, world, patience=0.02):
        super().__init__()
        self._log = world.log
        self._patience = patience
        self._acted = threading.Event()
        act = world.act

        def acting(entry):
            self._acted.set()
            act(entry)

        world.act = acting

    def put(self, config, checkpoint, metadata, new_versions):
        if metadata["step"] == 1:
            self._acted.wait(self._patience)
        self._log.append(f"stored {metadata['step']} of {config['configurable']['checkpoint_ns'].split(':')[0]!r}")
        return super().put(config, checkpoint, metadata, new_versions)

    async def aput(self, config, checkpoint, metadata, new_versions):
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)


def two_nodes(node, message, *, checkpointer=None):
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [message]})
    builder.add_node("tools", node)
    builder.add_edge(START, "say")
    builder.add_edge("say", "tools")
    builder.add_edge("tools", END)
    return builder.compile(checkpointer=checkpointer)


def before_the_first_act(world):
    acts = [n for n, entry in enumerate(world.log) if not entry.startswith("stored")]
    return world.log[: acts[0]]


def test_with_async_durability_nothing_acts_before_the_checkpoint_it_runs_on_is_stored(world, settlement, invoke):
    built = two_nodes(SequencedToolNode(trip(world), settlement=settlement), BOOK, checkpointer=Late(world))

    invoke(built, GO, THREAD, durability="async")

    assert before_the_first_act(world) == ["stored -1 of ''", "stored 0 of ''", "stored 1 of ''"]


def test_nor_before_those_of_the_graphs_around_it(world, settlement, invoke):
    inner = two_nodes(SequencedToolNode(trip(world), settlement=settlement), BOOK)
    builder = StateGraph(MessagesState)
    builder.add_node("sub", inner)
    builder.add_edge(START, "sub")

    invoke(builder.compile(checkpointer=Late(world)), GO, THREAD, durability="async")

    assert {"stored 0 of ''", "stored 1 of 'sub'"} <= {*before_the_first_act(world)}


def test_with_exit_durability_nothing_is_stored_and_nothing_is_waited_for(world, settlement, invoke):
    built = two_nodes(SequencedToolNode(trip(world), settlement=settlement), BOOK, checkpointer=Late(world))

    invoke(built, GO, THREAD, durability="exit")

    assert world.log == ["book Ada", "mail a", "stored 2 of ''"]


def test_what_only_reads_waits_for_no_checkpoint(world, settlement, invoke):
    saver = Late(world, patience=30)
    built = two_nodes(SequencedToolNode(trip(world), settlement=settlement), LOOK, checkpointer=saver)

    invoke(built, GO, THREAD, durability="async")

    assert world.log.index("look Ada") < world.log.index("stored 1 of ''")


class Full(InMemorySaver):
    """Fails to store what tools are to run on."""

    def put(self, config, checkpoint, metadata, new_versions):
        if metadata["step"] == 1:
            raise OSError("the disk is full")
        return super().put(config, checkpoint, metadata, new_versions)

    async def aput(self, config, checkpoint, metadata, new_versions):
        return self.put(config, checkpoint, metadata, new_versions)


def test_a_checkpoint_that_cannot_be_stored_lets_nothing_act(world, settlement, invoke):
    built = two_nodes(SequencedToolNode(trip(world), settlement=settlement), BOOK, checkpointer=Full())

    with pytest.raises(OSError, match="the disk is full"):
        invoke(built, GO, THREAD, durability="async")

    assert world.log == []
    assert settlement.transactions() == []


def test_a_superstep_whose_tools_were_over_before_an_interrupt_settles_when_the_rest_of_it_is(
    world, settlement, invoke
):
    node = SequencedToolNode(trip(world), settlement=settlement, settle="superstep")
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [BOOK]})
    builder.add_node("tools", node)
    builder.add_node("ask", lambda state: {"messages": [AIMessage(interrupt("really?"))]})
    builder.add_edge(START, "say")
    builder.add_edge("say", "tools")
    builder.add_edge("say", "ask")
    built = builder.compile(checkpointer=settled_checkpointer(InMemorySaver(), settlement))

    invoke(built, GO, THREAD)
    assert (world.log, [t.state for t in settlement.transactions()]) == (["book Ada"], [State.OPEN])
    state = invoke(built, Command(resume="yes"), THREAD)

    assert world.log == ["book Ada", "mail a"]
    assert [t.state for t in settlement.transactions()] == [State.COMMITTED]
    assert answers({"messages": corrections(state["messages"], settlement)}) == [
        ("success", "book done"),
        ("success", "mail done"),
    ]
