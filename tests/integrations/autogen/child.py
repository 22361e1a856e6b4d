"""What is killed: a graph of three agents, each with tools of its own, in a process that dies where it is told to.

`python -m tests.integrations.autogen.child` loads AutoGen once; each line it reads is a job to play in a copy of it.
One that keeps its state has the team stop after each agent and stores that, with the workbenches' beside it, which the
next process loads. Without, it starts again with the task.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow
from autogen_agentchat.tools import AgentTool
from tests.integrations.autogen.world import Scripted, turn
from tests.integrations.langgraph.death.office import Office

from settlemark import Settlement, current_call, effect
from settlemark.testing import die, in_child
from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench

PLAN = {
    "booker": turn(("book", {"what": "Ada"}), ("mail", {"what": "ada"})),
    "renter": turn(("rent", {"what": "X"}), ("mail", {"what": "garage"})),
    "clerk": turn(("book", {"what": "Bee"}), ("mail", {"what": "bee"})),
}
DONE = ["book Ada", "mail ada", "rent X", "mail garage", "book Bee", "mail bee"]
PATIENCE = 60.0
WITHIN = [
    turn(("book", {"what": "Ada"}), ids=["a"]),
    turn(("rent", {"what": "X"}), ("mail", {"what": "ada"}), ids=["b", "c"]),
    turn(("book", {"what": "Bee"}), ("mail", {"what": "bee"}), ids=["b", "d"]),
]
"""What an agent does that another's tool runs, a turn each; a model may use an id again."""
DONE_WITHIN = ["book Ada", "rent X", "book Bee", "mail ada", "mail bee"]
POINTS_WITHIN = [
    *(f"request {number} is {what}" for number in range(len(WITHIN) + 1) for what in ("made", "kept")),
    *(f"{when} {what}" for what in DONE_WITHIN for when in ("before", "after")),
]
POINTS = ["renter is asked", "clerk is asked", *(f"{when} {what}" for what in DONE for when in ("before", "after"))]


class Points:
    """Kills the process at the chosen point, the first time it comes by."""

    def __init__(self, at):
        self._at = at

    def pass_by(self, point):
        if point == self._at:
            die()


def tools(office, points):
    def at_office(verb, what):
        call = current_call()
        points.pass_by(f"before {verb} {what}")
        number = office.act(verb, what, call and call.key)
        points.pass_by(f"after {verb} {what}")
        return f"{verb} {what}: number {number}"

    def knows(verb):
        def probe(what, key):
            number = office.knows(verb, key)
            return None if number is None else f"{verb} {what}: number {number}"

        return probe

    def cancel(what, key):
        office.act("cancel", what, key)

    @effect("reversible", scope="room:/{what}", undo=cancel, probe=knows("book"))
    async def book(what: str) -> str:
        """Book a room."""
        return at_office("book", what)

    @effect("idempotent", scope="car:/{what}", probe=knows("rent"))
    def rent(what: str) -> str:
        """Rent a car."""
        return at_office("rent", what)

    @effect("irreversible", scope="mail:/{what}", probe=knows("mail"))
    def mail(what: str) -> str:
        """Send a mail."""
        return at_office("mail", what)

    return [book, rent, mail]


class Asked(Scripted):
    """A model before which a process may die."""

    def __init__(self, name, points):
        super().__init__(PLAN[name], final=f"{name} is done")
        self._name = name
        self._points = points

    async def create(self, messages, **options):
        if not any(message.type == "AssistantMessage" for message in messages):
            self._points.pass_by(f"{self._name} is asked")
        return await super().create(messages, **options)


def team(folder, points, settlement):
    workbenches, agents = {}, []
    for name in PLAN:
        model, own = Asked(name, points), tools(Office(folder / "office.jsonl"), points)
        if settlement is None:
            agents.append(AssistantAgent(name, model, tools=own, max_tool_iterations=2))
            continue
        workbench = workbenches[name] = SettledWorkbench(own, settlement)
        client = SettledChatCompletionClient(model, settlement)
        agents.append(AssistantAgent(name, client, workbench=workbench, max_tool_iterations=2))
    builder = DiGraphBuilder()
    for played in agents:
        builder.add_node(played)
    for first, second in pairwise(agents):
        builder.add_edge(first, second)
    return agents, builder.build(), workbenches


