"""Detectors: each receives a history's records in the order of their write times, one at a time, and is exact.

Definitions: the anomaly paper, section 3 (A1, A2, A3, A6), with the corrections of its author's later revisions:
signatures in A2, effects that have left in A3x, permutations only in A6. Each takes constant time per record and cell.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any, Protocol

from settlemark.history._detect.verdict import Verdict, Witness
from settlemark.history._detect.window import Beside, Latest, Write
from settlemark.history._recording.record import OpRecord, comparable

_SHORT = 64  # up to this length a text is smaller than its digest


class Detector(Protocol):
    """Finds one anomaly, or one family of them, in a stream of records."""

    def add(self, place: int, record: OpRecord) -> None:
        """Add the next record, with its place in the history (from 1)."""
        ...

    def verdicts(self) -> list[Verdict]:
        """Return the findings so far."""
        ...


class StaleGeneration:
    """A1: a record's agent read a cell, another agent wrote another value to it, and then the record committed.

    Any write in between counts, not only the last: a value that changed and changed back was stale meanwhile. Whether
    the record was retracted later does not matter. Writes of the same agent in between are counted apart (`A1-self`).
    A write does not count for what an effect read that commutes with it: one of its group, on the same cell.
    """

    def __init__(self) -> None:
        self._cells: dict[str, Latest] = {}
        # An agent's own newest write, and the newest with another value, suffice for every query.
        self._own: dict[tuple[str, str], tuple[Write, Write | None]] = {}
        self._own_beside: dict[tuple[str, str], Beside] = {}
        self._others = Verdict("A1")
        self._itself = Verdict("A1-self")

    def add(self, place: int, record: OpRecord) -> None:
        """See `Detector`."""
        agent, began, groups = record.agent, record.read_time, record.commutes
        cells = self._cells
        other = own = None
        for cell, value in record.read_values.items():
            latest = cells.get(cell)
            if latest is None or latest.newest.time <= began:
                continue
            seen = comparable(value)
            group = groups.get(cell) if groups else None
            if other is None:
                found = latest.other(agent, seen) if group is None else latest.beside(agent, seen, group)
                if found is not None and found.time > began:
                    other = cell, value, found
            if own is None:
                for write in self._own_writes(cell, agent, seen, group):
                    if write is not None and write.value != seen and write.time > began:
                        own = cell, value, write
                        break
        if other is not None and self._others.wants():
            self._others.witnesses.append(_stale(place, record, *other))
        if own is not None and self._itself.wants():
            self._itself.witnesses.append(_stale(place, record, *own))
        time = record.write_time
        for cell, value in record.write_values.items():
            write = Write(time, agent, comparable(value), place, value, groups.get(cell) if groups else None)
            latest = cells.get(cell)
            if latest is None:
                cells[cell] = Latest(write)
            else:
                latest.add(write)
            key = cell, agent
            mine = self._own.get(key)
            if groups or self._own_beside:
                self._add_own(key, write, mine)
            if mine is None:
                self._own[key] = write, None
            else:
                self._own[key] = write, mine[0] if mine[0].value != write.value else mine[1]

    def _add_own(self, key: tuple[str, str], write: Write, before: tuple[Write, Write | None] | None) -> None:
        beside = self._own_beside.get(key)
        if beside is None and write.group is not None:
            beside = self._own_beside[key] = Beside(before or ())
        if beside is not None:
            beside.add(write)

    def _own_writes(self, cell: str, agent: str, seen: Any, group: str | None) -> tuple[Write | None, ...]:
        beside = None if group is None else self._own_beside.get((cell, agent))
        if beside is None or group is None:
            return self._own.get((cell, agent), ())
        return (beside.other(None, seen, group),)

    def verdicts(self) -> list[Verdict]:
        """See `Detector`."""
        return [self._others, self._itself]


class StaleSupersteps:
    """A1-semantic: A1 on the clock of supersteps, where all that commit in one step commit at its end.

    On the clock of commits, two nodes of one superstep are stale by the accident of who ended first; on the paper's
    clock of supersteps, never. So a write counts if it becomes visible after the reader's barrier and by its own
    commit's: `read_barrier < written <= write_barrier`. A barrier lower than the last one restarts the clock, as for a
    graph that is run again from an older checkpoint: earlier writes then count as before.
    """

    def __init__(self) -> None:
        self._cells: dict[str, Latest] = {}
        self._step: list[tuple[int, OpRecord]] = []
        self._at: int | None = None
        self._verdict = Verdict("A1-semantic")

    def add(self, place: int, record: OpRecord) -> None:
        """See `Detector`."""
        if record.write_barrier is None:
            return
        if record.write_barrier != self._at:
            self._end_step()
            if self._at is not None and record.write_barrier < self._at:
                self._cells.clear()
            self._at = record.write_barrier
        self._step.append((place, record))

    def _end_step(self) -> None:
        for place, record in self._step:
            for cell, value in record.write_values.items():
                group = record.commutes.get(cell)
                write = Write(record.write_barrier or 0, record.agent, comparable(value), place, value, group)
                latest = self._cells.get(cell)
                if latest is None:
                    self._cells[cell] = Latest(write)
                else:
                    latest.add(write)
        for place, record in self._step:
            began = record.read_barrier
            for cell, value in () if began is None else record.read_values.items():
                latest, group = self._cells.get(cell), record.commutes.get(cell)
                if latest is None:
                    continue
                seen = comparable(value)
                found = latest.other(record.agent, seen) if group is None else latest.beside(record.agent, seen, group)
                if found is not None and found.time > (began or 0):
                    if self._verdict.wants():
                        self._verdict.witnesses.append(_stale(place, record, cell, value, found))
                    break
        self._step.clear()

    def verdicts(self) -> list[Verdict]:
        """See `Detector`."""
        self._end_step()
        return [self._verdict]


class PhantomTool:
    """A2: a record's planned tool existed when it began, and was gone or another one when it committed."""

    def __init__(self) -> None:
        self._verdict = Verdict("A2")

    def add(self, place: int, record: OpRecord) -> None:
        """See `Detector`."""
        tool = record.planned_tool
        if tool is None or tool not in record.read_registry:
            return
        before, now = record.read_registry[tool], record.write_registry.get(tool)
        if now == before:
            return
        if self._verdict.wants():
            what = "was gone" if now is None else f"was another one: {now!r} in place of {before!r}"
            self._verdict.witnesses.append(
                Witness(
                    f"{record.agent} chose {tool} at {record.read_time}, and it {what} at {record.write_time}",
                    (place,),
                    None,
                    (record.read_time, record.write_time),
                    (before, now),
                )
            )

    def verdicts(self) -> list[Verdict]:
        """See `Detector`."""
        return [self._verdict]


