"""`settled_crew`: a crew whose tool calls settle, and which continues after a crash where it was."""

# CrewAI's signatures have open dictionaries.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any, NoReturn, TypeVar, cast

from crewai import Crew, Task
from pydantic import BaseModel, PrivateAttr

from settlemark import Settlement, UsageError
from settlemark.agents import MISSING, AgentRun, Declared, Unsettled
from settlemark.hosting import Order, Park, Program, end_async, run_async, run_sync
from settlemark_crewai._hooks import attend
from settlemark_crewai._job import Job, Settle
from settlemark_crewai._outputs import plain
from settlemark_crewai._task import Place, SettledTask, settled_tools

_Crew = TypeVar("_Crew", bound=Crew)
_INPUTS = "inputs"


def settled_crew(
    crew: _Crew,
    settlement: Settlement,
    *,
    run: str | None = None,
    settle: Settle = "turn",
    effects: Mapping[str, Declared] | None = None,
    order: Order = "turn",
    park: Park = "keep",
    may_touch: str | Sequence[str] = (),
    unsettled: Unsettled = "refuse",
    primer: bool = False,
) -> _Crew:
    """Return the crew, whose tools' effects now settle: in issuance order, once, and undone together.

    It is the same object, and its agents have settled copies of their tools. Kicked off again under its `run`, also in
    a new process, it does what is unfinished: a task that had ended returns its recorded output, and calls and writes
    nothing; of one that had not no effect is repeated. A retry and a guardrail repeat none either.

    What an agent does for another that has delegated to it, or asked it, is a part of that one's call: it settles with
    the turn of that call. What CrewAI does itself besides (remembering, reading files) is left as it is.

    Args:
        crew: of any process, with any agents; do not share its tasks with a crew that is not settled.
        settlement: settles it.
        run: your id for the job; without one nothing can know it again after a crash.
        settle: what settles together: the calls of a `"turn"`, of a `"task"`, or of the whole `"crew"`. What is
            irreversible leaves at the end of that, and a failure undoes all of it.
        effects: what tools do that do not say so themselves, by name.
        order: `"turn"` keeps the order of effects that run at once, and what is held leaves last; `"scopes"` that of
            effects on overlapping scopes; `"issued"` that of all, also behind what cannot be undone.
        park: what becomes of a turn that waits for a person's yes: it is kept as it is, or split.
        may_touch: scopes that each transaction holds from its beginning.
        unsettled: what becomes of it where the installed CrewAI lacks what its calls settle by, in a planned step
            (`planning_config`) say: it is refused (`"refuse"`) before anything runs, or each call settles by itself,
            with a warning (`"warn"`) or without (`"allow"`).
        primer: whether an agent's model is told, behind its system message, what the record says of the job when that
            was begun before, or the agent is begun again: see `Settlement.primer`.

    Raises:
        UsageError: an option is none of those, or it cannot be kept. DeclarationError: `effects` contradicts itself.
        Nothing was changed.
        From `kickoff`: Refused, InDoubt, PartialCommit where a task, or the crew, did not settle as a whole.
    """
    job = Job(
        settlement,
        run,
        settle=settle,
        effects=effects,
        order=order,
        park=park,
        may_touch=may_touch,
        unsettled=unsettled,
        primer=primer,
    )
    if primer and any(getattr(agent, "planning_config", None) is not None for agent in crew.agents):
        raise UsageError(
            "primer=True cannot be kept by an agent with planning_config=: CrewAI shows nobody what the model of a"
            " planned step is told; leave one of the two out, and put settlement.primer(run).text into the task"
        )
    _bind(crew, job)
    return crew


def _bind(crew: Crew, job: Job) -> None:
    """Let a job settle the calls of a crew's tools."""
    job.expect_delegation()
    for agent in crew.agents:
        agent.tools = settled_tools(agent.tools)
    for task, name in zip(crew.tasks, _names_of(crew.tasks), strict=True):
        task.tools = settled_tools(task.tools)
        _become(task, SettledTask)
        cast("SettledTask", task)._place = Place(job, name)  # noqa: SLF001 - ours
    _become(crew, SettledCrew)
    settled = cast("SettledCrew", crew)
    settled._job, settled._copies = job, count()  # noqa: SLF001 - ours


def _names_of(tasks: Sequence[Task]) -> list[str]:
    """Return a name for each task that it has again in a new process: its own, or its number."""
    named = [task.name for task in tasks]
    return [
        task.name if task.name and named.count(task.name) == 1 else f"{number}" for number, task in enumerate(tasks, 1)
    ]


def _become(thing: BaseModel, kind: type[BaseModel]) -> None:
    """Add our class's behaviour to a CrewAI object, whatever its class."""
    if not isinstance(thing, kind):
        object.__setattr__(thing, "__class__", _both(type(thing), kind))


