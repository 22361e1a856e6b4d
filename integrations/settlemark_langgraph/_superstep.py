"""What LangGraph knows of the superstep a task runs in: its other tasks, which of them are over, and when the run ends.

A task is told nothing of the others. But the function it is given to schedule further tasks with belongs to the
loop that runs the superstep; this module takes what it needs from there, and nothing else does. Where a release
of LangGraph keeps it elsewhere, a superstep is unknown, and every task is taken to be alone.
"""

# What is LangGraph's own inside has no types: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

from langgraph.types import Command

from settlemark._acting import Program
from settlemark._requests import Wait
from settlemark._runners import run_async, run_sync
from settlemark._txn import Ticket, fire

_SCHEDULE = "__pregel_call"
_LOOK_AGAIN = 0.02
_NO_DEADLINE = 1e6  # a checkpointer has deadlines of its own
_LOOKS = 50
"""A task that is not seen when those behind it might be scheduled yet is looked for so often, then taken to be over."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a superstep.

    Attributes:
        id: LangGraph's, the same after a retry or a resume.
        node: the node it runs.
        path: where it stands among the others, as LangGraph sorts them.
        given: what the node is called with.
    """

    id: str
    node: str
    path: tuple[Any, ...]
    given: Any


class Superstep:
    """The superstep of one task, seen from within that task.

    >>> Superstep.of({}) is None
    True
    """

    def __init__(self, loop: Any, futures: Any, own: Any) -> None:
        self._loop = loop
        self._futures = futures
        self._own = own
        self._watched: dict[str, Any] = {}
        self._looked = 0

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self | None:
        """Return the superstep that a node's config belongs to, or None where it cannot be known."""
        schedule = config.get("configurable", {}).get(_SCHEDULE)
        own, found = getattr(schedule, "args", ()), getattr(schedule, "keywords", None) or {}
        loop = getattr(found.get("schedule_task"), "__self__", None)
        futures, task = found.get("futures"), own[0]() if own and isinstance(own[0], weakref.ref) else None
        known = isinstance(getattr(loop, "tasks", None), dict) and isinstance(futures, weakref.ref)
        return cls(loop, futures, task) if known and task is not None else None

    @property
    def own(self) -> Task:
        """The task it is seen from."""
        return _task(self._own)

    @property
    def index(self) -> int:
        """Where the task it is seen from stands among the others; the same after a resume."""
        return self.index_of(self.own)

    def index_of(self, task: Task) -> int:
        """Where a task stands among the others."""
        return [other.id for other in self._all()].index(task.id)

    @property
    def loop(self) -> int:
        """Tells the run of a graph from others that go on at the same time."""
        return id(self._loop)

    def tasks(self, node: str) -> list[Task]:
        """Return a node's tasks in this superstep, in order; also those that were over before it began here."""
        return [_task(task) for task in self._all() if task.name == node]

    def over(self, task: Task, then: Callable[[], None]) -> bool | None:
        """Return whether a task is over; `then` is called when it is. None: it is not known yet, ask again.

        `then` is called in whatever thread the task ended in, and perhaps more than once.
        """
        future = self._watched.get(task.id) or self._future(task.id)
        if future is None:
            found = self._loop.tasks.get(task.id)
            if found is None or found.writes or self._was_scheduled_before_own(task):
                return True
            self._looked += 1
            return True if self._looked > _LOOKS else None
        if task.id not in self._watched:
            self._watched[task.id] = future
            future.add_done_callback(partial(_ignoring, then))
        return bool(future.done())

    @property
    def pause(self) -> float:
        """Seconds after which what is not known yet is worth another look."""
        return _LOOK_AGAIN

    def at_end(self, then: Callable[[BaseException | None], Program]) -> bool:
        """Have a program run when this graph's run is over, given what ended it; return whether that is possible.

        At a good end it runs before the last checkpoint is waited for; after an error when all tasks are over.
        """
        stack: Any = getattr(self._loop, "stack", None)
        if not isinstance(stack, ExitStack | AsyncExitStack):
            return False
        endings = _endings.get(self._loop)
        if endings is None:
            endings = _endings[self._loop] = []
            _Ending(endings).enter(stack)
        endings.append(then)
        return True

    def until_stored(self) -> Program:
        """Wait until the checkpoints that it runs on are stored: by their ids a resume will know its tasks again.

        With `durability="exit"` nothing is stored before the end, and nothing is waited for.

        Raises:
            Exception: what the checkpointer raised.
        """
        loop = self._loop
        while loop is not None:
            saving: Any = getattr(loop, "_put_checkpoint_fut", None)
            if isinstance(saving, asyncio.Future) and not saving.done():
                saved = Ticket()
                saving.get_loop().call_soon_threadsafe(saving.add_done_callback, partial(_fire, saved))
                while not saving.done():
                    yield Wait(saved, _NO_DEADLINE, "its checkpoint", "its checkpoint")
            if saving is not None:
                saving.result()  # a thread blocks here, as LangGraph's own does with `durability="sync"`
            outer = _loop_of(getattr(loop, "config", {}))
            loop = None if outer is loop else outer

    def _all(self) -> list[Any]:
        return list(cast("dict[str, Any]", self._loop.tasks).values())

    def _future(self, task_id: str) -> Any:
        futures = self._futures()
        for future, task in list((futures or {}).items()):
            if task is not None and task.id == task_id:
                return future
        return None

    def _was_scheduled_before_own(self, task: Task) -> bool:
        # They are scheduled one after the other; this one runs, so those before it have been.
        order = [other.id for other in self._all()]
        return order.index(task.id) <= order.index(self._own.id)


