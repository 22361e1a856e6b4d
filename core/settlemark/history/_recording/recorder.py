"""Records a history by hand: two lines around each operation of an agent that nothing instruments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

import msgspec

from settlemark._edges.errors import StateError
from settlemark.history._recording.files import HistoryFile
from settlemark.history._recording.record import OpRecord
from settlemark.history._recording.so_far import SoFar, so_far
from settlemark.history._recording.values import plain

Effects = Iterable[tuple[str, Any]]
T = TypeVar("T")


class Recorder:
    """Records operations of any agent loop: `begin` when it has read what it plans on, `commit` when it has acted.

    Args:
        path: the file to append to; without one the records are kept in `records`. An existing history is continued, at
            its clock.

    Values are recorded as JSON, as they are when they are given; an object that is no JSON by its fields or its text.

    Raises:
        UsageError: another process writes the file, or it is no history; nothing was changed.
        OSError: the file cannot be opened.

    Safe for threads. The clock ticks once a commit, read-only ones too. The last writer of a cell that an operation
    read is its direct predecessor. `seed` the values from before the first write, so that reading them is no residue.

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
        self._groups = {cell: _Group(wrote.group, wrote.beneath) for cell, wrote in before.last.items() if wrote.group}
        self._lock = threading.Lock()
        self._shared: dict[str, Any] = {}

    @property
    def clock(self) -> int:
        """When the last operation committed: the read time of an operation that begins now."""
        return self._clock

    def written_at(self, cell: str) -> int:
        """Return the time at which a cell was written last; 0 when it never was."""
        return self._times.get(cell, 0)

    def seed(self, cells: Mapping[str, Any], *, agent: str = "setup") -> OpRecord | None:
        """Record earlier values as one write; None when there are none."""
        acting = _ACTING.set(None)  # earlier values are nobody's act
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
        """Return an operation that begins now, with what it has read.

        Args:
            agent: the agent.
            reads: cells and their values; None for a cell that nobody has written.
            tool: the tool it has chosen, if any.
            registry: the tools available now, with their signatures.
            barrier: the superstep it runs in, if any.
            name: what it is part of, for people.
        """
        with self._lock:
            seen = {cell: self._writers[cell] for cell in map(str, reads or {}) if cell in self._writers}
            groups = {cell: self._groups[cell] for cell in seen if cell in self._groups}
            began = self._clock
        return Operation(
            agent=agent,
            reads=_plain(reads),
            tool=tool,
            registry=dict(registry or {}),
            barrier=barrier,
            name=name,
            preds=list(dict.fromkeys(seen.values())),
            began=began,
            _seen=seen,
            _groups=groups,
            _recorder=self,
        )

    def shared(self, make: Callable[[Recorder], T], what: str = "cells") -> T:
        """Return an object that all users of this recorder share; made at the first request."""
        with self._lock:
            if what not in self._shared:
                self._shared[what] = make(self)
            return cast("T", self._shared[what])

    @contextmanager
    def acting(self, plan: Operation, registry: Mapping[str, str]) -> Generator[None]:
        """Record the act of a plan: for recorders that see writes without knowing their tool.

        The first write that is recorded within, in this thread or task, is the act of the plan's agent with its tool,
        and has both registries. When nothing is written, the plan itself is recorded if its tool is gone or changed,
        else dropped.

        Args:
            plan: begun when its tool was chosen, with the tools available then.
            registry: the tools available now.

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
        """Record that a committed operation was retracted."""
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
                id=str(time),
                agent=by.agent,
                read_time=begun.began,
                write_time=time,
                read_values=_plain(begun.reads),
                planned_tool=by.tool,
                read_registry=dict(by.registry),
                preds=begun.observed(parts["commutes"]),
                direct=True,
                read_barrier=begun.barrier,
                name=begun.name,
                **parts,
            )
            if self._file is not None:
                self._file.write(record)
            else:
                self.records.append(record)
            begun.end()
            if acting is not None and acts:
                acting.wrote = True
            self._clock = time
            for cell in record.write_values:
                self._note_group(cell, record.commutes.get(cell))
                self._writers[cell] = record.id
                self._times[cell] = time
            return record

    def _note_group(self, cell: str, group: str | None) -> None:
        before = self._groups.pop(cell, None)
        if group is not None:
            beneath = before.beneath if before is not None and before.name == group else self._writers.get(cell)
            self._groups[cell] = _Group(group, beneath)


class _Group(NamedTuple):
    """The group of the effects that a cell's last writes were, and the last operation beneath all of these."""

    name: str
    beneath: str | None


@dataclass
class Operation:
    """One operation between its reads and its commit; made by `Recorder.begin`."""

    agent: str
    reads: dict[str, Any]
    tool: str | None
    registry: dict[str, str]
    barrier: int | None
    name: str | None
    preds: list[str]
    began: int
    _seen: dict[str, str] = field(repr=False)
    _groups: dict[str, _Group] = field(repr=False)
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
        commutes: Mapping[str, str] | None = None,
    ) -> OpRecord:
        """Record that it has committed, and return the record.

        Args:
            writes: cells and their new values.
            registry: the tools available now; by default as at its beginning.
            io: its effects in the order they were issued.
            co: its effects in the order they left; by default as `io`.
            barrier: the superstep at whose end it is visible.
            externalized: effects of it have left.
            commutes: by cell, the group of effects that commute: for each cell that it touched with nothing but effects
                of that group. It has observed none of that group, even where its effects read the cell.

        Raises:
            StateError: it has ended.
            ValueError: `commutes` has a cell that `writes` has not; nothing was recorded.
            UnicodeEncodeError: a text cannot be written to the file; nothing was recorded, and it can be committed
                again, as after any other error.
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
            "commutes": {str(cell): group for cell, group in (commutes or {}).items()},
        }
        return self._recorder._commit(self, parts)  # noqa: SLF001 - the other half of the pair

    def observed(self, commutes: Mapping[str, str]) -> list[str]:
        """Return the operations whose writes it has observed, without those that its effects commute with."""
        alike = {cell: group.beneath for cell, group in self._groups.items() if commutes.get(cell) == group.name}
        if not alike:
            return self.preds
        others = {pred for cell, pred in self._seen.items() if cell not in alike}
        unseen = {self._seen[cell] for cell in alike} - others
        observed = [pred for pred in self.preds if pred not in unseen]
        return list(dict.fromkeys([*observed, *(pred for pred in alike.values() if pred is not None)]))

    def drop(self) -> None:
        """End it without a record: it was refused, or failed."""
        self.require_open()
        self.end()

    def require_open(self) -> None:
        """Check that it has not ended."""
        if self._ended:
            raise StateError(
                f"this operation of {self.agent} has ended: begin another", transaction=self.name, state=None
            )

    def end(self) -> None:
        """Mark it as ended, once the recorder has its record."""
        self._ended = True


def _plain(values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {str(cell): plain(value) for cell, value in (values or {}).items()}


def _plain_effects(effects: Effects) -> list[tuple[str, Any]]:
    return [(str(cell), plain(value)) for cell, value in effects]


@dataclass(eq=False)
class _Acting:
    """A plan whose act is being recorded."""

    plan: Operation
    registry: dict[str, str]
    wrote: bool = False

    def is_of(self, recorder: Recorder) -> bool:
        return self.plan._recorder is recorder and not self.wrote  # noqa: SLF001 - three parts of one thing


_ACTING: ContextVar[_Acting | None] = ContextVar("settlemark_recorded_act", default=None)

__all__ = ["Operation", "Recorder"]