@cache
def _both(stock: type[BaseModel], ours: type[BaseModel]) -> type[BaseModel]:
    if ours.__base__ is stock:
        return ours
    names = {"__module__": stock.__module__, "__qualname__": stock.__qualname__}
    return types.new_class(stock.__name__, (ours, stock), exec_body=lambda made: made.update(names))


class SettledCrew(Crew):
    """A crew whose tools settle, under one id."""

    _job: Job | None = PrivateAttr(default=None)
    _copies: Iterator[int] = PrivateAttr(default_factory=count)

    def kickoff(
        self, inputs: dict[str, Any] | None = None, input_files: Any = None, from_checkpoint: Any = None
    ) -> Any:
        """Do what is left of the job."""
        _refuse_checkpoint(from_checkpoint)
        if self.stream or self._job is None:  # a stream kicks it off again, in a thread of its own
            return super().kickoff(inputs, input_files)
        run = self._begin(self._job)
        try:
            inputs = run_sync(_inputs_of(run, inputs))
            output = super().kickoff(inputs, input_files)
        except BaseException as error:
            run_sync(run.end(error))
            raise
        run_sync(run.end())
        return output

    async def kickoff_async(
        self, inputs: dict[str, Any] | None = None, input_files: Any = None, from_checkpoint: Any = None
    ) -> Any:
        """Do the same in a thread."""
        _refuse_checkpoint(from_checkpoint)
        return await super().kickoff_async(inputs, input_files)

    async def akickoff(
        self, inputs: dict[str, Any] | None = None, input_files: Any = None, from_checkpoint: Any = None
    ) -> Any:
        """Do what is left of the job."""
        _refuse_checkpoint(from_checkpoint)
        if self.stream or self._job is None:
            return await super().akickoff(inputs, input_files)
        run = self._begin(self._job)
        try:
            inputs = await run_async(_inputs_of(run, inputs))
            output = await super().akickoff(inputs, input_files)
        except BaseException as error:
            await end_async(run.end(error))
            raise
        await run_async(run.end())
        return output

    def _begin(self, job: Job) -> AgentRun:
        attend(self.agents)
        run = job.begin()
        for task in self.tasks:
            place = cast("SettledTask", task)._place  # noqa: SLF001 - ours
            if place is not None:
                place.run = run
        return run

    def copy(self) -> Crew:  # type: ignore[override] # as CrewAI's own
        """Return a copy, with a job of its own: as `kickoff_for_each` makes them, in order."""
        copy = super().copy()
        if self._job is not None:
            run = self._job.run
            _bind(copy, self._job.named(None if run is None else f"{run}/{next(self._copies)}"))
        return copy

    def kickoff_for_each(self, inputs: list[dict[str, Any]], input_files: Any = None) -> Any:
        """Do what is left for each of the inputs; each has an id of its own, by its number."""
        self._copies = count()
        return super().kickoff_for_each(inputs, input_files)

    async def kickoff_for_each_async(self, inputs: list[dict[str, Any]], input_files: Any = None) -> Any:
        """Do the same concurrently."""
        self._copies = count()
        return await super().kickoff_for_each_async(inputs, input_files)

    async def akickoff_for_each(self, inputs: list[dict[str, Any]], input_files: Any = None) -> Any:
        """Do the same concurrently."""
        self._copies = count()
        return await super().akickoff_for_each(inputs, input_files)

    def replay(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: replaying would do things again."""
        _refuse_to_repeat("replay")

    def train(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: training does things again and again."""
        _refuse_to_repeat("train")

    def test(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: testing does things again and again."""
        _refuse_to_repeat("test")


def _inputs_of(run: AgentRun, inputs: dict[str, Any] | None) -> Program[dict[str, Any] | None]:
    """Return a job's inputs: the original ones, if it is begun again without.

    Raises:
        UsageError: it was begun with other inputs.
    """
    if not run.resumable:
        return inputs
    known: Any = yield from run.recorded(_INPUTS)
    given = plain(inputs)
    if known is MISSING:
        if inputs is not None:
            yield from run.keep(_INPUTS, given)
        return inputs
    if inputs is None:
        kept: dict[str, Any] | None = known
        return kept
    if given != known:
        raise UsageError(
            f"the job {run.name} was begun with {known!r}, and is now to go on with {given!r}: nothing was run; give"
            " it the same inputs, or none, or another run=",
            run=run.name,
        )
    return inputs


def _refuse_checkpoint(asked: Any) -> None:
    if getattr(asked, "restore_from", None) is not None:
        raise UsageError(
            "a crew that CrewAI restores is another one, and not settled: nothing was run; restore it first, with"
            " Crew.from_checkpoint(…), and kick off settled_crew(…) of that"
        )


def _refuse_to_repeat(what: str) -> NoReturn:
    raise UsageError(
        f"{what}() does again what a settled crew does once: nothing was run; {what} a crew that is not settled, or"
        " kick off settled_crew(…, run=another_id)"
    )


__all__ = ["settled_crew"]
