"""The jobs of agents under one settlement, by the caller's ids."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, get_args

from pydantic_ai import ApprovalRequired, CallDeferred, RunContext
from pydantic_ai.messages import ModelMessage

from settlemark import Settlement, UsageError
from settlemark.agents import (
    AgentRun,
    Call,
    Declarations,
    Declared,
    Primers,
    Settles,
    Unsettled,
    Work,
    cannot_keep,
    refuse_bad_options,
)
from settlemark.hosting import Order, Park, Program, host_of
from settlemark_pydantic_ai._private import NAMES
from settlemark_pydantic_ai._responses import are_answered

Run = str | Callable[[RunContext[Any]], str]
"""The caller's id for the job, or a function that returns it for a run."""

Settle = Literal["turn", "agent", "run"]
"""What settles together: the calls of a turn, all of one agent's run, or all of a job."""

_AS_CORE_SAYS: Mapping[str, Settles] = {"turn": "turn", "agent": "part", "run": "run"}


Who = tuple[str, int]
"""An agent in a job, numbered among those of its name that are at work in it at a time."""


@dataclass(frozen=True, slots=True)
class Seated:
    """An agent at work in a job.

    Attributes:
        job: the caller's id.
        who: unique among those at work in it.
        work: what its calls belong to.
        asked: somebody was asked in it before, and what waits for the answer is open here.
        answers: this run continues the run that asked.
        primers: what the models of its job are told as it is taken up again.
    """

    job: str
    who: Who
    work: Work
    asked: bool
    answers: bool
    primers: Primers


@dataclass(slots=True, eq=False)
class _Job:
    """A job that is open here.

    Attributes:
        run: what settles it.
        at_work: agents whose runs have not ended.
        waiting: agents that continue when somebody answers, by the run whose response asks.
        failed: the errors of agents that have not been run again since, in order.
    """

    run: AgentRun
    at_work: set[Who] = field(default_factory=set[Who])
    waiting: dict[str | None, Who] = field(default_factory=dict[str | None, Who])
    failed: dict[Who, BaseException] = field(default_factory=dict[Who, BaseException])

    @property
    def error(self) -> BaseException | None:
        return next(iter(self.failed.values()), None)


