"""Which states of a graph the state comes from that it stands on: what its checkpoints tell, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from tests.integrations.langgraph.world import THREAD
from tests.rooms.langgraph import Superstep

from settlemark.hosting import run_sync


def id_of(config):
    return config["configurable"]["checkpoint_id"]


@pytest.fixture
def graph():
    builder = StateGraph(MessagesState).add_node("x", lambda state: state).add_edge(START, "x")
    return builder.compile(checkpointer=InMemorySaver())


def standing_on(config, saver):
    """A superstep of a graph that nothing encloses, on this checkpoint."""
    loop = SimpleNamespace(checkpointer=saver, checkpoint_config=config, config={}, checkpoint={"id": id_of(config)})
    return Superstep(loop, dict, SimpleNamespace(id="task", name="x", path=(), input=None))


def edited(graph, config=THREAD):
    return graph.update_state(config, {"messages": []}, as_node="x")


def passed(here, state):
    return run_sync(here.has_passed(0, id_of(state)))


def test_a_state_comes_from_those_before_it_on_its_way_and_from_none_beside_or_behind_it(graph):
    first = edited(graph)
    second = edited(graph)
    beside = edited(graph, first)
    third = edited(graph, second)
    here = standing_on(third, graph.checkpointer)
    assert [passed(here, each) for each in (first, second, beside)] == [True, True, False]
    assert not passed(standing_on(second, graph.checkpointer), third)
    assert not passed(standing_on(beside, graph.checkpointer), second)
    assert here.at == (id_of(third), "task")


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["none", "one that has stored nothing"])
def test_where_nothing_is_stored_nothing_was_passed(graph, saver):
    first = edited(graph)
    assert not passed(standing_on(edited(graph), saver), first)
