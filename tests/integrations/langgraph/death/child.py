"""What is killed: an agent that plans from its messages alone, its tools, and a process that dies where it is told to.

The next process goes on with `invoke(None)`; where nothing was stored that it could go on from, it starts again with
the same input, as a caller does.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import EmptyInputError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel
from tests.integrations.langgraph.death.office import Office

from settlemark import Outcome, Settlement, State, current_call, effect
from settlemark.hosting import host_of, json_text
from settlemark.testing import die
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, corrections, settled_checkpointer

CONFIG = {"configurable": {"thread_id": "trip-42"}, "recursion_limit": 40}
GO = {"messages": [HumanMessage("go", id="go")]}
UNKEYED = ("hire", "post")
WAIT = 20.0
ACTED_BEFORE = "acted before checkpoint"

TRIP = (
    (("look", "Ada"), ("book", "Ada"), ("hire", "guide"), ("mail", "ada")),
    (("book", "Bee"), ("post", "letter"), ("hire", "driver"), ("mail", "bee")),
)
"""Two turns: in the second, a tool nobody declared stands behind a gate."""
REFUSED = ((("book", "Cee"), ("rent", "X"), ("mail", "cee")),)
"""A turn that is undone, for no car is to be had, and is then made again without it."""

STAYS = ((("hire", "guide"), ("rent", "X"), ("book", "Cee")),)
"""The same, but for somebody who was hired meanwhile, and cannot be sent away again."""


@dataclass(frozen=True)
class Way:
    """How the agent is built, and what settles together; None is stock.

    Attributes:
        shape: "graph" (a node runs the calls of a turn) or "agent" (`create_agent`: each call is a task).
        settle: as for `SequencedToolNode`.
        durability: LangGraph's.
        plan: what it is after, turn by turn.
        is_async: it is called with `ainvoke`.
    """

    shape: str
    settle: str | None
    durability: str
    plan: Any = TRIP
    is_async: bool = False

    @property
    def goals(self):
        """What is to be there in the end."""
        return [goal for turn in self.plan for goal in turn if goal[0] not in ("look", "rent")]

    @property
    def late(self):
        """Seconds by which checkpoints are late: stock takes as many as it needs to act before, ours waits for all."""
        return 0.0 if self.durability != "async" else 0.3 if self.settle is None else 0.02

    def __str__(self):
        settle = "stock" if self.settle is None else f"settle={self.settle}"
        also = [*(["refused"] if self.plan != TRIP else []), *(["async"] if self.is_async else [])]
        return ", ".join([self.shape, settle, self.durability, *also])


class Points:
    """Counts what a process comes by, and kills it at the chosen point.

    A point is named by what is done there and how often that was begun before: threads may come by in another order.
    """

    def __init__(self, at=None, *, late=0.0):
        self.seen = []
        self._at = at
        self._late = late
        self._acted = threading.Event()
        self._counts = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def around(self, what):
        """Come by before and after something is done."""
        with self._lock:
            self._counts[what] += 1
            number = self._counts[what]
        self._pass(f"before {what} #{number}")
        yield
        self._pass(f"after {what} #{number}")

    def act(self, what):
        """Come by before and after something is done at the office."""
        self._acted.set()
        return self.around(what)

    def tarry(self, step):
        """Be late with a checkpoint that tools run on, as a saver may be; a point of its own if one acts meanwhile."""
        if self._late and step % 2:
            self._acted.clear()
            if self._acted.wait(self._late):
                self._pass(f"{ACTED_BEFORE} {step} was stored")

    def _pass(self, point):
        with self._lock:
            self.seen.append(point)
            if point == self._at:
                die()


# ---- the agent


def decide(plan, messages):
    """Return the model's message: the calls of the first turn that is not done, or a last word.

    It repeats what it is told was undone or never left; what nobody can tell, or stays although its turn was undone,
    it leaves alone.
    """
    answered = latest(messages)
    for turn in plan:
        open_ = [goal for goal in turn if _is_to_do(goal, answered.get(goal))]
        if open_:
            calls = [
                {"name": tool, "args": {"what": what}, "id": f"call-{len(messages)}-{n}", "type": "tool_call"}
                for n, (tool, what) in enumerate(open_)
            ]
            return AIMessage("I act.", tool_calls=calls, id=f"ai-{len(messages)}")
    return AIMessage("Done.", id="ai-last")


def latest(messages):
    """Return the last answer to each goal."""
    goals = {
        call["id"]: (call["name"], call["args"]["what"]) for m in messages for call in getattr(m, "tool_calls", ())
    }
    return {goals[m.tool_call_id]: m for m in messages if m.type == "tool"}


def _is_to_do(goal, answer):
    if answer is None:
        return True
    left_alone = goal[0] == "rent" or answer.text.startswith(("InDoubt", "could not be undone"))
    return answer.status == "error" and not left_alone


class Model(BaseChatModel):
    """Decides from the messages alone."""

    plan: Any

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        return ChatResult(generations=[ChatGeneration(message=decide(self.plan, messages))])


class Arguments(BaseModel):
    """What every tool takes; made once, since LangChain is slow to find out."""

    what: str


def tools(office, points):
    """Return the tools: each does one thing at the office, and the process may die before and after that."""

    def at_office(verb, what, *, keyed):
        call = current_call()
        with points.act(f"{verb} {what}"):
            return f"{verb} {what}: number {office.act(verb, what, call.key if call and keyed else None)}"

    def cancel(what, key):
        with points.around(f"cancel {what}"):
            office.act("cancel", what, key)

    def booked(what, key):
        number = office.knows("book", key)
        return None if number is None else f"book {what}: number {number}"

    @effect("reversible", scope="room:/{what}", undo=cancel, probe=booked)
    def book(what: str) -> str:
        """Book a room."""
        return at_office("book", what, keyed=True)

    @effect("irreversible", scope="mail:/{what}", keyed=True)
    def mail(what: str) -> str:
        """Send a registered mail."""
        return at_office("mail", what, keyed=True)

    @effect("irreversible", scope="post:/{what}")
    def post(what: str) -> str:
        """Post a plain letter."""
        return at_office("post", what, keyed=False)

    def hire(what: str) -> str:
        """Hire somebody: nobody has declared what that does."""
        return at_office("hire", what, keyed=False)

    @effect("read")
    def look(what: str) -> str:
        """Look a room up."""
        with points.around(f"look {what}"):
            return "a room"

    @effect("reversible", scope="car:/{what}", undo=cancel)
    def rent(what: str) -> str:
        """Rent a car: there is none."""
        raise ToolException("no car is to be had")

    return [
        StructuredTool.from_function(
            function, coroutine=_as_async(function), name=name, args_schema=Arguments, handle_tool_error=True
        )
        for name, function in {
            "book": book, "mail": mail, "post": post, "hire": hire, "look": look, "rent": rent,
        }.items()
    ]  # fmt: skip # a list of names and values


def _as_async(function):
    async def coroutine(**given):
        return function(**given)

    return coroutine


def build(way, known, settlement, saver):
    """Return the graph."""
    if way.shape == "agent":
        middleware = [] if settlement is None else [SettlementMiddleware(settlement, settle=way.settle)]
        if middleware:
            # A middleware is told of a tool when that is called: what settles before, in a new process, is declared.
            hire = next(tool for tool in known if tool.name == "hire")
            settlement.declare("hire", "opaque", function=hire.func)
        return create_agent(Model(plan=way.plan), known, middleware=middleware, checkpointer=saver)

    def model(state):
        found = [] if settlement is None else corrections(state["messages"], settlement)
        by_id = {message.id: message for message in found}
        told = [by_id.get(message.id, message) for message in state["messages"]]
        return {"messages": [*found, decide(way.plan, told)]}

    node = (
        ToolNode(known, handle_tool_errors=True)
        if settlement is None
        else SequencedToolNode(known, settlement=settlement, settle=way.settle, handle_tool_errors=True)
    )
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", node)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


# ---- checkpoints


class Watched(SqliteSaver):
    """A saver at which the process may die."""

    points: Points

    def put(self, config, checkpoint, metadata, new_versions):
        with self.points.around(f"put {metadata['step']}"):
            self.points.tarry(metadata["step"])
            return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config, writes, task_id, task_path=""):
        with self.points.around("put_writes"):
            return super().put_writes(config, writes, task_id, task_path)

    def get_tuple(self, config):
        with self.points.around("get_tuple"):
            return super().get_tuple(config)


class WatchedAsync(AsyncSqliteSaver):
    """The same for `ainvoke`."""

    points: Points

    async def aput(self, config, checkpoint, metadata, new_versions):
        with self.points.around(f"put {metadata['step']}"):
            await asyncio.to_thread(self.points.tarry, metadata["step"])
            return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config, writes, task_id, task_path=""):
        with self.points.around("put_writes"):
            return await super().aput_writes(config, writes, task_id, task_path)

    async def aget_tuple(self, config):
        with self.points.around("get_tuple"):
            return await super().aget_tuple(config)


# ---- the process


class Process:
    """One process in which the agent runs: the first, or one that goes on.

    Args:
        folder: has the checkpoints, the ledger and the office's log.
        way: how the agent is built.
        at: the point at which this process dies, or None.
    """

    def __init__(self, folder: Path, way: Way, at=None):
        self.folder = folder
        self.way = way
        self.points = Points(at, late=way.late)
        self.office = Office(folder / "office.jsonl")

    def run(self, *, again):
        """Run the agent to its end, and return what can be told of it as plain data."""
        opened = (
            nullcontext()
            if self.way.settle is None
            else Settlement(f"sqlite:///{self.folder / 'ledger.db'}", wait=WAIT)
        )
        with opened as settlement:
            known = tools(self.office, self.points)
            messages = (
                asyncio.run(self._ainvoke(known, settlement, again))
                if self.way.is_async
                else self._invoke(known, settlement, again)
            )
            return self._told(messages, settlement)

    def _invoke(self, known, settlement, again):
        connection = sqlite3.connect(self.folder / "checkpoints.db", check_same_thread=False)
        saver = Watched(connection)
        graph = self._build(known, settlement, saver)
        try:
            state = graph.invoke(None if again else GO, CONFIG, durability=self.way.durability)
        except EmptyInputError:
            state = graph.invoke(GO, CONFIG, durability=self.way.durability)
        connection.close()
        return state["messages"]

    async def _ainvoke(self, known, settlement, again):
        async with _connection(self.folder) as connection:
            saver = WatchedAsync(connection)
            graph = self._build(known, settlement, saver)
            try:
                state = await graph.ainvoke(None if again else GO, CONFIG, durability=self.way.durability)
            except EmptyInputError:
                state = await graph.ainvoke(GO, CONFIG, durability=self.way.durability)
            return state["messages"]

    def _build(self, known, settlement, saver):
        saver.points = self.points
        if self.way.settle in ("superstep", "run"):
            saver = settled_checkpointer(saver, settlement)
        graph = build(self.way, known, settlement, saver)
        if settlement is not None and self.way.durability == "exit":
            settlement.recover(keep_open=0)  # nobody can come back to what was open: its names are gone
        return graph

    def _told(self, messages, settlement):
        found = {"points": self.points.seen, "named": [], "kept": [], "undone": [], "unfinished": []}
        if settlement is not None:
            found["undone"] = settlement.recover(keep_open=0).undone
            by_id = {message.id: message for message in corrections(messages, settlement)}
            messages = [by_id.get(message.id, message) for message in messages]
            found["named"] = [[left.tool, left.arguments["what"], left.tag] for left in settlement.residue()]
            recorded = settlement.transactions()
            issued = {
                e.row.key: [e.row.tool, json_text.decode(e.row.arguments)["what"]] for t in recorded for e in t.effects
            }
            found["named"] += [[*issued[doubt.key], "in doubt"] for doubt in settlement.in_doubt()]
            found["kept"] = [
                issued[e.row.key]
                for t in recorded
                for e in t.effects
                if t.state is State.COMMITTED and e.outcome is Outcome.CONFIRMED
            ]
            found["unfinished"] = [t.name for t in host_of(settlement).protocol.live.values()]
        answered = latest(messages)
        found["answers"] = [[*goal, answer.status, answer.text] for goal, answer in answered.items()]
        found["last"] = messages[-1].text
        return found


@asynccontextmanager
async def _connection(folder):
    async with aiosqlite.connect(folder / "checkpoints.db") as connection:
        yield connection
