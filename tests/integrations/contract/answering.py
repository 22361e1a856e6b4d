"""What is answered elsewhere: an agent that asks about a payment, in processes that end or are killed.

`python -m tests.integrations.contract.answering NAME` loads a framework once. Then for each line it
reads a copy of itself begins the job, goes on with it, or is `settlemark` at a terminal.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from tests.integrations.contract.conftest import driver_of
from tests.integrations.contract.world import turns
from tests.integrations.langgraph.death.office import Office
from tests.rooms.cli import build

from settlemark import Settlement, current_call, effect
from settlemark.testing import die, in_child

SCRIPT = turns([("book", "Ada"), ("pay", "hotel"), ("mail", "ada")])
PATIENCE = 60.0


def url(folder):
    return f"sqlite:///{folder / 'ledger.db'}"


def tools(folder, at):
    """Tools that act at the office under their calls' keys; `at` is the one that its process is killed before."""
    office = Office(folder / "office.jsonl")

    def act(verb, what):
        if verb == at:
            die()
        return f"{verb} {what}: number {office.act(verb, what, current_call().key)}"

    def knows(verb):
        return lambda key: office.knows(verb, key)

    @effect(
        "reversible", scope="room:/{what}", undo=lambda what, key: office.act("cancel", what, key), probe=knows("book")
    )
    def book(what: str) -> str:
        """Book a room."""
        return act("book", what)

    @effect("irreversible", scope="bill:/{what}", approve=True, probe=knows("pay"))
    def pay(what: str) -> str:
        """Pay a bill."""
        return act("pay", what)

    @effect("irreversible", scope="mail:/{what}", probe=knows("mail"))
    def mail(what: str) -> str:
        """Send a mail."""
        return act("mail", what)

    return [book, pay, mail]


# ---- an agent, as a user of each framework would write it


def play(name, folder, at=None):
    """Begin the job, or go on with it: what the framework keeps is in the folder. Return the texts it was told."""

    def person(gate):
        """Be asked where nobody answers; `at` says what happens to the process meanwhile."""
        if at == "asking":
            die()
        if at == "answered meanwhile":
            answering = ["approve", gate.key, url(folder), "--by", "ada"]
            subprocess.run([sys.executable, "-m", "settlemark", *answering], stdout=sys.stderr, check=True)
        threading.Event().wait(PATIENCE)

    with Settlement(url(folder), wait=PATIENCE, approver=person) as settlement:
        return {"autogen": _autogen, "crewai": _crewai, "pydantic_ai": _pydantic_ai}[name](
            folder, tools(folder, at), settlement
        )


def terminal(arguments):
    """Be `settlemark` at a terminal, which needs no tool and no framework; return its exit status."""
    try:
        build()(arguments, prog_name="settlemark")
    except SystemExit as ended:
        return ended.code or 0
    return 0


def _crewai(_folder, tools, settlement):
    # The job's id is all that is needed; its approver asks, and is not waited for once somebody has answered elsewhere.
    return [text for _, text in driver_of("crewai").run(tools, SCRIPT, settlement=settlement, run="trip-42")]


def _autogen(folder, tools, settlement):
    from autogen_agentchat.agents import AssistantAgent
    from tests.integrations.autogen.world import Scripted, answers, turn

    from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench

    calls = turn(*((call.tool, call.arguments) for call in SCRIPT[0]))
    workbench = SettledWorkbench(tools, settlement, run="trip-42", approver="handoff")
    client = SettledChatCompletionClient(Scripted(calls), settlement)
    agent = AssistantAgent("agent", client, workbench=workbench, max_tool_iterations=3)
    kept = folder / "autogen.json"

    async def run():
        if kept.exists():
            await agent.load_state(json.loads(kept.read_text()))
        result = await agent.run(task="go on" if kept.exists() else "go")
        kept.write_text(json.dumps(await agent.save_state()))
        return [text for _, text in answers(result)]

    return asyncio.run(run())


def _pydantic_ai(folder, tools, settlement):
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from tests.integrations.pydantic_ai.driver import scripted, told

    from settlemark_pydantic_ai import Settled

    agent = Agent(
        scripted(SCRIPT),
        name="clerk",
        tools=tools,
        output_type=[str, DeferredToolRequests],
        capabilities=[Settled(settlement, run="trip-42")],
    )
    kept = folder / "pydantic_ai.json"
    if kept.exists():
        # The framework wants an answer from whoever goes on: it is a yes here, and the first answer counts.
        history = ModelMessagesTypeAdapter.validate_json(kept.read_text())
        result = agent.run_sync(
            message_history=history, deferred_tool_results=DeferredToolResults(approvals={"call-0-1": True})
        )
    else:
        result = agent.run_sync("go")
    if isinstance(result.output, DeferredToolRequests):
        kept.write_bytes(result.all_messages_json())
    return [text for _, text in told(result)]


def _part(name, asked):
    if "terminal" in asked:
        return terminal(asked["terminal"])
    return play(name, Path(asked["folder"]), asked["at"])


def main(name):
    """Serve those who ask for parts to be played."""
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a framework prints is none of the answers
    driver_of(name)
    print(json.dumps("ready"), file=told, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        ended = in_child(lambda tell, asked=asked: tell(_part(name, asked)), timeout=PATIENCE)
        print(json.dumps({**asdict(ended), "killed": ended.killed}), file=told, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
