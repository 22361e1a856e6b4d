"""What LangGraph knows of a task's superstep: its other tasks, which of them are done, and when the run ends.

LangGraph tells a task nothing of the others. But the task's config has a function that schedules further tasks, and
that function belongs to the loop that runs the superstep. This module alone reads the loop. Where a release of
LangGraph keeps its loop elsewhere, the superstep is unknown: see `settlemark_langgraph._private`.
"""

# LangGraph's private attributes have no types: to pyright they are `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import time
import uuid
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self, cast

from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Command

from settlemark.hosting import Act, Program, Ticket, Wait, fire, in_event_loop
from settlemark_langgraph._private import CALL, ERROR, INTERRUPT, RESUME
from settlemark_langgraph._supersteps.ending import Ending

End = Literal["over", "asks", "dropped"] | Exception
"""How a task came to its end: with an answer, with a question, LangGraph cancelled it, or with an error of its own."""

_ENDING = "_settlemark_ending"
_TOKEN = "_settlemark_token"  # noqa: S105 - the name of an attribute
_LOOK_AGAIN = 0.02
_NO_DEADLINE = 1e6  # the checkpointer has its own
_PATIENCE = 1.0
"""Seconds after the last task was scheduled, after which an unscheduled task counts as done."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a superstep.

    Attributes:
        id: LangGraph's id, the same after a retry or a resume.
        node: the name of the node.
        path: LangGraph's sort key among the tasks of the superstep.
        given: the node's input.
    """

    id: str
    node: str
    path: tuple[Any, ...]
    given: Any


