"""What happened in each session: once by the detectors over the engine's history, once by the counterparty's log.

The second is a naive reading of the definitions, on what the outside has seen. Where the two differ, one of them lies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.rooms.protocol import RETRIED

from settlemark import State
from settlemark.history import Access, Analysis, OpRecord, analyze, serializability

if TYPE_CHECKING:
    from tests.evidence._bench import Session

    from settlemark.ledger import RecordedTransaction

Line = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """A session as it came out.

    Attributes:
        name: the session's.
        analysis: what the detectors find in its part of the engine's history.
        logged: the anomalies that the counterparty's log shows.
        serializable: whether the log is as if the committed operations had run one after the other.
        aborts: attempts that lost a race and were undone, by the engine's own record.
        tries: how often a script was begun.
        dropped: operations that were given up.
        missing: effects that had to be there and are not, of operations that were not given up.
        repeated: effects that are there twice.
        undone: writes that were taken back.
        log: the session's part of the log.
        told: what the scripts have noted.
    """

    name: str
    analysis: Analysis
    logged: frozenset[str]
    serializable: bool
    aborts: int
    tries: int
    dropped: frozenset[str]
    missing: frozenset[tuple[str, str]]
    repeated: int
    undone: int
    log: tuple[Line, ...]
    told: dict[str, Any]

    def has(self, anomaly: str) -> bool:
        """Whether the detectors found it."""
        return self.analysis[anomaly].count > 0

    @property
    def complete(self) -> bool:
        """Whether every effect that was asked for is there once, or its operation is counted as given up."""
        return not self.missing and not self.repeated and self.analysis["effects"].absent


def judge(
    sessions: Iterable[Session],
    history: Iterable[OpRecord],
    log: Iterable[Line],
    transactions: Iterable[RecordedTransaction],
) -> list[Judged]:
    """Cut history, log and record into sessions, and judge each."""
    records: dict[str, list[OpRecord]] = defaultdict(list)
    for record in history:
        records[_session(record.agent)].append(record)
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in log:
        lines[_session(line["by"])].append(line)
    committed: dict[str, set[str]] = defaultdict(set)
    aborts: Counter[str] = Counter()
    for recorded in transactions:
        name = recorded.row.name
        if recorded.state is State.COMMITTED:
            committed[_session(name)].add(f"{name}#{recorded.row.attempt}")
        elif recorded.reason in RETRIED:
            aborts[_session(name)] += 1
    return [
        _judged(
            s, analyze(records[s.name]), lines[s.name], _settled(records[s.name], committed[s.name]), aborts[s.name]
        )
        for s in sessions
    ]


def _session(name: str) -> str:
    return name.split(".", 1)[0]


def _settled(records: list[OpRecord], committed: set[str]) -> set[str]:
    """Return who has committed: writers by the ledger; who only read is not in it, but in the history."""
    readers = {record.id.split("@", 1)[0] for record in records if not record.write_values and not record.aborted}
    return committed | readers


def _judged(session: Session, analysis: Analysis, log: list[Line], committed: set[str], aborts: int) -> Judged:
    standing = _standing(log)
    there = Counter((who.rsplit("#", 1)[0], cell) for who, cell in standing if who in committed)
    wanted = {(name, cell) for name, cell in session.expected if name not in session.dropped}
    accesses = [Access(line["by"], line["do"], f"cell:/{line['cell']}") for line in log if line["do"] in _KINDS]
    return Judged(
        name=session.name,
        analysis=analysis,
        logged=frozenset(name for name, shows in _DEFINITIONS.items() if shows(log, committed)),
        serializable=serializability(accesses, committed).serializable,
        aborts=aborts,
        tries=session.tries.total(),
        dropped=frozenset(session.dropped),
        missing=frozenset(wanted - there.keys()),
        repeated=sum(count - 1 for count in there.values()),
        undone=sum(line["do"] == "undo" for line in log),
        log=tuple(log),
        told=session.told,
    )


_KINDS = ("read", "write")


def _standing(log: list[Line]) -> list[tuple[str, str]]:
    """Return who wrote which cell, without what was taken back."""
    found: list[tuple[str, str]] = []
    for line in log:
        if line["do"] == "write":
            found.append((line["by"], line["cell"]))
        elif line["do"] == "undo":
            found.remove((line["by"], line["cell"]))
    return found


def _agent(by: str) -> str:
    return by.split("/", 1)[0]


def stale(log: list[Line], committed: set[str]) -> bool:
    """A1: another agent wrote a cell between somebody's read of it and the last that was heard of that one."""
    last = {line["by"]: n for n, line in enumerate(log)}
    undone = {(line["by"], line["cell"]) for line in log if line["do"] == "undo"}
    for n, line in enumerate(log):
        by = line["by"]
        if line["do"] != "read" or by not in committed:
            continue
        for other in log[n + 1 : last[by]]:
            if (
                other["do"] == "write"
                and other["cell"] == line["cell"]
                and _agent(other["by"]) != _agent(by)
                and (other["by"], other["cell"]) not in undone
            ):
                return True
    return False


def phantom(log: list[Line], committed: set[str]) -> bool:
    """A2: a tool acted that had been taken away or changed before."""
    gone = set()
    for line in log:
        if line["do"] in ("gone", "changed"):
            gone.add((line["tool"], line.get("version")))
        if line["do"] == "write" and line["by"] in committed and (line.get("tool"), line.get("version")) in gone:
            return True
    return False


def cascade(log: list[Line], committed: set[str]) -> bool:
    """A3: somebody who has committed had read what was taken back later."""
    stacks: dict[str, list[str]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for line in log:
        stack = stacks[line.get("cell", "")]
        if line["do"] == "read" and stack and line["by"] in committed:
            seen.add((stack[-1], line["cell"]))
        elif line["do"] == "write":
            stack.append(line["by"])
        elif line["do"] == "undo":
            stack.remove(line["by"])
            if (line["by"], line["cell"]) in seen:
                return True
    return False


def reordered(log: list[Line], committed: set[str]) -> bool:
    """A6: the writes of one turn came in another order than they were issued in."""
    places: dict[str, list[int]] = defaultdict(list)
    for line in log:
        if line["do"] == "write" and line["by"] in committed and "place" in line:
            places[line["by"]].append(line["place"])
    return any(found != sorted(found) for found in places.values())


_DEFINITIONS = {"A1": stale, "A2": phantom, "A3": cascade, "A6": reordered}

__all__ = ["Judged", "Line", "judge"]
