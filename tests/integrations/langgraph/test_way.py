"""The way of a `SequencedToolNode`'s call is short: what its store commits, and what of ours is entered for it.

The figures are bounds, about 5 % above what there is: who makes the way longer says so here, and why. See the hops
themselves with `pytest -s`.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState, StateGraph
from tests.rooms.replica import store
from tests.way import CORE, committing, shortest

import settlemark_langgraph
from settlemark import Settlement
from settlemark_langgraph import SequencedToolNode

ROOTS = (CORE, Path(settlemark_langgraph.__file__).parent)
MOST = {"memory": (715, 102), "sqlite": (1_107, 118)}
"""Entries and files of a node's turn of one call, by the kind of its store.

What the model decided is recorded with its first effect, and each intent and outcome is sealed in the chain of its run:
no commit more. What was decided of the job before, and answers a call that repeats it, is looked at for each call; so
is, before any call of the turn acts, whether one needs a yes for which nobody can be asked. That a run's end waits for
what its tasks write is a file of its own, and the
tool that runs is compared with the one that was declared.
"""


@pytest.fixture(params=["memory", "sqlite"])
def kind_of_store(request):
    return request.param


@pytest.fixture
def turn(kind_of_store, tmp_path, monkeypatch):
    """Have a node take turns of so many calls, each in a transaction of its own. Nobody else goes to the store."""
    for name in ("LINGER_SECONDS", "LINGER_MOST_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(store, name, 60.0)
    url = "memory:" if kind_of_store == "memory" else f"sqlite:///{tmp_path / 'ledger.db'}"
    numbers = itertools.count()

    def book(room: str) -> str:
        """Book a room."""
        return f"booked {room}"

    with Settlement(url) as settlement:
        settlement.declare("book", "reversible", scope="room:/{room}", undo=lambda room: None)
        builder = StateGraph(MessagesState)
        builder.add_node("tools", SequencedToolNode([book], settlement=settlement))
        builder.set_entry_point("tools")
        graph = builder.compile()

        def take(calls):
            number = next(numbers)
            issued = [
                {"name": "book", "args": {"room": f"{number}-{n}"}, "id": f"call-{number}-{n}", "type": "tool_call"}
                for n in range(calls)
            ]
            said = graph.invoke({"messages": [AIMessage("I book.", tool_calls=issued)]})["messages"][-calls:]
            assert [message.content for message in said] == [f"booked {number}-{n}" for n in range(calls)]

        for _ in range(3):
            take(1)  # whatever is set up late
        yield take


@pytest.mark.parametrize("kind_of_store", ["sqlite"])
@pytest.mark.parametrize("calls", [1, 2, 5])
def test_a_turn_commits_its_epoch_its_beginning_each_intent_and_its_decision(turn, calls):
    with committing() as commits:
        turn(calls)

    assert commits == [False, *[True] * calls, True]


def test_the_way_of_one_call_of_a_node_grows_no_longer(turn, kind_of_store):
    way = shortest(lambda: turn(1), roots=ROOTS)

    print(f"\na turn of one call, {kind_of_store}: {way}")  # noqa: T201 - for who asks where it goes
    entries, files = MOST[kind_of_store]
    assert way.entries <= entries
    assert way.files <= files
