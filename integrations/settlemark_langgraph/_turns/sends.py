"""A turn whose calls LangGraph sends to a task each (`Send`, `create_agent`): one transaction, in issuance order.

The tasks of a superstep share it: the first that arrives opens it and seats the calls of all, in LangGraph's order of
tasks, which is the order in which the model issued them. A task that ends without having come (a middleware answered
in its place), or that was over in an earlier process, is taken for answered: nobody waits for it.
"""

# Whatever a graph sends comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from langchain_core.messages import ToolCall
from langgraph.errors import GraphInterrupt

from settlemark import EffectClass, Refused, UsageError
from settlemark.agents import Gathering, Opened, Placed
from settlemark.hosting import Program
from settlemark_langgraph._identity import Identity
from settlemark_langgraph._messages.messages import calls_in
from settlemark_langgraph._supersteps.superstep import End, Superstep, Task
from settlemark_langgraph._turns.opening import Opener
from settlemark_langgraph._turns.seated import Arrival
from settlemark_langgraph._turns.visit import Visit

_READ = EffectClass.READ


class UndoneWithOthers(Refused):
    """A call comes again whose turn was undone: alone it would be half of what the model asked for."""

    remedy: ClassVar[str] = "Plan the turn again; put what retries a call behind `SettlementMiddleware`."


