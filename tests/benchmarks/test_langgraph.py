"""What settling adds to LangGraph's own: per call beside a stock `ToolNode` and a stock agent, and as a turn grows.

A tool here is a wait of so many milliseconds, and the model says at once what it was given to say. The aims: 3 % of a
tool of 50 ms, 1.05 times strict issuance order for effects, and no more than stock for reads. Nothing fails for being
slow; what is asserted is that every call acted, in order, that reads run beside each other, and what was written.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import sleep

import pytest
from tests.rooms.sql import wire as _wire

from settlemark import Settlement

pytest.importorskip("langgraph.graph")
pytest.importorskip("langchain.agents")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from settlemark_langgraph import SequencedToolNode, SettlementMiddleware

STORES = ["memory", "a file in memory", "a file on disk"]
FIFTY = 0.05


class Desk:
    """A tool that waits `seconds`, and what it was called with, in the order in which the calls began."""

    def __init__(self, seconds=0.0, meet=None):
        self.begun = []

        def work(number: int) -> int:
            """Work."""
            self.begun.append(number)
            if meet is not None:
                meet.wait()
            if seconds:
                sleep(seconds)
            return number

        async def awork(number: int) -> int:
            """Work."""
            return await asyncio.to_thread(work, number)

        self.tool = StructuredTool.from_function(work, coroutine=awork if meet is not None else None, name="work")


class Model(BaseChatModel):
    """Issues one turn of `calls` calls, and is done when it is answered."""

    calls: int

    @property
    def _llm_type(self):
        return "benchmark"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        said = turn(self.calls) if messages[-1].type == "human" else AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=said)])


_numbers = count()


def turn(calls):
    number = next(_numbers)
    named = [
        {"name": "work", "args": {"number": n}, "id": f"call-{number}-{n}", "type": "tool_call"} for n in range(calls)
    ]
    return AIMessage("I work.", id=f"turn-{number}", tool_calls=named)


class Node:
    """The smallest graph around a tool node."""

    def __init__(self, tool, calls, settlement=None):
        self._calls = calls
        builder = StateGraph(MessagesState)
        builder.add_node(
            "tools", ToolNode([tool]) if settlement is None else SequencedToolNode([tool], settlement=settlement)
        )
        builder.set_entry_point("tools")
        builder.set_finish_point("tools")
        self.graph = builder.compile(checkpointer=InMemorySaver())

    def given(self):
        return {"messages": [turn(self._calls)]}


class Agent:
    """An agent of `create_agent`."""

    def __init__(self, tool, calls, settlement=None):
        first = [] if settlement is None else [SettlementMiddleware(settlement)]
        self.graph = create_agent(Model(calls=calls), [tool], middleware=first, checkpointer=InMemorySaver())

    def given(self):
        return {"messages": [HumanMessage("Work.")]}


SURFACES = pytest.mark.parametrize("surface", [Node, Agent], ids=["ToolNode", "create_agent"])


def asked(surface, limit=None, mode="sync"):
    """Have a graph take a turn, on a thread of its own; return the tools' answers."""
    if mode == "async":
        return answers(asyncio.run(surface.graph.ainvoke(surface.given(), config(limit))))
    return answers(surface.graph.invoke(surface.given(), config(limit)))


def config(limit=None):
    return {"configurable": {"thread_id": f"desk-{next(_numbers)}"}, "max_concurrency": limit, "recursion_limit": 10}


def answers(state):
    return [int(message.content) for message in state["messages"] if message.type == "tool"]


@contextmanager
def settling(store, kind):
    """A settlement on a store, to which the tool is declared."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if store == "a file in memory" else None)
    url = "memory:" if store == "memory" else f"sqlite:///{folder}/desk.db"
    try:
        with Settlement(url) as settlement:
            if kind == "read":
                settlement.declare("work", "read", scope="desk:/{number}")
            else:
                settlement.declare("work", "reversible", scope="desk:/{number}", undo=lambda number: None)
            yield settlement
    finally:
        shutil.rmtree(folder)


@pytest.fixture(params=STORES)
def store(request):
    if request.param == "a file in memory" and not Path("/dev/shm").is_dir():
        pytest.skip("no file system in memory at /dev/shm")
    return request.param


@pytest.fixture
def commits(monkeypatch):
    """The commits of SQLite files: True for each that waited for the disk."""
    found = []
    begin, commit = _wire.SqliteWire.begin, _wire.SqliteWire.commit

    def noted_begin(wire, *, durable):
        wire.noted = durable
        begin(wire, durable=durable)

    def noted_commit(wire):
        commit(wire)
        if (durable := vars(wire).pop("noted", None)) is not None:
            found.append(durable)

    monkeypatch.setattr(_wire.SqliteWire, "begin", noted_begin)
    monkeypatch.setattr(_wire.SqliteWire, "commit", noted_commit)
    return found


def beside_stock(gauge, name, surface, settlement, desk, calls, *, turns, rounds=5, limit=None, floor=None):
    """Time turns of ours beside stock's; every turn is looked at."""
    ours, stock = surface(desk.tool, calls, settlement), surface(desk.tool, calls)

    def through(graph, limit=None):
        for _ in range(turns):
            desk.begun.clear()
            assert asked(graph, limit) == [*range(calls)]
            assert sorted(desk.begun) == [*range(calls)]
        return turns * calls

    against = "stock" if limit is None else "stock, strictly one by one"
    controls = {against: lambda: through(stock, limit)}
    if floor is not None:
        controls["stock and two synced appends, the disk's floor"] = lambda: through(stock) and floor(turns)
    return gauge.beside(name, lambda: through(ours), controls, rounds=rounds), against