class Residue:
    """In a flat trace, without `preds`: a record read a value that no standing record had written by then.

    It fires on values from before the history, too: log these as writes. It misses a cascade when a standing record
    wrote the same value, or when the retracted value was None. What an effect read may have been written by retracted
    ones that commute with it.
    """

    def __init__(self) -> None:
        self._written: dict[str, dict[Any, int]] = {}
        self._undone: dict[tuple[str, str], dict[Any, int]] = {}  # by cell and group of effects that commute
        self._verdict = Verdict("residue")

    def add(self, place: int, record: OpRecord) -> None:
        """See `Detector`."""
        groups = record.commutes
        if record.aborted:
            for cell, group in groups.items():
                undone = self._undone.setdefault((cell, group), {})
                undone.setdefault(_remembered(record.write_values[cell]), record.write_time)
            return
        written = self._written
        for cell, value in record.read_values.items():
            if value is None:
                continue
            values = written.get(cell)
            since = None if values is None else values.get(_remembered(value))
            if (since is None or since > record.read_time) and cell in groups:
                since = self._undone.get((cell, groups[cell]), {}).get(_remembered(value))
            if since is None or since > record.read_time:
                if self._verdict.wants():
                    self._verdict.witnesses.append(
                        Witness(
                            f"{record.agent} read {cell} = {_shown(value)} at {record.read_time}, and no operation that"
                            " stands had written that by then",
                            (place,),
                            cell,
                            (record.read_time,),
                            (value,),
                        )
                    )
                break
        for cell, value in record.write_values.items():
            values = written.get(cell)
            if values is None:
                values = written[cell] = {}
            values.setdefault(_remembered(value), record.write_time)

    def verdicts(self) -> list[Verdict]:
        """See `Detector`."""
        return [self._verdict]


