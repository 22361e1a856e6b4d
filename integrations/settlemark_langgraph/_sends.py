"""A turn whose calls LangGraph sends to a task each (`Send`, `create_agent`): one transaction, in issuance order.

The tasks of a superstep share it: the first that arrives opens it and seats the calls of all, in LangGraph's order of
tasks, which is the order in which the model issued them. A task that ends without having come (a middleware answered
in its place), or that was over in an earlier process, is taken for answered: nobody waits for it.
"""

# Whatever a graph sends comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import ToolCall

from settlemark import UsageError
from settlemark.agents import Roll
from settlemark.hosting import Once, Program
from settlemark_langgraph._identity import Identity
from settlemark_langgraph._opening import Arrival, Opener
from settlemark_langgraph._seated import SeatedCall
from settlemark_langgraph._superstep import Superstep, Task
from settlemark_langgraph._visit import Visit


class SharedTurn:
    """A turn whose calls are tasks of their own: opened by the first that arrives, settled by the last."""

    def __init__(
        self, opener: Opener, name: str, superstep: Superstep, settle_unattended: Callable[[Program[None]], None]
    ) -> None:
        self._opener = opener
        self._name = name
        self._settle_unattended = settle_unattended
        self._superstep = superstep
        self._tasks = [(task, calls_in(task.given)) for task in superstep.tasks(superstep.own.node)]
        self._seats: dict[str, list[SeatedCall]] = {}
        self._unseen = [task for task, _ in self._tasks]  # nobody has seen them come yet, nor waits for their end
        self._looking = 0
        self._roll = Roll(task.id for task, _ in self._tasks)
        self._once: Once[list[SeatedCall]] = Once(name)
        self._lock = threading.Lock()
        self.loop = superstep.loop

    @property
    def is_past(self) -> bool:
        """Whether it is settled, or could not be opened: whoever comes now enters its name anew."""
        seats: list[SeatedCall] | None = self._once.value
        settled = seats is not None and all(seated.invocation.turn.settled for seated in seats)
        return settled or self._once.failed is not None

    @property
    def abandoned(self) -> bool:
        """Whether it was cut short, and undone for that."""
        seats: list[SeatedCall] | None = self._once.value
        return seats is not None and any(seated.invocation.turn.abandoned for seated in seats)

    def is_past_for(self, superstep: Superstep) -> bool:
        """Whether a task enters its name anew: of a turn that was abandoned only the one that was cut short may.

        Whatever runs that again does so knowingly; the other tasks just come late, when nobody wants their calls.
        """
        if not (self.abandoned and self.loop == superstep.loop):
            return self.is_past
        return self.is_past and any(seated.cut for seated in self._seats.get(superstep.own.id, ()))

    def _open(self, arrival: Arrival, identity: Identity) -> Program[list[SeatedCall]]:
        calls = [call for _, found in self._tasks for call in found]
        place = self._superstep.index_of(self._tasks[0][0])
        seats: list[SeatedCall] = yield from self._opener.open(calls, arrival, identity, self._name, place=place)
        for seated in seats:
            seated.invocation.shared = True
            seated.invocation.may_wait = arrival.room >= self._superstep.size
            seated.invocation.turn.look_with(self._look)
        rest = iter(seats)
        self._seats = {task.id: [next(rest) for _ in found] for task, found in self._tasks}
        return seats

    def arrive(
        self, calls: Sequence[ToolCall], superstep: Superstep, arrival: Arrival, identity: Identity
    ) -> Program[Visit | None]:
        """Return what one task has of it, or None when the turn is past, and is to be entered anew.

        Raises:
            Refused: it was abandoned, and this task was answered.
            BaseException: it could not be opened, by whoever came first.
        """
        everyone: list[SeatedCall] = yield from self._once.get(lambda: self._open(arrival, identity))
        own = superstep.own
        seats = self._seats.get(own.id, [])
        if not self._roll.arrive(own.id) or len(seats) != len(calls):
            return (yield from self._again(seats or everyone, arrival, identity))
        for seated, call in zip(seats, calls, strict=True):
            seated.call = call
        self._look()
        return Visit(seats)

    def _again(self, seats: list[SeatedCall], arrival: Arrival, identity: Identity) -> Program[Visit | None]:
        """Do as `arrive` for what comes again: something calls it that does not know of the others, as a retry does.

        The turn is over first; with `settle="call"` there is nothing to wait for.
        """
        if self._opener.settles_each and all(seated.invocation.turn.settled for seated in seats):
            return Visit((yield from self._opener.again(seats, arrival, identity)))
        if not all(seated.invocation.may_wait for seated in seats):
            names = ", ".join(seated.call["name"] for seated in seats)
            raise UsageError(
                f"{names} was called again before the other calls of its turn are over, and too few tasks run at once"
                " to wait for them: nothing was run; put what retries behind SettlementMiddleware, or raise"
                " max_concurrency"
            )
        for seated in seats:
            yield from seated.invocation.turn.finish(seated.place)
            seated.invocation.turn.refuse_late(seated.place)
        return None

    def finish(self) -> Program[None]:
        """Wait until it is settled, all its tasks being over."""
        seats: list[SeatedCall] | None = self._once.value
        for seated in seats or ():
            yield from seated.invocation.turn.finish(seated.place)

    def _look(self) -> float | None:
        """Find tasks that are over without having come; return the seconds after which to look again, or None."""
        if self._once.value is None:
            return None
        with self._lock:
            if not (self._unseen or self._looking):
                return None
            missing = self._roll.missing
            unseen, self._unseen = [task for task in self._unseen if task.id in missing], []
            self._looking += 1
        try:
            unseen = self._superstep.watch(unseen, self._take_for_answered)
        finally:
            with self._lock:
                self._looking -= 1
                self._unseen += unseen
        # What another thread looks at just now may turn out to be unknown still.
        return self._superstep.pause if self._unseen or self._looking else None

    def _take_for_answered(self, task: Task, dropped: bool) -> None:
        if not self._roll.give_up(task.id):
            return
        for seated in self._seats[task.id]:
            turn = seated.invocation.turn
            if dropped and turn.undoes:
                # Its tool would have run: without it the turn is half of what the model asked for.
                self._settle_unattended(turn.abandon(asyncio.CancelledError()))
                continue
            turn.absent(seated.place)
            if turn.unattended:
                self._settle_unattended(turn.finish(seated.place))


def calls_in(given: Any) -> list[ToolCall]:
    """Return the calls that a task was sent: a list of them, or one with its context.

    >>> calls_in([{"type": "tool_call", "name": "book", "args": {}, "id": "1"}])[0]["name"]
    'book'
    """
    if isinstance(given, dict) and given.get("__type") == "tool_call_with_context":
        return [given["tool_call"]]
    items: list[Any] = given if isinstance(given, list) else []
    return [item for item in items if _is_call(item)]


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "tool_call"


__all__ = ["SharedTurn", "calls_in"]
