"""A task of a settled crew: done once, with its output on record."""

# CrewAI's signatures have open dictionaries.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from crewai import Task, TaskOutput
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.tools import BaseTool
from pydantic import PrivateAttr

from settlemark.agents import MISSING, AgentRun
from settlemark.hosting import Program, end_async, run_async, run_sync
from settlemark_crewai._hooks import Part, part
from settlemark_crewai._job import Job
from settlemark_crewai._outputs import kept_of, output_of
from settlemark_crewai._settled import copied
from settlemark_crewai._steps import refuse_to_plan
from settlemark_crewai._tools import Mark, is_crews_own, mark_of


class Place:
    """A task's place in a settled crew.

    Attributes:
        run: the running job, while the crew runs.
    """

    def __init__(self, job: Job, name: str) -> None:
        self.job = job
        self.name = name
        self.run: AgentRun | None = None

    def begin(self, task: Task) -> Part:
        """Return the task as it is about to be done."""
        return Part(self.job, self.run or self.job.joined(), task, self.name)


class SettledTask(Task):
    """A task of a settled crew: done once, with its output on record."""

    _place: Place | None = PrivateAttr(default=None)

    def execute_sync(
        self, agent: BaseAgent | None = None, context: str | None = None, tools: list[BaseTool] | None = None
    ) -> TaskOutput:
        """Do the task, unless its output is on record."""
        if self._place is None:
            return super().execute_sync(agent, context, tools)
        here = self._place.begin(self)
        kept = run_sync(here.run.recorded(_result(here)))
        if kept is not MISSING:
            return self._remembered(kept)
        token = part.set(here)
        try:
            output = super().execute_sync(agent, context, self._tools(agent, tools))
        except BaseException as error:
            run_sync(_ended(here, error))
            raise
        finally:
            part.reset(token)
        run_sync(_ended(here, None, output))
        return output

    def execute_async(
        self, agent: BaseAgent | None = None, context: str | None = None, tools: list[BaseTool] | None = None
    ) -> Future[TaskOutput]:
        """Do the task in a thread of its own."""
        future: Future[TaskOutput] = Future()

        def run() -> None:
            try:
                future.set_result(self.execute_sync(agent, context, tools))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
        return future

    async def aexecute_sync(
        self, agent: BaseAgent | None = None, context: str | None = None, tools: list[BaseTool] | None = None
    ) -> TaskOutput:
        """Do the task, unless its output is on record."""
        if self._place is None:
            return await super().aexecute_sync(agent, context, tools)
        here = self._place.begin(self)
        kept = await run_async(here.run.recorded(_result(here)))
        if kept is not MISSING:
            return self._remembered(kept)
        token = part.set(here)
        try:
            output = await super().aexecute_sync(agent, context, self._tools(agent, tools))
        except BaseException as error:
            await end_async(_ended(here, error))
            raise
        finally:
            part.reset(token)
        await run_async(_ended(here, None, output))
        return output

    def _tools(self, agent: BaseAgent | None, tools: list[BaseTool] | None) -> list[BaseTool]:
        doer = agent or self.agent
        found = settled_tools(tools or self.tools or (doer.tools if doer is not None else None))
        if self._place is not None:
            refuse_to_plan(self._place.job, doer, found)
        return found

    def _remembered(self, kept: dict[str, Any]) -> TaskOutput:
        self.output = output_of(kept, self)
        return self.output


def settled_tools(tools: Sequence[BaseTool] | None) -> list[BaseTool]:
    """Return settled copies of tools, except those that are settled or CrewAI's own."""
    return [tool if mark_of(tool) is not None or is_crews_own(tool) else copied(tool, Mark()) for tool in tools or ()]


def _result(here: Part) -> str:
    return f"task {here.name}"


def _ended(here: Part, error: BaseException | None, output: TaskOutput | None = None) -> Program[None]:
    """End a task's work, and record its output, unless its last effects were undone: then it can go on."""
    undone = False
    for name in (*here.others, here.name):
        work = here.run.work(name)
        left = work.unfinished
        if left is not None and error is not None and not isinstance(error, Exception):
            yield from left.abandon(error)
        yield from work.end(error)
        undone = undone or work.is_undone
    if output is not None and not undone:
        yield from here.run.keep(_result(here), kept_of(output))


__all__ = ["Place", "SettledTask", "settled_tools"]