class Jobs:
    """The jobs under one settlement.

    Args:
        settlement: settles what the tools do.
        run: the caller's id for the job, or a function of the run's context that returns it.
        settle: what settles together.
        order, park, may_touch: as for `settlemark.agents.AgentRun`.
        effects: what the tools of others do.
        unsettled: what to do where the installed release lacks what the calls settle by.

    Raises:
        UsageError: an option is none of those; nothing was begun.
        DeclarationError: `effects` contradicts itself.
    """

    def __init__(
        self,
        settlement: Settlement,
        *,
        run: Run | None,
        settle: Settle,
        effects: Mapping[str, Declared] | None,
        order: Order,
        park: Park,
        may_touch: str | Sequence[str],
        unsettled: Unsettled,
    ) -> None:
        if settle not in _AS_CORE_SAYS:
            raise UsageError(f"settle={settle!r}: choose one of {', '.join(map(repr, get_args(Settle)))}")
        self.settles: Settles = _AS_CORE_SAYS[settle]
        id_ = None if callable(run) else run
        refuse_bad_options(settlement, settle=self.settles, order=order, park=park, run=id_)
        NAMES.refuse_without(settlement, unsettled)
        self.settlement = settlement
        self.declarations = Declarations(settlement, effects)
        self._run = run
        self._order: Order = order
        self._park: Park = park
        self._may_touch = may_touch
        self._unsettled: Unsettled = unsettled
        self._jobs: dict[str, _Job] = {}
        self._held = False
        self._lock = threading.Lock()

    def named(self, ctx: RunContext[Any]) -> str | None:
        """Return the caller's id for the job of an agent's run, or None if there is none."""
        if self._run is None and _is_fresh(ctx.run_id):
            host_of(self.settlement).tell_once(
                "no run",
                "this job has no id of yours, so that after a crash only its message history can tell what it did:"
                " give it one with run=…",
            )
        return self._run(ctx) if callable(self._run) else self._run

    def refuse_apart(self, call: Call, messages: Sequence[ModelMessage]) -> None:
        """Return when a call that no response among these messages has issued may settle by itself: a tool made it.

        Raises:
            UsageError: a response has that the framework has not in its messages yet, and others stand beside it there.
        """
        if call.acts and are_answered(messages):
            cannot_keep(
                self.settlement,
                f"streamed {call.tool}",
                f"{call.tool} was called beside a final output while that is streamed (run_stream), and nobody is told"
                " what else its model issued with it: it would settle by itself; give the agent"
                " capabilities=[Settled(…)], or use run, iter or run_stream_events",
                self._unsettled,
            )

    def waiting(self, run: str | None) -> str | None:
        """Return the job that is open here because a response of this run asks somebody, or None: there is none."""
        with self._lock:
            return next((name for name, job in self._jobs.items() if run in job.waiting), None)

    def enter(self, job: str, agent: str, *, after: str | None) -> Seated:
        """Seat an agent in a job, beside others of its name that are at work in it.

        Args:
            job: the caller's id.
            agent: its name.
            after: the run whose response its history ends with; when that asked somebody, its work is continued.
        """
        with self._lock:
            found = self._jobs.get(job)
            if found is None:
                found = self._jobs[job] = _Job(
                    AgentRun(
                        self.settlement,
                        job,
                        settle=self.settles,
                        order=self._order,
                        park=self._park,
                        may_touch=self._may_touch,
                        let_through=(ApprovalRequired, CallDeferred),
                        asks=True,
                        asks_together=True,
                    )
                )
            who = found.waiting.get(after)
            answers = who is not None and who not in found.at_work
            if who is None or not answers:
                who = next((agent, number) for number in count(1) if (agent, number) not in found.at_work)
            asked = who in found.waiting.values()
            found.waiting = {run: one for run, one in found.waiting.items() if one != who}
            found.failed.pop(who, None)
            found.at_work.add(who)
        name, number = who
        work = found.run.work(name if number == 1 else f"{name}~{number}", agent=name)
        work.begin()
        return Seated(job, who, work, asked, answers, found.run.primers)

    def leave(
        self, seated: Seated, error: BaseException | None, *, is_over: bool, asked_by: str | None
    ) -> Program[None]:
        """Record that an agent's run in a job has ended; the last one ends the job.

        `is_over` is false for a run that waits for somebody, and will be continued: what settles with it stays open.
        `asked_by` is the run whose response asks.

        Raises:
            Refused, InDoubt, PartialCommit: what was to settle with it did not settle as a whole.
        """
        try:
            if is_over and self.settles == "part":
                yield from seated.work.end(error)
        finally:
            found = self._release(seated, error, is_over=is_over, asked_by=asked_by)
        if found is not None and is_over:
            yield from found.run.end(found.error)

    def _release(
        self, seated: Seated, error: BaseException | None, *, is_over: bool, asked_by: str | None
    ) -> _Job | None:
        """Free an agent's seat; return its job when nobody is left in it."""
        with self._lock:
            found = self._jobs[seated.job]
            found.at_work.discard(seated.who)
            if not is_over and self.settles != "turn":
                found.waiting[asked_by] = seated.who
            elif error is not None:
                found.failed[seated.who] = error
            if found.at_work or found.waiting or self._held:
                return None
            return self._jobs.pop(seated.job)

    def hold(self) -> None:
        """Keep jobs open when no agent works in them."""
        self._held = True

    def end(self, error: BaseException | None) -> Program[None]:
        """End all jobs; one that waits for somebody's answer stays open, unless there was an error."""
        self._held = False
        with self._lock:
            over = [
                name for name, job in self._jobs.items() if not job.at_work and (error is not None or not job.waiting)
            ]
            found = [self._jobs.pop(name) for name in over]
        for job in found:
            yield from job.run.end(job.error if error is None else error)


def _is_fresh(run_id: str | None) -> bool:
    """Whether the framework has drawn a run's id at random; a durable workflow's is the same when recovered.

    >>> _is_fresh("trip-42:1")
    False
    """
    try:
        return run_id is None or uuid.UUID(run_id).version is not None
    except ValueError:
        return False


__all__ = ["Jobs", "Run", "Seated", "Settle"]