def begun_with_an_answer(config: Mapping[str, Any]) -> bool:
    """Whether the run of the graph that a node's config belongs to was begun with an answer, to whatever question.

    True where that cannot be known, and for answers that name their question, which go to no other anyway.

    >>> begun_with_an_answer({})
    True
    """
    loop = _loop_of(config)
    while loop is not None:
        outer = _loop_of(getattr(loop, "config", {}))
        if outer is None or outer is loop:
            break
        loop = outer
    given = getattr(loop, "input", None)
    return loop is None or (isinstance(given, Command) and given.resume is not None)


def _loop_of(config: Mapping[str, Any]) -> Any:
    found = Superstep.of(config)
    return None if found is None else found._loop  # noqa: SLF001 - this module alone


def _fire(ticket: Ticket, _future: object) -> None:
    fire([ticket])


_endings: weakref.WeakKeyDictionary[Any, list[Callable[[BaseException | None], Program]]] = weakref.WeakKeyDictionary()


class _Ending:
    """What is to be done at the end of a run, once around what LangGraph does there, and once before it."""

    def __init__(self, programs: list[Callable[[BaseException | None], Program]]) -> None:
        self._programs = programs
        self._error: BaseException | None = None

    def enter(self, stack: ExitStack | AsyncExitStack) -> None:
        """Put it on top of a loop's stack, and below all that is there."""
        inner = stack.pop_all()
        if isinstance(stack, AsyncExitStack):
            stack.push_async_exit(self._abelow)
            stack.push_async_exit(cast("AsyncExitStack", inner))
            stack.push_async_exit(self._aabove)
        else:
            stack.push(self._below)
            stack.push(cast("ExitStack", inner))
            stack.push(self._above)

    def _above(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._error = error
        if error is None:
            self._run()

    def _below(self, *_: object) -> None:
        if self._error is not None:
            self._run()

    def _run(self) -> None:
        for then in self._programs:
            run_sync(then(self._error))

    async def _aabove(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._error = error
        if error is None:
            await self._arun()

    async def _abelow(self, *_: object) -> None:
        if self._error is not None:
            await self._arun()

    async def _arun(self) -> None:
        for then in self._programs:
            await run_async(then(self._error))


def _ignoring(then: Callable[[], None], _future: object) -> None:
    then()


def _task(task: Any) -> Task:
    return Task(task.id, task.name, tuple(task.path), task.input)


__all__ = ["Superstep", "Task", "begun_with_an_answer"]