def synced_appends(folder):
    """What one effect has to wait for on a disk, twice a turn: its intent, and the decision."""

    def append(turns):
        with (folder / "floor").open("ab", buffering=0) as file:
            for _ in range(2 * turns):
                file.write(bytes(256))
                os.fdatasync(file.fileno())
        return turns

    return append


@pytest.mark.parametrize("seconds", [0, 0.001, FIFTY], ids=["0 ms", "1 ms", "50 ms"])
@SURFACES
def test_one_effect(gauge, surface, store, seconds, tmp_path):
    desk = Desk(seconds)
    with settling(store, "effect") as settlement:
        name = f"an effect of {seconds * 1e3:.0f} ms, {surface.__name__}, {store}"
        turns = gauge.scale(4 if seconds == FIFTY else 20, 1)
        floor = synced_appends(tmp_path) if store == "a file on disk" else None
        measured, stock = beside_stock(gauge, name, surface, settlement, desk, 1, turns=turns, floor=floor)
        gauge.count("  overhead", measured.over[stock], "µs", aim=0.03 * FIFTY * 1e6 if seconds == FIFTY else None)

    assert measured.done == turns


@SURFACES
def test_five_effects_beside_strict_issuance_order(gauge, surface, store):
    desk = Desk(FIFTY)
    with settling(store, "effect") as settlement:
        name = f"five effects of 50 ms, {surface.__name__}, {store}"
        turns = gauge.scale(2, 1)
        measured, stock = beside_stock(gauge, name, surface, settlement, desk, 5, turns=turns, limit=1)
        gauge.count("  times strict order", measured.ratios[stock], "x", aim=1.05)
        assert asked(surface(desk.tool, 5, settlement)) == [*range(5)]

    assert desk.begun[-5:] == [*range(5)]


@SURFACES
def test_five_reads_beside_stock(gauge, surface, store):
    desk = Desk(FIFTY)
    with settling(store, "read") as settlement:
        name = f"five reads of 50 ms, {surface.__name__}, {store}"
        measured, stock = beside_stock(gauge, name, surface, settlement, desk, 5, turns=gauge.scale(4, 1))
        gauge.count("  times stock", measured.ratios[stock], "x", aim=1.03)


@pytest.mark.parametrize("mode", ["sync", "async"])
@SURFACES
def test_five_independent_reads_are_all_under_way_at_once(gauge, surface, mode):
    """Each waits until all have begun: one behind another would be waited for in vain."""
    desk = Desk(meet=threading.Barrier(5, timeout=30))
    with settling("memory", "read") as settlement:
        built = surface(desk.tool, 5, settlement)

        assert gauge.once(lambda: asked(built, mode=mode)) == [*range(5)]

    assert sorted(desk.begun) == [*range(5)]


@SURFACES
def test_a_turn_of_reads_commits_nothing_and_one_of_effects_does(gauge, surface, commits):
    desk = Desk()
    with settling("a file on disk", "read") as settlement:
        built = surface(desk.tool, 5, settlement)
        asked(built)  # whatever is set up late
        commits.clear()
        gauge.once(lambda: [asked(built) for _ in range(10)])
        of_reads = [*commits]
    with settling("a file on disk", "effect") as settlement:
        built = surface(desk.tool, 5, settlement)
        asked(built)
        commits.clear()
        asked(built)
        of_effects = commits.count(True)
    gauge.count(f"durable commits of a turn of five effects, {surface.__name__}", of_effects, "")

    assert of_reads.count(True) == 0
    assert of_effects > 0


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kind", ["effect", "read", "stock"])
@SURFACES
def test_a_turn_of_many_calls(gauge, surface, kind, mode):
    """A call of it costs the same however many there are; stock is its own control."""
    sizes = [5, 50, 200] if gauge.full else [5, 50]
    desk = Desk()
    with settling("memory", kind) as settlement:

        def through(built):
            desk.begun.clear()
            assert len(asked(built, mode=mode)) == len(desk.begun)
            return len(desk.begun)

        name = f"a call of a turn of N, {surface.__name__}, {mode}, {kind}"
        given = None if kind == "stock" else settlement
        for calls, built in gauge.across(name, sizes, lambda calls: surface(desk.tool, calls, given), through):
            desk.begun.clear()
            assert asked(built, mode=mode) == [*range(calls)]
            assert (desk.begun if kind == "effect" else sorted(desk.begun)) == [*range(calls)]
