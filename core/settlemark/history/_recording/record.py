"""The record of one committed operation, a line of a history: what it read and when, what it wrote and when.

Source: the anomaly paper's `OpRecord` (its section 2), with the corrections that detectors need: signatures of tools,
both clocks, and whether effects have left.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec


class OpRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation that committed: it read at `read_time`, thought, and wrote at `write_time`.

    Attributes:
        agent: the agent.
        read_time: the clock when it began, from 0; reads see exactly the writes up to then.
        write_time: the clock when it committed; no two are the same.
        read_values: what it read, by cell; None where nothing had been written.
        write_values: what it wrote, by cell; empty when it only read.
        id: its name in the `preds` of others; its place in the history when empty.
        planned_tool: the tool it had chosen when it began, or None.
        read_registry, write_registry: the available tools when it began and when it committed, by name, with their
            signatures.
        io, co: its effects in the order they were issued, and in the order they left: pairs of cell and value.
        aborted: it was retracted after it had committed.
        preds: ids of the operations whose writes it had observed.
        direct: `preds` are the direct ones only, and not all before them.
        externalized: effects of it have left.
        read_barrier, write_barrier: the same two moments on a clock that ticks once a superstep, where there is one.
        name: the transaction or session it was part of, for people.
        commutes: by cell, the group of effects that commute: for each cell that it touched with nothing but effects of
            that group, what these read of it included. Between two records of one group, none of it is an anomaly.

    Raises:
        ValueError: a time is negative, it wrote before it read, or it names a group for a cell that it did not write.

    >>> OpRecord(agent="ada", read_time=0, write_time=1, write_values={"date": "14 June"}).write_set
    ['date']
    """

    agent: str
    read_time: int
    write_time: int
    read_values: dict[str, Any] = {}
    write_values: dict[str, Any] = {}
    id: str = ""
    planned_tool: str | None = None
    read_registry: dict[str, str] = {}
    write_registry: dict[str, str] = {}
    io: list[tuple[str, Any]] = []
    co: list[tuple[str, Any]] = []
    aborted: bool = False
    preds: list[str] = []
    direct: bool = False
    externalized: bool = False
    read_barrier: int | None = None
    write_barrier: int | None = None
    name: str | None = None
    commutes: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.read_time < 0:
            raise ValueError(f"read_time is {self.read_time}: the clock begins at 0")
        if self.write_time <= self.read_time:
            raise ValueError(
                f"write_time is {self.write_time}, and read_time {self.read_time}: an operation commits after it began"
            )
        if self.commutes and not self.commutes.keys() <= self.write_values.keys():
            unwritten = sorted(self.commutes.keys() - self.write_values.keys())
            raise ValueError(
                f"commutes names {', '.join(unwritten)}, and write_values does not: only what was written commutes"
            )

    @property
    def read_set(self) -> list[str]:
        """The cells it read."""
        return list(self.read_values)

    @property
    def write_set(self) -> list[str]:
        """The cells it wrote."""
        return list(self.write_values)

    def commutes_with(self, other: OpRecord) -> bool:
        """Whether all that it read of what another wrote belongs to effects that commute with the other's.

        >>> add = OpRecord(
        ...     agent="ada", read_time=0, write_time=1, read_values={"sum": 0}, write_values={"sum": 1},
        ...     commutes={"sum": "add"},
        ... )
        >>> add.commutes_with(add), OpRecord(agent="bob", read_time=1, write_time=2).commutes_with(add)
        (True, False)
        """
        if not (self.commutes and other.commutes):
            return False
        seen = self.read_values.keys() & other.write_values.keys()
        return bool(seen) and all(
            cell in self.commutes and self.commutes[cell] == other.commutes.get(cell) for cell in seen
        )


def comparable(value: Any) -> Any:
    """Return the key of a JSON value: two keys are equal exactly when the values are equal in JSON.

    >>> comparable(True) == comparable(1), comparable(1.0) == comparable(1), comparable([1]) == comparable([1.0])
    (False, True, True)
    """
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]  # of Any it is unknown
    if kind is str or kind is int or value is None or kind is float:
        return value
    if kind is bool:
        return _TRUE if value else _FALSE
    return _flat(value)


def _flat(value: Any) -> tuple[Any, ...]:
    """Flatten a value, each list and object before its contents: hashing and comparing then need no recursion."""
    flat: list[Any] = []
    rest: list[Any] = [value]
    while rest:
        part: Any = rest.pop()
        if isinstance(part, dict):
            fields = cast("dict[str, Any]", part)
            keys = sorted(fields, key=str)
            flat.append(("{", *keys))
            rest += [fields[key] for key in reversed(keys)]
        elif isinstance(part, list | tuple):
            items = cast("list[object]", part)
            flat.append(("[", len(items)))
            rest += reversed(items)
        elif isinstance(part, bool):
            flat.append(_TRUE if part else _FALSE)
        else:
            flat.append(part)
    return tuple(flat)


_TRUE, _FALSE = ("true",), ("false",)

__all__ = ["OpRecord", "comparable"]
