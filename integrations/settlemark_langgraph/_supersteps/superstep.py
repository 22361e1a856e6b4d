"""What LangGraph knows of the superstep a task runs in: its other tasks, which of them are over, and when the run ends.

A task is told nothing of the others. But the function it is given to schedule further tasks with belongs to the
loop that runs the superstep; this module takes what it needs from there, and nothing else does. Where a release
of LangGraph keeps it elsewhere, a superstep is unknown, and every task is taken to be alone.
"""

# What is LangGraph's own inside has no types: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

from langgraph.types import Command

from settlemark.hosting import Act, Program, Ticket, Wait, fire, in_event_loop
from settlemark_langgraph._supersteps.ending import Ending

_SCHEDULE = "__pregel_call"
_ENDINGS = "_settlemark_endings"
_LOOK_AGAIN = 0.02
_NO_DEADLINE = 1e6  # a checkpointer has deadlines of its own
_PATIENCE = 1.0
"""So many seconds after the last one was scheduled, a task that is not seen is taken to be over."""


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
        self._reached = -1
        self._reached_at = 0.0

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

    @property
    def size(self) -> int:
        """How many tasks it has, of all its nodes."""
        return len(self._loop.tasks)

    def index_of(self, task: Task) -> int:
        """Where a task stands among the others."""
        return [other.id for other in self._all()].index(task.id)

    @property
    def loop(self) -> int:
        """Tells the run of a graph from others that go on at the same time."""
        return id(self._loop)

    def outward(self) -> list[Superstep]:
        """Return this superstep behind those in which the graphs around it run, the outermost first."""
        found: list[Superstep] = [self]
        while True:
            inner = found[0]
            outer = Superstep.of(inner._around)  # noqa: SLF001 - its own kind
            if outer is None or outer.loop == inner.loop:
                return found
            found.insert(0, outer)

    @property
    def _around(self) -> Mapping[str, Any]:
        return getattr(self._loop, "config", None) or {}

    @property
    def step(self) -> int:
        """Its number in its graph's thread; the same after a resume."""
        return int(self._loop.step)

    @property
    def checkpoint(self) -> str:
        """The id of the checkpoint that it runs on."""
        return str(self._loop.checkpoint["id"])

    @property
    def place(self) -> tuple[int, int, int]:
        """Tells where it is in its graph, and which of the graphs that one task runs this is; the same after a resume.

        The last number is that of the task it is seen from.
        """
        namespace: tuple[str, ...] = getattr(self._loop, "checkpoint_ns", None) or ("",)
        return (int(namespace[-1]) if namespace[-1].isdecimal() else 0, self.step, self.index)

    @property
    def is_resumable(self) -> bool:
        """Whether another run of its graph can go on where this one ends."""
        found = self._loop.config.get("configurable", {})
        return self._loop.checkpointer is not None and found.get("thread_id") is not None

    @property
    def is_resumed(self) -> bool:
        """Whether this run of its graph goes on where another has ended."""
        given = getattr(self._loop, "input", None)
        return self.is_resumable and (given is None or isinstance(given, Command))

    def lineage(self) -> Program[list[tuple[str, bool]]]:
        """Return the stored checkpoints from which its graph came here, back to what was last put in.

        Each is its id, and whether it came behind a superstep. Where what was put in is not stored, as with
        `durability="exit"`, the last is an empty one.
        """
        found: list[tuple[str, bool]] = []
        saver, config = self._loop.checkpointer, self._loop.checkpoint_config
        while config is not None:
            stored: Any = yield Act(saver.aget_tuple if in_event_loop() else saver.get_tuple, {"config": config}, None)
            if stored is None:
                break
            source = stored.metadata.get("source")
            found.append((stored.config["configurable"]["checkpoint_id"], source == "loop"))
            if source == "input":
                return found
            config = stored.parent_config
        return [*found, ("", False)]

    def taken_otherwise(self, steps: Collection[int]) -> Program[set[int]]:
        """Return those of these steps in whose place something else is stored: a new input, an edit, or a fork.

        What ran in such a step is not where its thread came from.
        """
        return taken_otherwise(self._loop.checkpointer, self._loop.checkpoint_config, steps)

    def has_stored(self, checkpoint: str) -> Program[bool]:
        """Return whether its graph's thread has a checkpoint of this id."""
        saver, config = self._loop.checkpointer, self._loop.checkpoint_config
        own = {**config, "configurable": {**config["configurable"], "checkpoint_id": checkpoint}}
        get = saver.aget_tuple if in_event_loop() else saver.get_tuple
        return (yield Act(get, {"config": own}, None)) is not None

    def tasks(self, node: str | None = None) -> list[Task]:
        """Return its tasks, or a node's, in order; also those that were over before it began here."""
        return [_task(task) for task in self._all() if node in (None, task.name)]

    def watch(self, tasks: Sequence[Task], then: Callable[[Task, bool], None]) -> list[Task]:
        """Call `then` with each task that is over, or will be; return the tasks that are not known yet.

        It is told whether LangGraph has dropped the task, as it does when nobody wants the run any more.
        It is called in whatever thread a task ended in, or in this one, and perhaps more than once. Of a task that is
        returned it will not be called: watch that again.
        """
        numbers = {task_id: number for number, task_id in enumerate(list(self._loop.tasks))}
        futures = {task.id: future for future, task in list((self._futures() or {}).items()) if task is not None}
        # They are scheduled one after the other: those before one that runs have been, and are over if they do not.
        reached = max(numbers.get(task_id, -1) for task_id in (self._own.id, *futures))
        if reached > self._reached:
            self._reached, self._reached_at = reached, time.monotonic()
        unknown: list[Task] = []
        for task in tasks:
            future, found = futures.get(task.id), self._loop.tasks.get(task.id)
            if future is not None:
                future.add_done_callback(partial(_calling, then, task))
            elif found is not None and not found.writes and numbers.get(task.id, -1) > reached and self._is_patient:
                unknown.append(task)
                continue
            if future is None or future.done():
                then(task, future is not None and future.cancelled())
        return unknown

    @property
    def _is_patient(self) -> bool:
        return time.monotonic() < self._reached_at + _PATIENCE

    @property
    def pause(self) -> float:
        """Seconds after which what is not known yet is worth another look."""
        return _LOOK_AGAIN

    def at_end(self, then: Callable[[BaseException | None], Program[None]]) -> bool:
        """Run a program when this graph's run is over, given what ended it; return whether that is possible.

        At a good end it runs before the last checkpoint is waited for; after an error when all tasks are over.
        """
        stack: Any = getattr(self._loop, "stack", None)
        if not isinstance(stack, ExitStack | AsyncExitStack):
            return False
        # With the loop, not in a table beside it: what is to be done refers to the loop, which would never go.
        endings = vars(self._loop).get(_ENDINGS)
        if endings is None:
            endings = []
            setattr(self._loop, _ENDINGS, endings)
            Ending(self._loop, endings).enter(stack)
        endings.append(then)
        return True

    def until_stored(self) -> Program[None]:
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


def taken_otherwise(saver: Any, config: Any, steps: Collection[int]) -> Program[set[int]]:
    """Do as `Superstep.taken_otherwise` for the thread that led to a checkpoint."""
    found: set[int] = set()
    while config is not None and steps:
        stored: Any = yield Act(saver.aget_tuple if in_event_loop() else saver.get_tuple, {"config": config}, None)
        if stored is None or (step := stored.metadata.get("step", -1)) < min(steps):
            break
        if stored.metadata.get("source") != "loop":
            found.add(step)
        config = stored.parent_config
    return found.intersection(steps)


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


def _calling(then: Callable[[Task, bool], None], task: Task, future: Any) -> None:
    then(task, future.cancelled())


def _task(task: Any) -> Task:
    return Task(task.id, task.name, tuple(task.path), task.input)


__all__ = ["Superstep", "Task", "begun_with_an_answer", "taken_otherwise"]
