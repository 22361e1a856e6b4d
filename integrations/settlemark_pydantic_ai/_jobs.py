"""The jobs of agents under one settlement, by the caller's ids."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic_ai import ApprovalRequired, CallDeferred, RunContext

from settlemark import Settlement, UsageError
from settlemark._acting import Program
from settlemark._parking import Park
from settlemark._sequencer import Order
from settlemark.agents import AgentRun, Declarations, Declared, Settles, Work, refuse_bad_options

Run = str | Callable[[RunContext[Any]], str]
"""The caller's id for the job, or what tells it of a run."""

Settle = Literal["turn", "agent", "run"]
"""What settles together: the calls of a turn, all of one agent's run, or all of a job."""

_AS_CORE_SAYS: Mapping[str, Settles] = {"turn": "turn", "agent": "part", "run": "run"}


class Jobs:
    """The jobs under one settlement.

    Args:
        settlement: settles what the tools do.
        run: the caller's id for the job, or a function of the run's context that returns it.
        settle: what settles together.
        order, park, may_touch: as for `settlemark.agents.AgentRun`.
        effects: what the tools of others do.

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
    ) -> None:
        if settle not in _AS_CORE_SAYS:
            raise UsageError(f"settle={settle!r}: choose one of {', '.join(map(repr, get_args(Settle)))}")
        self.settles: Settles = _AS_CORE_SAYS[settle]
        id_ = None if callable(run) else run
        refuse_bad_options(settlement, settle=self.settles, order=order, park=park, run=id_)
        self.settlement = settlement
        self.declarations = Declarations(settlement, effects)
        self._run = run
        self._order: Order = order
        self._park: Park = park
        self._may_touch = may_touch
        self._jobs: dict[str, AgentRun] = {}
        self._works: Counter[tuple[str, str]] = Counter()
        self._users: Counter[str] = Counter()
        self._held = False
        self._lock = threading.Lock()

    def named(self, ctx: RunContext[Any]) -> str | None:
        """Return the caller's id for the job of an agent's run, or None: he gave none."""
        if self._run is None and _is_fresh(ctx.run_id):
            self.settlement.tell_once(
                "no run",
                "this job has no id of yours, so that after a crash only its message history can tell what it did: give"
                " it one, run=…",
            )
        return self._run(ctx) if callable(self._run) else self._run

    def enter(self, job: str, agent: str) -> Work:
        """Return the work of an agent in a job; of one that is at work in it already, it is another."""
        with self._lock:
            found = self._jobs.get(job)
            if found is None:
                found = self._jobs[job] = AgentRun(
                    self.settlement, job, settle=self.settles, order=self._order, park=self._park,
                    may_touch=self._may_touch, let_through=(ApprovalRequired, CallDeferred),
                )  # fmt: skip
            number = self._works[job, agent] = self._works[job, agent] + 1
            self._users[job] += 1
        work = found.work(agent if number == 1 else f"{agent}~{number}")
        work.begin()
        return work

    def leave(self, job: str, agent: str, error: BaseException | None, *, is_over: bool) -> Program:
        """Say that an agent's run in a job has come to its end; the last one ends the job.

        `is_over` is false of a run that waits for somebody, and will be gone on with.

        Raises:
            Refused, InDoubt, PartialCommit: what was to settle with it did not settle as a whole.
        """
        with self._lock:
            self._works[job, agent] -= 1
            self._users[job] -= 1
            if not self._works[job, agent]:
                del self._works[job, agent]
            if self._users[job] or self._held:
                return
            del self._users[job]
            found = self._jobs.pop(job)
        if is_over:
            yield from found.end(error)

    def hold(self) -> None:
        """Keep jobs open when no agent works in them."""
        self._held = True

    def end(self, error: BaseException | None) -> Program:
        """End all jobs."""
        self._held = False
        with self._lock:
            found = [self._jobs.pop(job) for job in list(self._jobs) if not self._users[job]]
        for job in found:
            yield from job.end(error)


def _is_fresh(run_id: str | None) -> bool:
    """Whether the framework has drawn a run's id by chance; a durable workflow's is the same when it is recovered.

    >>> _is_fresh("trip-42:1")
    False
    """
    try:
        return run_id is None or uuid.UUID(run_id).version is not None
    except ValueError:
        return False


__all__ = ["Jobs", "Run", "Settle"]