class Superstep:
    """The superstep of one task, as read from that task's config.

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
        """Return the superstep that a node's config belongs to; None if this release of LangGraph does not show it."""
        schedule = config.get("configurable", {}).get(CALL)
        own, found = getattr(schedule, "args", ()), getattr(schedule, "keywords", None) or {}
        loop = getattr(found.get("schedule_task"), "__self__", None)
        futures, task = found.get("futures"), own[0]() if own and isinstance(own[0], weakref.ref) else None
        known = isinstance(getattr(loop, "tasks", None), dict) and isinstance(futures, weakref.ref)
        return cls(loop, futures, task) if known and task is not None else None

    @property
    def invocation(self) -> object:
        """What the supersteps of one invocation of a graph have in common, and no other has."""
        return self._loop

    @property
    def own(self) -> Task:
        """The task whose config this superstep was read from."""
        return _task(self._own)

    @property
    def index(self) -> int:
        """The number of the own task among the superstep's tasks; the same after a resume."""
        return self.index_of(self.own)

    @property
    def size(self) -> int:
        """The number of tasks, of all nodes."""
        return len(self._loop.tasks)

    def index_of(self, task: Task) -> int:
        """Return the number of a task among the superstep's tasks."""
        return [other.id for other in self._all()].index(task.id)

    @property
    def loop(self) -> int:
        """Identifies the run of the graph among concurrent runs."""
        return id(self._loop)

    def enclosing(self) -> list[Superstep]:
        """Return the supersteps of the enclosing graphs, outermost first, and this one as the last."""
        found: list[Superstep] = [self]
        while True:
            inner = found[0]
            outer = Superstep.of(inner._graph_config)  # noqa: SLF001 - of the same class
            if outer is None or outer.loop == inner.loop:
                return found
            found.insert(0, outer)

    @property
    def _graph_config(self) -> Mapping[str, Any]:
        return getattr(self._loop, "config", None) or {}

    @property
    def step(self) -> int:
        """The superstep's number in its thread; the same after a resume."""
        return int(self._loop.step)

    @property
    def checkpoint(self) -> str:
        """The id of the checkpoint that the superstep began from."""
        return str(self._loop.checkpoint["id"])

    @property
    def place(self) -> tuple[int, int, int]:
        """The superstep's place among all supersteps of its thread; the same after a resume.

        The numbers are: which subgraph of the enclosing task, the step, the own task.
        """
        namespace: tuple[str, ...] = getattr(self._loop, "checkpoint_ns", None) or ("",)
        return (int(namespace[-1]) if namespace[-1].isdecimal() else 0, self.step, self.index)

    @property
    def is_resumable(self) -> bool:
        """Whether a later run of the graph can resume where this run ends."""
        found = self._loop.config.get("configurable", {})
        return self._loop.checkpointer is not None and found.get("thread_id") is not None

    @property
    def is_resumed(self) -> bool:
        """Whether this run of the graph resumes an earlier one."""
        given = getattr(self._loop, "input", None)
        return self.is_resumable and (given is None or isinstance(given, Command))

    def lineage(self) -> Program[list[tuple[str, bool]]]:
        """Return the stored ancestors of the superstep's checkpoint, newest first, back to the last input.

        Each is an id, and whether a superstep wrote that checkpoint. Where the input has no checkpoint, as with
        `durability="exit"`, the last id is empty.
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

    @property
    def token(self) -> str:
        """Names the run of the graph among those of all processes."""
        return str(vars(self._loop).setdefault(_TOKEN, uuid.uuid4().hex))

    def is_behind(self, checkpoint: str) -> Program[bool]:
        """Return whether the superstep that ran on a checkpoint was completed on the way to this one's checkpoint."""
        return is_behind(self._loop.checkpointer, self._loop.checkpoint_config, checkpoint)

    def replaced_steps(self, steps: Collection[int]) -> Program[set[int]]:
        """Return which of these steps were replaced: at their number the thread has an input, an edit, or a fork.

        The thread's state does not contain what ran in a replaced step.
        """
        return replaced_steps(self._loop.checkpointer, self._loop.checkpoint_config, steps)

    def has_stored(self, checkpoint: str) -> Program[bool]:
        """Return whether the thread has a checkpoint of this id."""
        saver, config = self._loop.checkpointer, self._loop.checkpoint_config
        own = {**config, "configurable": {**config["configurable"], "checkpoint_id": checkpoint}}
        get = saver.aget_tuple if in_event_loop() else saver.get_tuple
        return (yield Act(get, {"config": own}, None)) is not None

    def tasks(self, node: str | None = None) -> list[Task]:
        """Return the superstep's tasks, or those of one node, in order; also tasks that an earlier run completed."""
        return [_task(task) for task in self._all() if node in (None, task.name)]

    def watch(self, tasks: Sequence[Task], then: Callable[[Task, End], None]) -> list[Task]:
        """Call `then` when each task is done, and say how; return the tasks that LangGraph has not scheduled yet.

        `then` runs in the thread in which the task ended, or in this one, and may run more than once. Watch the
        returned tasks again: `then` is not called for them.
        """
        numbers = {task_id: number for number, task_id in enumerate(list(self._loop.tasks))}
        futures = {task.id: future for future, task in list((self._futures() or {}).items()) if task is not None}
        # LangGraph schedules tasks in order: those before a scheduled one were scheduled, too: running, or done.
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
            if future is None:
                then(task, "over" if found is None else self._end_of(found))
            elif future.done():
                then(task, _end(future))
        return unknown

    def _end_of(self, task: Any) -> End:
        """Return how a task that is done came to its end: LangGraph keeps what a task that is through has written."""
        error = next((value for channel, value in task.writes if channel == ERROR), None)
        if isinstance(error, Exception):
            return error
        if any(write[0] != RESUME for write in task.writes):
            return "over"
        pending: Any = getattr(self._loop, "checkpoint_pending_writes", ())
        asked = any(task_id == task.id and channel == INTERRUPT and value for task_id, channel, value in pending)
        return "asks" if asked else "over"

    @property
    def _is_patient(self) -> bool:
        return time.monotonic() < self._reached_at + _PATIENCE

    @property
    def pause(self) -> float:
        """Seconds after which to watch the unscheduled tasks again."""
        return _LOOK_AGAIN

    def at_end(self, then: Callable[[BaseException | None], Program[None]]) -> bool:
        """Have a program run at the end of this graph's run, given the error that ended it; return whether it will.

        After a success the program runs before LangGraph waits for the last checkpoint, else after all tasks.
        """
        ending = self.ending()
        if ending is not None:
            ending.programs.append(then)
        return ending is not None

    def ending(self) -> Ending | None:
        """Return what runs at the end of this graph's run; None where LangGraph does not tell of it."""
        # Kept on the loop, not in a table: what it ends refers to the loop, so a table would keep it alive.
        found = cast("Ending | None", vars(self._loop).get(_ENDING))
        if found is None:
            stack: Any = getattr(self._loop, "stack", None)
            if not isinstance(stack, ExitStack | AsyncExitStack):
                return None
            outer = [superstep.ending() for superstep in self.enclosing() if superstep.loop != self.loop]
            found = Ending(self._loop, [ending for ending in outer if ending is not None])
            setattr(self._loop, _ENDING, found)
            found.enter(stack)
        found.futures = self._futures
        return found

    def until_stored(self) -> Program[None]:
        """Wait until the checkpoints of this superstep and the enclosing ones are stored.

        A resume recognizes tasks by the ids of these checkpoints. With `durability="exit"` LangGraph stores none before
        the end, and the program does not wait.

        Raises:
            Exception: the checkpointer failed.
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
                saving.result()  # blocks a thread, as LangGraph itself does with `durability="sync"`
            outer = _loop_of(getattr(loop, "config", {}))
            loop = None if outer is loop else outer

    def _all(self) -> list[Any]:
        return list(cast("dict[str, Any]", self._loop.tasks).values())


def replaced_steps(saver: Any, config: Any, steps: Collection[int]) -> Program[set[int]]:
    """Return which of these steps were replaced on the way to the checkpoint of `config`."""
    found: set[int] = set()
    while config is not None and steps:
        stored: Any = yield Act(saver.aget_tuple if in_event_loop() else saver.get_tuple, {"config": config}, None)
        if stored is None or (step := stored.metadata.get("step", -1)) < min(steps):
            break
        if stored.metadata.get("source") != "loop":
            found.add(step)
        config = stored.parent_config
    return found.intersection(steps)


def is_behind(saver: Any, config: Any, checkpoint: str) -> Program[bool]:
    """Return whether the superstep that ran on a checkpoint was completed on the way to the checkpoint of `config`."""
    child: Any = None
    while saver is not None and config is not None:
        found: Any = yield Act(saver.aget_tuple if in_event_loop() else saver.get_tuple, {"config": config}, None)
        if found is None:
            return False
        if found.config["configurable"]["checkpoint_id"] == checkpoint:
            return child is not None and (yield from _was_completed(saver, found, child))
        child, config = found, found.parent_config
    return False


def _was_completed(saver: Any, stored: Any, child: Any) -> Program[bool]:
    """Return whether a superstep wrote what stands behind its checkpoint: an edit or an input may, in its place."""
    if child.metadata.get("source") != "fork":
        return bool(child.metadata.get("source") == "loop")
    # A fork is a copy of another child: which one tells whether a superstep wrote it.
    thread = {key: value for key, value in stored.config["configurable"].items() if key != "checkpoint_id"}
    listed = _alisted if in_event_loop() else _listed
    every: list[Any] = yield Act(listed, {"saver": saver, "config": {"configurable": thread}}, None)
    return any(
        one.metadata.get("source") == "loop"
        and one.checkpoint["channel_versions"] == child.checkpoint["channel_versions"]
        for one in every
        if one.parent_config is not None
        and one.parent_config["configurable"]["checkpoint_id"] == stored.config["configurable"]["checkpoint_id"]
    )


def _listed(saver: Any, config: Any) -> list[Any]:
    return list(saver.list(config))


async def _alisted(saver: Any, config: Any) -> list[Any]:
    return [each async for each in saver.alist(config)]


def begun_with_an_answer(config: Mapping[str, Any]) -> bool:
    """Whether the graph's run was begun with `Command(resume=…)`: an answer to some question.

    True where this release of LangGraph does not show the run. An answer that names its question counts, too: LangGraph
    gives that answer to no other question.

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
    return None if found is None else found._loop  # noqa: SLF001 - of this module


def _fire(ticket: Ticket, _future: object) -> None:
    fire([ticket])


def _calling(then: Callable[[Task, End], None], task: Task, future: Any) -> None:
    then(task, _end(future))


def _end(future: Any) -> End:
    if future.cancelled():
        return "dropped"
    error: BaseException | None = future.exception()
    if isinstance(error, GraphInterrupt):
        return "asks"
    return error if isinstance(error, Exception) and not isinstance(error, GraphBubbleUp) else "over"


def _task(task: Any) -> Task:
    return Task(task.id, task.name, tuple(task.path), task.input)


__all__ = ["End", "Superstep", "Task", "begun_with_an_answer", "replaced_steps"]
