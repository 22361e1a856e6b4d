"""CrewAI, as the contract suite plays it: one agent with one task, and a model that calls functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# isort: split - CrewAI comes after what it must be told
from crewai import Agent, Crew, Task
from crewai.tools import tool
from tests.integrations.contract.driver import Answers, Tool, Turns
from tests.integrations.crewai.offline import hush
from tests.integrations.crewai.scripted import Scripted

from settlemark import Settlement
from settlemark_crewai import settled_crew


class Driver:
    """One crew for each job; what became of its task is in the ledger, so a new process needs nothing of CrewAI's."""

    name = "crewai"
    cannot_resume: str | None = None

    def __init__(self) -> None:
        self.folder: Path | None = None

    def run(
        self,
        tools: Sequence[Tool],
        turns: Turns,
        *,
        settlement: Settlement | None,
        run: str = "run-1",
        effects: Mapping[str, Any] = {},
        final: str = "done",
    ) -> Answers:
        return _told(_crew(tools, turns, settlement, run, effects, final).kickoff())

    async def arun(
        self,
        tools: Sequence[Tool],
        turns: Turns,
        *,
        settlement: Settlement | None,
        run: str = "run-1",
        effects: Mapping[str, Any] = {},
        final: str = "done",
    ) -> Answers:
        return _told(await _crew(tools, turns, settlement, run, effects, final).akickoff())


def _crew(
    tools: Sequence[Tool], turns: Turns, settlement: Settlement | None, run: str, effects: Mapping[str, Any], final: str
) -> Crew:
    hush()
    llm = Scripted(*turns, final=final)
    agent = Agent(role="clerk", goal="Do it.", backstory="Diligent.", llm=llm, tools=[tool(found) for found in tools])
    task = Task(description="Do it.", expected_output="It is done.", agent=agent)
    crew = Crew(agents=[agent], tasks=[task])
    return crew if settlement is None else settled_crew(crew, settlement, run=run, effects=effects)


def _told(output: Any) -> Answers:
    (done,) = output.tasks_output
    return [(told["tool_call_id"], told["content"]) for told in done.messages if told["role"] == "tool"]