async def play(folder, points, settlement, *, keeps):
    agents, graph, workbenches = team(folder, points, settlement)
    played = GraphFlow(agents, graph=graph, max_turns=1 if keeps else None)
    kept, task = folder / "state.json", "go"
    if kept.exists():
        state = json.loads(kept.read_text())
        await played.load_state(state["team"])
        for name, workbench in workbenches.items():
            await workbench.load_state(state["workbenches"][name])
        task = None
    elif not keeps:
        for workbench in workbenches.values():
            await workbench.load_state({"settlemark_run": "trip-42"})
    while True:
        if keeps and task is not None:
            await keep(kept, played, workbenches)
        result = await played.run(task=task)
        task = None
        if "maximum number of turns" not in (result.stop_reason or "").lower():
            return result.stop_reason
        await keep(kept, played, workbenches)


async def keep(kept, played, workbenches):
    state = {
        "team": await played.save_state(),
        "workbenches": {name: await workbench.save_state() for name, workbench in workbenches.items()},
    }
    fresh = kept.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    fresh.rename(kept)


class Kept(Scripted):
    """A model of an agent whose state is kept at each request."""

    def __init__(self, folder, points):
        super().__init__(*WITHIN, final="all is done")
        self.agent = None
        self._kept = folder / "within.json"
        self._points = points

    async def create(self, messages, **options):
        number = sum(message.type == "AssistantMessage" for message in messages)
        self._points.pass_by(f"request {number} is made")
        self._kept.write_text(json.dumps(await self.agent.save_state()))
        self._points.pass_by(f"request {number} is kept")
        return await super().create(messages, **options)

    async def load(self):
        if self._kept.exists():
            await self.agent.load_state(json.loads(self._kept.read_text()))


async def play_within(folder, points, settlement, *, deep):
    """Have an agent run by another's tool, or by that of a third, and go on where its kept state is."""

    def agent(name, model, own, run=None):
        if settlement is None:
            return AssistantAgent(name, model, tools=own, max_tool_iterations=9, description=name)
        client = SettledChatCompletionClient(model, settlement)
        # What an agent's tools did is not done again: it may be run again itself.
        again = {"kind": "idempotent", "scope": "task:/{task}"}
        effects = {tool.name: again for tool in own if isinstance(tool, AgentTool)}
        workbench = SettledWorkbench(own, settlement, run=run, effects=effects)
        return AssistantAgent(name, client, workbench=workbench, max_tool_iterations=9, description=name)

    model = Kept(folder, points)
    played = model.agent = agent("within", model, tools(Office(folder / "office.jsonl"), points), "within")
    await model.load()
    for number in range(deep):
        asks = Scripted(turn((played.name, {"task": "it"})), final="done")
        played = agent(f"manager_{number}", asks, [AgentTool(agent=played)], f"trip-{number}")
    result = await played.run(task="go")
    return result.messages[-1].content


def played(folder, at, *, settled, keeps, deep=0):
    """Play the job, or go on with it, and return what can be told of it."""
    points = Points(at)
    opened = Settlement(f"sqlite:///{folder / 'ledger.db'}") if settled else nullcontext()
    with opened as settlement:
        job = (
            play_within(folder, points, settlement, deep=deep)
            if deep
            else play(folder, points, settlement, keeps=keeps)
        )
        stopped = asyncio.run(job)
        left = [] if settlement is None else [*settlement.residue(), *settlement.in_doubt()]
    return {"stopped": stopped, "left": [f"{one.tool} on {one.scope}" for one in left]}


class Nursery:
    """Has AutoGen loaded in another process, and jobs played in copies of that."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integrations.autogen.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def play(self, folder, *, at=None, settled, keeps=True, deep=0):
        """Return how a process ended; one that fails or hangs is an error here."""
        asked = {"folder": str(folder), "at": at, "settled": settled, "keeps": keeps, "deep": deep}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        ended = json.loads(self._process.stdout.readline())
        assert ended["error"] is None, f"{at}: {ended['error']}"
        assert not ended["late"], f"{at}: it hangs: {ended['stack']}"
        return ended

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


def main():
    """Serve a nursery."""
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what is printed is none of the answers
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(asked.pop("folder"))
        ended = in_child(lambda tell, folder=folder, asked=asked: tell(played(folder, **asked)), timeout=PATIENCE)
        print(json.dumps({**asdict(ended), "killed": ended.killed}), file=told, flush=True)


if __name__ == "__main__":
    main()
