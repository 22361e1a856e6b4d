"""CrewAI, as the contract suite plays it: one agent with one task, and a model that calls functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# isort: split - CrewAI comes after what it must be told
from crewai import Agent, Crew, Task
from crewai.hooks import register_before_tool_call_hook, unregister_before_tool_call_hook
from crewai.tools import tool
from tests.integrations.contract.driver import Answers, Heed, Rewrite, Tool, Turns
from tests.integrations.crewai.offline import hush
from tests.integrations.crewai.scripted import Scripted

from settlemark import Settlement
from settlemark_crewai import settled_crew


class Driver:
    """One crew for each job; what became of its task is in the ledger, so a new process needs nothing of CrewAI's."""

    name = "crewai"
    cannot_resume: str | None = None
    rewrite: Rewrite | None = None
    primer = False
    agent: str | None = "clerk"
    heed: Heed | None = None

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
        crew = self._crew(tools, turns, settlement, run, effects, final)
        with rewriting(self.rewrite):
            return _told(crew.kickoff())

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
        crew = self._crew(tools, turns, settlement, run, effects, final)
        with rewriting(self.rewrite):
            return _told(await crew.akickoff())

    def _crew(
        self,
        tools: Sequence[Tool],
        turns: Turns,
        settlement: Settlement | None,
        run: str,
        effects: Mapping[str, Any],
        final: str,
    ) -> Crew:
        hush()
        llm = Scripted(*turns, final=final, heed=self.heed)
        agent = Agent(
            role=self.agent or "clerk",
            goal="Do it.",
            backstory="Diligent.",
            llm=llm,
            tools=[tool(found) for found in tools],
        )
        task = Task(description="Do it.", expected_output="It is done.", agent=agent)
        crew = Crew(agents=[agent], tasks=[task])
        if settlement is None:
            return crew
        return settled_crew(crew, settlement, run=run, effects=effects, primer=self.primer)


@contextmanager
def rewriting(rewrite: Rewrite | None) -> Iterator[None]:
    """Have calls get other arguments by one of CrewAI's hooks."""

    def hook(context: Any) -> None:
        context.tool_input.update(rewrite(context.tool_name, dict(context.tool_input)))

    if rewrite is None:
        yield
        return
    register_before_tool_call_hook(hook)
    try:
        yield
    finally:
        unregister_before_tool_call_hook(hook)


def _told(output: Any) -> Answers:
    (done,) = output.tasks_output
    return [(told["tool_call_id"], told["content"]) for told in done.messages if told["role"] == "tool"]
