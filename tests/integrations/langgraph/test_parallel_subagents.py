"""Agents that are called as tools run beside each other, with nothing said about them, each in its own order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as tool_of
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from tests.between import Between
from tests.integrations.langgraph.test_shared_turns import Model
from tests.integrations.langgraph.world import THREAD, answers
from tests.rooms.langgraph import runs_a_settled_graph

from settlemark import Settlement, State, effect
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, settled

PATIENCE = 60.0


def says(*turns, who):
    """Say these turns, each some calls, and then that it is done."""
    said = [
        AIMessage(
            "I act.",
            id=f"{who}-{number}",
            tool_calls=[
                {"name": name, "args": args, "id": f"{who}-{number}-{place}", "type": "tool_call"}
                for place, (name, args) in enumerate(calls)
            ],
        )
        for number, calls in enumerate(turns)
    ]
    return Model(messages=iter([*said, AIMessage(f"{who} is done", id=f"{who}-done")]), told=[])


class Meeting:
    """Where all agents of a turn have to be at once, or none gets on."""

    def __init__(self, size):
        self._sync = threading.Barrier(size)
        self._size, self._come, self._all = size, 0, asyncio.Event()

    def meet(self):
        self._sync.wait(PATIENCE)

    async def ameet(self):
        self._come += 1
        if self._come == self._size:
            self._all.set()
        await asyncio.wait_for(self._all.wait(), PATIENCE)


def room_tools(world, meeting, *, broken=()):
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel, guest: world.act(f"cancel {hotel} {guest}"))
    def book(hotel: str, guest: str) -> str:
        """Book a room."""
        if guest in broken:
            raise ValueError("no room")
        world.act(f"book {hotel} {guest}")
        return "booked"

    @effect("read", scope="desk:/{guest}")
    def wait(guest: str) -> str:
        """Wait for the others."""
        meeting.meet()
        return "all are here"

    async def await_others(guest: str) -> str:
        await meeting.ameet()
        return "all are here"

    async def abook(hotel: str, guest: str) -> str:
        return book(hotel, guest)

    return [
        StructuredTool.from_function(book, coroutine=abook, name="book"),
        StructuredTool.from_function(wait, coroutine=await_others, name="wait"),
    ]


class Counter(AgentMiddleware):
    """Where agents book one at a time: what is intended first happens first, and the world tells in which order."""

    def __init__(self):
        super().__init__()
        self._lock, self._alock = threading.Lock(), asyncio.Lock()

    def wrap_tool_call(self, request, handler):
        if request.tool_call["name"] != "book":
            return handler(request)
        with self._lock:
            return handler(request)

    async def awrap_tool_call(self, request, handler):
        if request.tool_call["name"] != "book":
            return await handler(request)
        async with self._alock:
            return await handler(request)


def subagent(world, settlement, meeting, guest, *before, **options):
    """Return an agent that books a room, meets the others, and books another."""
    turns = [[("book", {"hotel": "Ada", "guest": guest})], [("wait", {"guest": guest})]]
    turns.append([("book", {"hotel": "Bee", "guest": guest})])
    middleware = [*before, SettlementMiddleware(settlement)]
    return create_agent(says(*turns, who=guest), room_tools(world, meeting, **options), middleware=middleware)


def delegate(agents):
    """Return a tool that runs one of these agents."""

    def task(guest: str) -> str:
        """Have it done."""
        return agents[guest].invoke({"messages": [HumanMessage("go")]})["messages"][-1].text

    async def atask(guest: str) -> str:
        return (await agents[guest].ainvoke({"messages": [HumanMessage("go")]}))["messages"][-1].text

    return StructuredTool.from_function(task, coroutine=atask, name="task")


GUESTS = ("a", "b", "c")


def outer(settlement, tools, *, behind=(), kind="middleware"):
    said = says([*(("task", {"guest": guest}) for guest in GUESTS), *behind], who="outer")
    if kind == "node":
        node = SequencedToolNode(tools, settlement=settlement)
        return create_react_agent(said, node, checkpointer=InMemorySaver(), version="v1")
    return create_agent(said, tools, middleware=[SettlementMiddleware(settlement)], checkpointer=InMemorySaver())


@pytest.mark.parametrize("kind", ["middleware", "node"])
@pytest.mark.filterwarnings("ignore")
def test_agents_that_are_called_as_tools_run_beside_each_other_each_in_its_own_order(world, settlement, invoke, kind):
    meeting = Meeting(len(GUESTS))
    agents = {guest: subagent(world, settlement, meeting, guest) for guest in GUESTS}
    agent = outer(settlement, [delegate(agents)], kind=kind)

    said = invoke(agent, {"messages": [HumanMessage("go")]}, THREAD)

    assert [text for _, text in answers(said)] == [f"{guest} is done" for guest in GUESTS]
    for guest in GUESTS:
        assert [line for line in world.log if line.endswith(guest)] == [f"book Ada {guest}", f"book Bee {guest}"]
    assert {found.state for found in settlement.transactions()} == {State.COMMITTED}
    assert settlement.residue() == []


def test_what_they_did_is_undone_in_the_reverse_of_the_order_in_which_it_happened(world, settlement, invoke):
    meeting, counter = Meeting(len(GUESTS)), Counter()
    agents = {guest: subagent(world, settlement, meeting, guest, counter) for guest in GUESTS}

    @tool_of
    def fail(guest: str) -> str:
        """Fail."""
        raise ValueError("no")

    said = says([*(("task", {"guest": guest}) for guest in GUESTS), ("fail", {"guest": "x"})], who="outer")
    agent = create_agent(
        said, [delegate(agents), fail], middleware=[SettlementMiddleware(settlement)], checkpointer=InMemorySaver()
    )

    with pytest.raises(ValueError, match="no"):
        invoke(agent, {"messages": [HumanMessage("go")]}, THREAD)

    acts = [line for line in world.log if line.startswith("book")]
    assert len(acts) == 2 * len(GUESTS)
    assert world.log[len(acts) :] == [line.replace("book", "cancel") for line in reversed(acts)]


def test_what_is_issued_behind_them_waits_for_all_they_do(world, settlement, invoke):
    meeting = Meeting(len(GUESTS))
    agents = {guest: subagent(world, settlement, meeting, guest) for guest in GUESTS}
    tools = [delegate(agents), *room_tools(world, meeting)]
    agent = outer(settlement, tools, behind=[("book", {"hotel": "Ada", "guest": "last"})])

    invoke(agent, {"messages": [HumanMessage("go")]}, THREAD)

    assert world.log[-1] == "book Ada last"
    assert len(world.log) == 7


# ---- which tools run agents


@tool_of
def look(what: str) -> str:
    """Look."""
    return what


@pytest.fixture
def agent(settlement):
    return create_agent(says(who="x"), [look], middleware=[SettlementMiddleware(settlement)])


class Runner:
    def __init__(self, agent):
        self.agent = agent

    def run(self, what: str) -> str:
        """Have it done."""
        return self.agent.invoke(what)


def _closure(agent):
    def task(what: str) -> str:
        """Have it done."""
        return agent.invoke(what)

    return task


def _in_a_table(agent):
    table = {"x": agent.with_config({"tags": ["x"]})}

    def task(what: str) -> str:
        """Have it done."""

        def run():
            return table["x"].invoke(what)

        return run()

    return task


def _helper(agent):
    inner = _closure(agent)

    def task(what: str) -> str:
        """Have it done."""
        return inner(what)

    return task


WAYS = {
    "a variable": _closure,
    "a table": _in_a_table,
    "a helper": _helper,
    "a method": lambda agent: Runner(agent).run,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_tool_runs_an_agent_however_its_function_reaches_one(agent, way):
    assert runs_a_settled_graph(StructuredTool.from_function(way(agent), name="task"))


def test_the_task_of_deep_agents_does(settlement):
    deepagents = pytest.importorskip("deepagents")
    found = []

    class Look(SettlementMiddleware):
        def wrap_tool_call(self, request, handler):
            found.append(request.tool)
            return handler(request)

    inner = {
        "name": "x",
        "description": "x",
        "system_prompt": "x",
        "tools": [look],
        "model": says(who="x"),
        "middleware": [SettlementMiddleware(settlement)],
    }
    model = says([("task", {"description": "x", "subagent_type": "x"})], who="outer")
    agent = deepagents.create_deep_agent(model, subagents=[inner], middleware=[Look(settlement)])
    agent.invoke({"messages": [HumanMessage("go")]})

    assert [runs_a_settled_graph(tool) for tool in found] == [True]


@pytest.mark.parametrize("how", ["no settlement", "no agent"])
def test_one_whose_agent_settles_nothing_or_that_has_none_keeps_the_order(how):
    agent = create_agent(says(who="x"), [look])
    assert not runs_a_settled_graph(
        StructuredTool.from_function(_closure(agent), name="task") if how == "no settlement" else look
    )


class Closed:
    """What answers in a request only, as a proxy of a web framework."""

    def __getattribute__(self, name):
        raise RuntimeError("outside of a request")


class Busy(Mapping):
    """What other threads are at work on."""

    def __init__(self, *within):
        self._within = within

    def __iter__(self):
        yield from range(len(self._within))
        raise RuntimeError("dictionary changed size during iteration")

    def __getitem__(self, place):
        return self._within[place]

    def __len__(self):
        return len(self._within)


def test_what_was_found_before_another_thread_came_in_between_counts(agent):
    table = Busy(agent)

    def task(what: str) -> str:
        """Have it done."""
        return table[0].invoke(what)

    assert runs_a_settled_graph(StructuredTool.from_function(task, name="task"))


SHUT = {"a proxy": Closed, "a busy table": Busy, "a proxy in a table": lambda: {"x": Closed()}}


@pytest.mark.parametrize("shut", SHUT.values(), ids=SHUT)
@pytest.mark.parametrize("runs_one", [True, False])
def test_what_does_not_let_itself_be_looked_into_is_no_agent_and_does_no_harm(agent, shut, runs_one):
    reached = shut()
    inner = agent if runs_one else None

    def task(what: str) -> str:
        """Have it done."""
        return f"{reached}" if inner is None else inner.invoke(what)

    assert runs_a_settled_graph(StructuredTool.from_function(task, name="task")) is runs_one


def test_a_table_that_is_written_meanwhile_is_looked_into_as_it_was(agent):
    table = {"x": None, "y": agent}

    def task(what: str) -> str:
        """Have it done."""
        return table["y"].invoke(what)

    tool = StructuredTool.from_function(task, name="task")
    with Between("_tools/graphs_within.py", lambda: table.setdefault(len(table))):
        found = runs_a_settled_graph(tool)

    assert found
    assert len(table) > 2, "nothing came in between: the test shows nothing"


def test_one_whose_graph_has_settled_tools_of_its_own_does():
    agent = create_agent(says(who="x"), [settled(look, Settlement("memory:"))])
    assert runs_a_settled_graph(StructuredTool.from_function(_closure(agent), name="task"))
