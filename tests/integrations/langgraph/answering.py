"""Processes that answer one question: one comes back to its graph with an answer, one is `settlemark` at a terminal.

Both say when they are ready, and go on when they are told, so that they may answer at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path

from tests.rooms.cli import build

from settlemark import Settlement


class Town:
    """The outside, as a file that every process appends to."""

    def __init__(self, folder):
        self._path = Path(folder) / "town.log"

    def act(self, entry):
        with self._path.open("a") as log:
            log.write(f"{entry}\n")

    @property
    def log(self):
        return self._path.read_text().splitlines() if self._path.exists() else []


def url(folder):
    return f"sqlite:///{folder}/ledger.db"


def play(folder, kind, calls, given, *, is_async=False):
    """Invoke a graph on its thread, and return what it asks and has told the model."""
    # Only here: a terminal has no LangGraph.
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from tests.integrations.langgraph.test_gates import Agent, Node, answering, desk, questions
    from tests.integrations.langgraph.world import THREAD, answers, turn

    message = turn(*calls)
    begins = given == "begin"
    made = {"node": Node, "create_agent": Agent}[kind]()

    def said_to(state):
        return made.begun(message) if begins else None if given == "again" else answering(state, given)

    saver = AsyncSqliteSaver if is_async else SqliteSaver

    def built(settlement, saver):
        return made.built(desk(Town(folder)), message if begins else None, settlement, saver)

    async def awaited(settlement):
        async with saver.from_conn_string(f"{folder}/graph.db") as opened:
            graph = built(settlement, opened)
            return await graph.ainvoke(said_to(await graph.aget_state(THREAD)), THREAD)

    with Settlement(url(folder)) as settlement:
        if is_async:
            said = asyncio.run(awaited(settlement))
        else:
            with saver.from_conn_string(f"{folder}/graph.db") as opened:
                graph = built(settlement, opened)
                said = graph.invoke(said_to(graph.get_state(THREAD)), THREAD)
    return {"asked": questions(said), "answers": answers(said)}


def resume(told):
    """Be the process of the graph."""
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append([record.levelname, record.getMessage()])
    logging.getLogger("settlemark").addHandler(handler)
    logging.getLogger("settlemark").setLevel(logging.INFO)
    _wait()
    found = play(**told)
    late = [said for said in heard if "was answered already" in said[1]]
    sys.stdout.write(json.dumps({**found, "late": late}))


def command(told):
    """Be `settlemark` at a terminal."""
    app = build()
    _wait()
    app(told, prog_name="settlemark")


def _wait():
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    {"resume": resume, "command": command}[sys.argv[1]](json.loads(sys.argv[2]))
