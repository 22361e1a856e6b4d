"""A thread that is steered, whose process dies behind any commit of ledger or checkpoints while the thread goes back.

Behind each commit from the revision on, and behind each act on the world, until the model is asked again, all that a
death would leave is kept: the ledger's file, the checkpoints', and the world's log. A next process takes each of them
up, and is judged by the world's own log, by what is on record, and by the thread's messages.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing, contextmanager, suppress
from itertools import pairwise

import pytest
from tests.extent import ALL
from tests.rooms.sql import SqliteWire
from tests.unattended import unattended

pytest.importorskip("langgraph.checkpoint.sqlite")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from tests.integrations.langgraph.world import THREAD, answers

from settlemark import Settlement, current_call, effect
from settlemark.hosting import host_of
from settlemark.testing import VirtualClock, in_child
from settlemark_langgraph import SequencedToolNode, steered

RUN = THREAD["configurable"]["thread_id"]
EACH = 1 if ALL else 3
PATIENCE = 120


class Died(BaseException):
    """Enough was kept: the rest of the thread is of no account."""


class Travel:
    """The outside: a log of what was done under which key; what comes twice under one key is one."""

    def __init__(self, log=(), acted=lambda: None):
        self.log = [tuple(entry) for entry in log]
        self.acted = acted

        def cancel(hotel, key):
            self.act("cancel", hotel, key)

        @effect("reversible", scope="room:/{hotel}", undo=cancel)
        def book(hotel: str) -> str:
            """Book a room."""
            return self.act("book", hotel, current_call().key)

        @effect("irreversible", scope="mail:/{to}")
        def mail(to: str) -> str:
            """Send a mail."""
            return self.act("mail", to, current_call().key)

        self.tools = [book, mail]

    def act(self, what, whom, key):
        if (what, whom, key) not in self.log:
            self.log.append((what, whom, key))
            self.acted()
        return f"{what} {whom}"

    @property
    def stands(self):
        gone = {key for what, _, key in self.log if what == "cancel"}
        return sorted(f"{what} {whom}" for what, whom, key in self.log if what != "cancel" and key not in gone)


class Model:
    """Books Ada and Bee, mails, and books Cid; Dee in the place of Bee when it is told so. Its calls' ids are its own.

    `asked` is called before each answer, with how many were given in this branch, and whether it was told.
    """

    def __init__(self, who, asked=lambda said, told: None):
        self.who = who
        self.asked = asked

    def __call__(self, state):
        said = sum(message.type == "ai" for message in state["messages"])
        told = any("not Bee" in message.text for message in state["messages"] if message.type == "human")
        self.asked(said, told)
        turns = [("book", {"hotel": "Ada"}), ("book", {"hotel": "Dee" if told else "Bee"}), ("mail", {"to": "a"})]
        turns.append(("book", {"hotel": "Cid"}))
        if said >= len(turns):
            return {"messages": [AIMessage("done")]}
        name, args = turns[said]
        call = {"name": name, "args": args, "id": f"{self.who}-{said}-{told}", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}


class Saver(SqliteSaver):
    """Tells of each commit."""

    committed = staticmethod(lambda: None)

    def put(self, *given, **options):
        found = super().put(*given, **options)
        self.committed()
        return found

    def put_writes(self, *given, **options):
        super().put_writes(*given, **options)
        self.committed()


def agent(travel, settlement, saver, model):
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", SequencedToolNode(travel.tools, settlement=settlement))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


FILES = ("ledger.db", "checkpoints.db")


class Deaths:
    """What deaths leave: a folder for each, the last of them where no more is kept."""

    def __init__(self, folder, living):
        self.folder = folder
        self.living = living
        self.kept = []
        self.travel = None
        self.is_on = False
        self._lock = threading.Lock()

    def keep(self):
        if not self.is_on:
            return
        with self._lock:
            folder = self.folder / f"{len(self.kept)}"
            folder.mkdir(parents=True)
            for name in FILES:
                with (
                    closing(sqlite3.connect(self.living / name)) as found,
                    closing(sqlite3.connect(folder / name)) as to,
                ):
                    found.backup(to)
            (folder / "log.json").write_text(json.dumps(self.travel.log))
            self.kept.append(folder)


@contextmanager
def process(folder, clock):
    """A process on what is in a folder: its settlement, and its checkpoints."""
    connection = sqlite3.connect(folder / FILES[1], check_same_thread=False)
    with closing(connection), unattended(Settlement(f"sqlite:///{folder / FILES[0]}", **clock.options())) as settlement:
        yield settlement, Saver(connection)


def live(found):
    """Play the thread until the model is asked again, in a process that ends then, and keep what each death leaves."""

    def asked(said, told):
        if told:
            found.is_on = False
            raise Died
        if said == 3:
            settlement.steer(RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
            found.is_on = True
            found.keep()

    with process(found.living, VirtualClock()) as (settlement, saver):
        saver.committed = found.keep
        graph = agent(found.travel, settlement, saver, Model("first", asked))
        with committing(found.keep), suppress(Died):
            steered(graph, {"messages": [HumanMessage("go")]}, THREAD, settlement)


@pytest.fixture
def deaths(folder):
    """The folders of what a death behind each commit would leave, in their order."""
    living = folder / "living"
    living.mkdir()
    found = Deaths(folder / "deaths", living)
    found.travel = Travel(acted=found.keep)
    ended = in_child(lambda _tell: live(found), timeout=PATIENCE)
    assert (ended.error, ended.signal) == (None, None)
    return sorted(found.folder.iterdir(), key=lambda each: int(each.name))


@contextmanager
def committing(then):
    """Call a function behind each commit of a ledger."""
    commit = SqliteWire.commit

    def noted(self):
        commit(self)
        then()

    SqliteWire.commit = noted
    try:
        yield
    finally:
        SqliteWire.commit = commit


def judged(folder):
    """Have a next process take the thread up from what a death left, and return what is wrong."""
    clock = VirtualClock()
    clock.advance(3_600)
    travel = Travel(json.loads((folder / "log.json").read_text()))
    with process(folder, clock) as (settlement, saver):
        graph = agent(travel, settlement, saver, Model("next"))
        settlement.recover(keep_open=0)  # by then its tools are known
        value = steered(graph, None, THREAD, settlement)
        (said,) = settlement.steering(RUN)
        states = host_of(settlement).ledger.read(
            lambda book: [version.state for version in book.entries.versions("steering", f"{RUN}~1")]
        )
        found = {
            "world": travel.stands,
            "twice": [entry for entry in travel.log if travel.log.count(entry) > 1],
            "mails": [whom for what, whom, _ in travel.log if what == "mail"],
            "answers": [text for _, text in answers(value)],
            "told": [message.text for message in value["messages"] if message.type == "human"] == ["go", said.words()],
            "last": value["messages"][-1].text,
            "bound": [each.scope for each in said.bound],
            "undone": sorted(each.scope for each in said.undone),
            "acknowledged": [now for last, now in pairwise(states) if last != now],
            "left": [each.scope for each in settlement.residue()],
            "in doubt": [each.row.key for each in settlement.in_doubt()],
        }
    right = {
        "world": ["book Ada", "book Cid", "book Dee", "mail a"],
        "twice": [],
        "mails": ["a"],
        "answers": ["book Ada", "book Dee", "mail a", "book Cid"],
        "told": True,
        "last": "done",
        "bound": ["mail:/a"],
        "undone": ["room:/Bee"],
        "acknowledged": ["taken", "done"],
        "left": ["mail:/a"],
        "in doubt": [],
    }
    return {name: value for name, value in found.items() if value != right[name]}


def test_whatever_commit_it_dies_behind_world_thread_and_record_agree_and_nothing_is_dropped_or_doubled(deaths):
    assert len(deaths) > 10
    wrong = {folder.name: judged(folder) for folder in deaths[::EACH]}
    assert {name: found for name, found in wrong.items() if found} == {}