class EffectReordering:
    """A6: a record's effects left in another order than they were issued in. Lost or added ones are `effects`."""

    def __init__(self) -> None:
        self._order = Verdict("A6")
        self._effects = Verdict("effects")

    def add(self, place: int, record: OpRecord) -> None:
        """See `Detector`."""
        issued, left = record.io, record.co
        if _plainly_alike(issued, left):
            return
        issued_keys, left_keys = _keys(issued), _keys(left)
        if issued_keys == left_keys:
            return
        if len(issued_keys) != len(left_keys) or Counter(issued_keys) != Counter(left_keys):
            if self._effects.wants():
                lost, added = Counter(issued_keys) - Counter(left_keys), Counter(left_keys) - Counter(issued_keys)
                told = [f"{cell} was lost" for cell, _ in lost.elements()]
                told += [f"{cell} was added" for cell, _ in added.elements()]
                self._effects.witnesses.append(
                    Witness(f"of {record.agent}'s effects {', '.join(told)}", (place,), None, (record.write_time,))
                )
            return
        if self._order.wants():
            at = next(n for n, (one, other) in enumerate(zip(issued_keys, left_keys, strict=True)) if one != other)
            self._order.witnesses.append(
                Witness(
                    f"{record.agent} issued {_order(issued)}, and they left as {_order(left)}",
                    (place,),
                    issued[at][0],
                    (record.write_time,),
                    ([list(i) for i in issued], [list(c) for c in left]),
                )
            )

    def verdicts(self) -> list[Verdict]:
        """See `Detector`."""
        return [self._order, self._effects]


def _remembered(value: Any) -> Any:
    """Return a value's bounded key: equal exactly when `comparable` is."""
    same = comparable(value)
    kind: type[Any] = type(same)  # pyright: ignore[reportUnknownVariableType]  # of Any it is unknown
    if kind is not tuple and (kind is not str or len(same) <= _SHORT):
        return same
    parts: tuple[Any, ...] = same if kind is tuple else (same,)
    told = [int(part) if isinstance(part, float) and part.is_integer() else part for part in parts]  # 1.0 is 1
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=16).digest()


def _plainly_alike(issued: list[tuple[str, Any]], left: list[tuple[str, Any]]) -> bool:
    """Whether two values are surely the same, by a cheap test; doubtful ones count as different."""
    if len(issued) != len(left):
        return False
    for (cell, value), (other_cell, other) in zip(issued, left, strict=True):
        if cell != other_cell:
            return False
        kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]  # of Any it is unknown
        if value is not other and not (kind is type(other) and (kind is str or kind is int) and value == other):
            return False
    return True


def _keys(effects: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(cell, comparable(value)) for cell, value in effects]


def _order(effects: list[tuple[str, Any]]) -> str:
    return ", ".join(f"{cell}={_shown(value)}" for cell, value in effects)


def _stale(place: int, record: OpRecord, cell: str, value: Any, write: Write) -> Witness:
    return Witness(
        f"{record.agent} read {cell} = {_shown(value)} at {record.read_time} and committed at {record.write_time};"
        f" in between, at {write.time}, {write.agent} wrote {_shown(write.given)}",
        (place, write.by),
        cell,
        (record.read_time, write.time, record.write_time),
        (value, write.given),
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"  # noqa: PLR2004 - fits into a sentence


__all__ = [
    "Detector",
    "EffectReordering",
    "PhantomTool",
    "Residue",
    "StaleGeneration",
    "StaleSupersteps",
]