class SharedTurn:
    """A turn whose calls are tasks of their own: opened by the first that arrives, settled by the last."""

    def __init__(
        self, opener: Opener, name: str, superstep: Superstep, settle_unattended: Callable[[Program[None]], None]
    ) -> None:
        self._opener = opener
        self._name = name
        self._settle_unattended = settle_unattended
        self._superstep = superstep
        self._tasks = superstep.tasks(superstep.own.node)
        self._calls = [call for task in self._tasks for call in calls_in(task.given)]
        numbers = itertools.count()
        self._places = {task.id: [next(numbers) for _ in calls_in(task.given)] for task in self._tasks}
        self._gathering = Gathering(name, len(self._calls), self._look)
        self._visits: dict[str, Visit] = {}
        self._unseen = self._tasks  # nobody has seen them come yet, nor waits for their end
        self._looking = 0
        self._lock = threading.Lock()
        self.loop = superstep.loop

    @property
    def is_past(self) -> bool:
        """Whether it is settled, or could not be opened: a node that comes now enters its name anew."""
        return self._gathering.is_over

    @property
    def abandoned(self) -> bool:
        """Whether it was cut short, and undone for that."""
        return self._gathering.abandoned

    def is_past_for(self, superstep: Superstep) -> bool:
        """Whether a task enters its name anew: of a turn that was abandoned only the one that was cut short may.

        Whatever runs that again does so knowingly; the other tasks just come late, when nobody wants their calls.
        """
        if not (self.abandoned and self.loop == superstep.loop):
            return self.is_past
        visit = self._visits.get(superstep.own.id)
        return self.is_past and visit is not None and any(seated.cut for seated in visit.calls)

    def refuse_half(self, superstep: Superstep) -> None:
        """Return when a task may enter the turn's name anew: it has all calls of it that act, or nothing was undone.

        Raises:
            UndoneWithOthers: the turn was undone in this run, and others' calls with it: they do not come again.
        """
        opened = self._gathering.opened
        own = set(self._places.get(superstep.own.id, ()))
        if opened is None or self.abandoned or self.loop != superstep.loop:
            return
        for place in own & opened.calls.keys():
            turn, call = opened.calls[place]
            rest = [opened.calls[number] for number in opened.calls.keys() - own]
            others = sorted(other.tool for of, other in rest if of is turn and other.declaration.kind is not _READ)
            if others and turn.is_undone and not turn.lost_race:
                raise UndoneWithOthers(
                    f"{call.tool} was not tried again: its turn was undone ({turn.because}), {', '.join(others)} with"
                    " it, and alone it would be half of what was asked for; plan the turn again, or put what retries"
                    " behind SettlementMiddleware",
                    transaction=turn.name,
                )

    def _begin(self, arrival: Arrival, identity: Identity) -> Program[Opened]:
        place = self._superstep.index_of(self._tasks[0])
        tasks = [task.id for task in self._tasks for _ in self._places[task.id]]
        return self._opener.open(self._calls, arrival, identity, self._name, place=place, tasks=tasks)

    def arrive(
        self, calls: Sequence[ToolCall], superstep: Superstep, arrival: Arrival, identity: Identity
    ) -> Program[Visit | None]:
        """Return what one task has of it, or None when the turn is past, and is to be entered anew.

        Raises:
            Refused: it was abandoned, and this task was answered.
            BaseException: it could not be opened, by the node that came first.
        """
        opened = yield from self._gathering.open(lambda: self._begin(arrival, identity))
        own = self._places.get(superstep.own.id, [])
        may_wait = arrival.room >= self._superstep.size
        awaited = [self._gathering.roll.arrive(place) for place in own]
        placed = [opened.calls[place] for place in own]
        if len(own) != len(calls) or not all(awaited):
            turns = [turn for turn, _ in placed]
            if turns and self._opener.settles_each and all(turn.settled for turn in turns):
                again: Opened = yield from self._opener.again(calls, turns, arrival, identity)
                return Visit(calls, again.calls.values(), arrival)
            yield from self._over(placed or opened.calls.values(), may_wait=may_wait)
            return None
        self._visits[superstep.own.id] = visit = Visit(calls, placed, arrival, shared=True, may_wait=may_wait)
        self._look()
        return visit

    @staticmethod
    def _over(placed: Iterable[Placed], *, may_wait: bool) -> Program[None]:
        """Wait until the turn is over, for a task that comes again: what repeats it, as a retry, knows of no other.

        Raises:
            UsageError: it cannot wait. Refused: the turn was abandoned, and the task was answered.
        """
        if not may_wait:
            names = ", ".join(call.tool for _, call in placed)
            raise UsageError(
                f"{names} was called again before the other calls of its turn are over, and too few tasks run at once"
                " to wait for them: nothing was run; put what retries behind SettlementMiddleware, or raise"
                " max_concurrency"
            )
        for turn, call in placed:
            yield from turn.finish(call)
            turn.refuse_late(call)

    def finish(self) -> Program[None]:
        """Wait until it is settled, all its tasks being over."""
        return self._gathering.finish()

    def _look(self) -> float | None:
        """Find tasks that are over without having come; return the seconds after which to look again, or None."""
        if self._gathering.opened is None:
            return None
        with self._lock:
            if not (self._unseen or self._looking):
                return None
            missing = set(self._gathering.roll.missing)
            unseen, self._unseen = [t for t in self._unseen if missing.intersection(self._places[t.id])], []
            self._looking += 1
        try:
            unseen = self._superstep.watch(unseen, self._take_for_answered)
        finally:
            with self._lock:
                self._looking -= 1
                self._unseen = [*self._unseen, *unseen]
        # What another thread looks at just now may turn out to be unknown still.
        return self._superstep.pause if self._unseen or self._looking else None

    def _take_for_answered(self, task: Task, end: End) -> None:
        opened = self._gathering.opened
        assert opened is not None, "nobody looks before"
        for place in self._places[task.id]:
            turn, call = opened.calls[place]
            if end == "asks" and turn.undoes:
                # Somebody who runs before us asks a person about it: it comes when that is answered.
                if place in self._gathering.roll.missing:
                    self._settle_unattended(self._gathering.put_aside(place, GraphInterrupt()))
            elif isinstance(end, Exception) and turn.undoes:
                # It ends the run before its tool was called: its turn has failed, as when the tool had raised.
                if self._gathering.roll.arrive(place):
                    self._settle_unattended(turn.leave(call, error=end))
            elif end == "dropped" and turn.undoes:
                # Its tool would have run: without it the turn is half of what the model asked for.
                if place in self._gathering.roll.missing:
                    self._settle_unattended(turn.abandon(asyncio.CancelledError()))
            elif self._gathering.give_up(place) and turn.unattended:
                self._settle_unattended(turn.finish(call))


__all__ = ["SharedTurn", "UndoneWithOthers"]
