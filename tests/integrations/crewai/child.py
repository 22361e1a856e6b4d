"""A crew in a process of its own, that dies where it is told: `python child.py FOLDER stock|ours WHERE [CREW]`.

Its counterparty is a file beside the ledger: what was asked of it, under which key; a key that it knows is not acted
on again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

# isort: split - CrewAI comes after what it must be told
from crewai import Crew, Process
from crewai.tools.agent_tools.agent_tools import AgentTools
from tests.integrations.crewai.offline import hush
from tests.integrations.crewai.scripted import Scripted
from tests.integrations.crewai.world import agent_of, call, task_of, tools_of

from settlemark import Settlement, current_call, effect
from settlemark_crewai import settled_crew


class Counterparty:
    """The outside, in a file: one line for each act."""

    def __init__(self, folder):
        self._file = Path(folder, "counterparty.jsonl")

    def acts(self):
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return [json.loads(line) for line in lines]

    def act(self, what):
        key = current_call().key if current_call() else None
        if key is None or all(known["key"] != key for known in self.acts()):
            with self._file.open("a") as file:
                file.write(json.dumps({"what": what, "key": key}) + "\n")
        return f"{what} done"

    def probe(self, key):
        """Tell whether a key was acted on."""
        return next((f"{known['what']} done" for known in self.acts() if known["key"] == key), None)


class Dying:
    """Kills this process at one point of its work."""

    def __init__(self, where):
        self._where = where

    def at(self, here):
        if here == self._where:
            os.kill(os.getpid(), signal.SIGKILL)


def workers(counterparty, dying):
    """A clerk who books two rooms and mails, a writer who publishes, and what others of theirs are made with."""

    def happen(what):
        dying.at(f"before {what}")
        result = counterparty.act(what)
        dying.at(f"after {what}")
        return result

    def cancel(hotel: str, key: str):
        counterparty.act(f"cancel {hotel}")

    @effect("reversible", scope="room:/{hotel}", undo=cancel, keyed=True)
    def book(hotel: str) -> str:
        """Book a room."""
        return happen(f"book {hotel}")

    @effect("irreversible", scope="mail:/{to}", probe=lambda key: counterparty.probe(key))
    def mail(to: str) -> str:
        """Send a mail."""
        return happen(f"mail {to}")

    @effect("idempotent", scope="page:/{page}")
    def publish(page: str) -> str:
        """Publish a page."""
        return happen(f"publish {page}")

    def asked(role):
        return lambda number: dying.at(f"{role} asks for {number}")

    tools = tools_of({"book": book, "mail": mail, "publish": publish})
    turn = [call("book", hotel="Ada"), call("book", hotel="Bee"), call("mail", to="ada")]
    clerk = agent_of(Scripted(turn, final="booked", before=asked("clerk")), tools, "clerk")
    writer = agent_of(
        Scripted([call("publish", page="trip")], final="published", before=asked("writer")), tools, "writer"
    )
    return clerk, writer, asked


def crew(counterparty, dying):
    """A clerk books two rooms and mails, then a writer publishes."""
    clerk, writer, _ = workers(counterparty, dying)
    return Crew(agents=[clerk, writer], tasks=[task_of(clerk, "Book."), task_of(writer, "Publish.")])


def hierarchy(counterparty, dying):
    """In one turn a manager has a lead, who has the clerk do it, book and mail, and a writer publish."""
    clerk, writer, asked = workers(counterparty, dying)
    lead = agent_of(
        Scripted([delegate("clerk")], final="led", before=asked("lead")), AgentTools(agents=[clerk]).tools(), "lead"
    )
    llm = Scripted([delegate("lead"), delegate("writer")], final="published", before=asked("manager"))
    manager = agent_of(llm, [], "manager", allow_delegation=True)
    return Crew(
        agents=[lead, writer, clerk], tasks=[task_of(None)], process=Process.hierarchical, manager_agent=manager
    )


def delegate(coworker, task="Do it."):
    return call("delegate_work_to_coworker", task=task, context="Now.", coworker=coworker)


CREWS = {"tasks": crew, "hierarchy": hierarchy}


def main(folder, side, where=None, which="tasks"):
    hush()
    made = CREWS[which](Counterparty(folder), Dying(where))
    if side == "stock":
        return made.kickoff().raw
    with Settlement(f"sqlite:///{folder}/ledger.db", lease=1) as settlement:
        return settled_crew(made, settlement, run="trip-42").kickoff().raw


if __name__ == "__main__":
    sys.stdout.write(f"\nended: {main(*sys.argv[1:])}\n")
