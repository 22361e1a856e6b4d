"""A history of agents that nobody has instrumented: two lines around what each of them does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import msgspec

from settlemark._edges.errors import StateError
from settlemark.history._files import HistoryFile
from settlemark.history._record import OpRecord
from settlemark.history._so_far import SoFar, so_far
from settlemark.history._values import plain

Effects = Iterable[tuple[str, Any]]
T = TypeVar("T")


class Recorder:
    """Records operations of any agent loop: `begin` when it has read what it plans on, `commit` when it has acted.

    Args:
        path: the file to append to; without one the records are kept in `records`. A history that is there is gone on
            with, at its clock.

    Values are recorded as JSON, as they are when they are given: what is none by its fields or its text.

    Raises:
        UsageError: another one writes the file, or it is no history; nothing was changed.
        OSError: it cannot be opened.

    Safe for threads. The clock ticks once a commit, read-only ones too. Who had written the cell that an operation read
    is noted as its direct predecessor. What is known of a cell before the first write is `seed`ed, so that reading it
    is no residue.

    >>> recorder = Recorder()
    >>> plan = recorder.begin("ada", reads={"date": None})
    >>> recorder.begin("bob").commit(writes={"date": "21 June"}).write_time
    1
    >>> plan.commit(writes={"flight": "14 June"}).read_time
    0
    >>> from settlemark.history import analyze
    >>> analyze(recorder.records)["A1"].count
    1
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.records: list[OpRecord] = []
        self._file = None if path is None else HistoryFile(path)
        try:
            before = SoFar() if path is None else so_far(path)
        except BaseException:
            self.close()
            raise
        self._clock = before.clock
        self._writers = {cell: wrote.id for cell, wrote in before.last.items()}
        self._times = {cell: wrote.time for cell, wrote in before.last.items()}
        self._lock = threading.Lock()
        self._shared: dict[str, Any] = {}

    @property
    def clock(self) -> int:
        """When the last operation has committed: the time at which one that begins now begins."""
        return self._clock

    def written_at(self, cell: str) -> int:
        """Return the time at which a cell was written last; 0 when it never was."""
        return self._times.get(cell, 0)

    def seed(self, cells: Mapping[str, Any], *, agent: str = "setup") -> OpRecord | None:
        """Record what was there before as one write; None when there was nothing."""
        acting = _ACTING.set(None)  # what was there before is nobody's act
        try:
            return self.begin(agent).commit(writes=cells) if cells else None
        finally:
            _ACTING.reset(acting)

    def begin(
        self,
        agent: str,
        reads: Mapping[str, Any] | None = None,
        *,
        tool: str | None = None,
        registry: Mapping[str, str] | None = None,
        barrier: int | None = None,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that begins now, on what it has read.

        Args:
            agent: who.
            reads: cells and their values; None for a cell that nobody has written.
            tool: which tool it has chosen, if it has.
            registry: the tools there are now, with their signatures.
            barrier: the superstep it runs in, where there are such.
            name: what it is part of, for people.
        """
        with self._lock:
            preds = [self._writers[cell] for cell in reads or {} if cell in self._writers]
            began = self._clock
        return Operation(
            agent=agent,
            reads=_plain(reads),
            tool=tool,
            registry=dict(registry or {}),
            barrier=barrier,
            name=name,
            preds=list(dict.fromkeys(preds)),
            began=began,
            _recorder=self,
        )

    def shared(self, make: Callable[[Recorder], T], what: str = "cells") -> T:
        """Return what all who record here share, of their cells or of something else; made when first asked for."""
        with self._lock:
            if what not in self._shared:
                self._shared[what] = make(self)
            return cast("T", self._shared[what])

    @contextmanager
    def acting(self, plan: Operation, registry: Mapping[str, str]) -> Generator[None]:
        """Record what a plan has come to: for recorders that tell of writes without knowing which tool they are of.

        The first write that is recorded within, in this thread or task, is the act of the plan's agent with its tool,
        and bears both registries. When nothing is written the plan stands for itself: it is recorded if its tool is
        gone or another one, for that is what it has met, and else dropped.

        Args:
            plan: began when its tool was chosen, with the tools there were then.
            registry: the tools there are now.

        >>> recorder = Recorder()
        >>> plan = recorder.begin("ada", tool="book", registry={"book": "1"})
        >>> with recorder.acting(plan, {"book": "2"}):
        ...     record = recorder.begin("ada").commit(writes={"room": "Ada"})
        >>> record.planned_tool, record.read_registry, record.write_registry
        ('book', {'book': '1'}, {'book': '2'})
        """
        acting = _Acting(plan, dict(registry))
        before = _ACTING.set(acting)
        try:
            yield
        finally:
            _ACTING.reset(before)
            tool = plan.tool or ""
            if not acting.wrote and tool in plan.registry and plan.registry[tool] != registry.get(tool):
                plan.commit(registry=registry)
            else:
                plan.drop()

    def retract(self, record: OpRecord) -> None:
        """Note that an operation was taken back after it had committed."""
        with self._lock:
            self.records = [
                msgspec.structs.replace(known, aborted=True) if known.id == record.id else known
                for known in self.records
            ]
            if self._file is not None:
                self._file.retract(record.id)

    def close(self) -> None:
        """Close the file, if there is one. A second call does nothing."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _commit(self, begun: Operation, parts: dict[str, Any]) -> OpRecord:
        acting = _ACTING.get()
        acts = acting is not None and acting.is_of(self) and parts["write_values"] and begun.tool is None
        if acting is not None and acts:
            parts["write_registry"] = acting.registry
        by = acting.plan if acting is not None and acts else begun
        with self._lock:
            begun.require_open()
            time = self._clock + 1
            record = OpRecord(
                id=str(time), agent=by.agent, read_time=begun.began, write_time=time, read_values=_plain(begun.reads),
                planned_tool=by.tool, read_registry=dict(by.registry), preds=begun.preds, direct=True,
                read_barrier=begun.barrier, name=begun.name, **parts,
            )  # fmt: skip
            if self._file is not None:
                self._file.write(record)
            else:
                self.records.append(record)
            begun.end()
            if acting is not None and acts:
                acting.wrote = True
            self._clock = time
            for cell in record.write_values:
                self._writers[cell] = record.id
                self._times[cell] = time
            return record


@dataclass
class Operation:
    """One operation between its reads and its commit. Get one from `Recorder.begin`, whose arguments it has."""

    agent: str
    reads: dict[str, Any]
    tool: str | None
    registry: dict[str, str]
    barrier: int | None
    name: str | None
    preds: list[str]
    began: int
    _recorder: Recorder = field(repr=False)
    _ended: bool = field(default=False, repr=False)

    def commit(
        self,
        writes: Mapping[str, Any] | None = None,
        *,
        registry: Mapping[str, str] | None = None,
        io: Effects = (),
        co: Effects | None = None,
        barrier: int | None = None,
        externalized: bool = False,
    ) -> OpRecord:
        """Record that it has committed, and return the record.

        Args:
            writes: cells and their new values.
            registry: the tools there are now; those from its beginning when nothing is said.
            io: its effects in the order they were issued.
            co: and in the order they left; the same when nothing is said.
            barrier: the superstep at whose end it is visible.
            externalized: effects of it have left.

        Raises:
            StateError: it has ended.
            UnicodeEncodeError: a text cannot be written to the file; nothing was recorded, and it can be committed
                again. So it is with any other error.
            OSError: the file cannot be written.
        """
        self.require_open()
        issued = _plain_effects(io)
        parts = {
            "write_values": _plain(writes),
            "io": issued,
            "co": issued if co is None else _plain_effects(co),
            "write_registry": self.registry if registry is None else dict(registry),
            "write_barrier": barrier,
            "externalized": externalized,
        }
        return self._recorder._commit(self, parts)  # noqa: SLF001 - two halves of one thing

    def drop(self) -> None:
        """End it without a record: it was refused, or has failed."""
        self.require_open()
        self.end()

    def require_open(self) -> None:
        """Refuse what comes behind the end."""
        if self._ended:
            raise StateError(
                f"this operation of {self.agent} has ended: begin another", transaction=self.name, state=None
            )

    def end(self) -> None:
        """Note that nothing comes any more: the recorder does when it has the record."""
        self._ended = True


def _plain(values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {str(cell): plain(value) for cell, value in (values or {}).items()}


def _plain_effects(effects: Effects) -> list[tuple[str, Any]]:
    return [(str(cell), plain(value)) for cell, value in effects]


@dataclass(eq=False)
class _Acting:
    """What is being recorded as the act of a plan."""

    plan: Operation
    registry: dict[str, str]
    wrote: bool = False

    def is_of(self, recorder: Recorder) -> bool:
        return self.plan._recorder is recorder and not self.wrote  # noqa: SLF001 - three parts of one thing


_ACTING: ContextVar[_Acting | None] = ContextVar("settlemark_recorded_act", default=None)

__all__ = ["Operation", "Recorder"]
