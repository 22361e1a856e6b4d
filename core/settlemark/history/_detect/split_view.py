"""A4, the split view: two copies of a cell answered with different values.

Definition: the anomaly paper, section 4.12. Two reads of one cell, different replicas, different values, at any times.
It needs replicas, which a history of operations does not have: so it is no point of the lattice of levels, and has a
log and a detector of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from settlemark.history._detect.detectors import _shown
from settlemark.history._detect.replica_reads import ReplicaRead
from settlemark.history._detect.verdict import WITNESSES, Verdict, Witness
from settlemark.history._recording.record import comparable


@dataclass(slots=True)
class _Answer:
    """An answer of one replica for one cell: its first read, that read's place in the log, and the number of reads."""

    place: int
    read: ReplicaRead
    count: int = 1


_Answers = dict[tuple[str, Any], _Answer]  # by replica, and value as it is compared


class SplitView:
    """A4: reads that another replica contradicts.

    Takes constant time a read, however many a cell has, and remembers the different answers of each cell.
    """

    def __init__(self) -> None:
        self._cells: dict[str, _Answers] = {}

    def add(self, place: int, read: ReplicaRead) -> None:
        """Add the next read, with its place in the log (from 1)."""
        answers = self._cells.setdefault(read.cell, {})
        key = read.replica, comparable(read.value)
        known = answers.get(key)
        if known is None:
            answers[key] = _Answer(place, read)
        else:
            known.count += 1

    def verdict(self) -> Verdict:
        """Return the findings so far: how many reads are contradicted, and the first few of these."""
        verdict = Verdict("A4")
        for answers in self._cells.values():
            by_replica, by_value = Counter(one for one, _ in answers), Counter(value for _, value in answers)
            for (replica, value), answer in answers.items():
                # All answers, minus this replica's and those with this value; this answer itself is subtracted twice.
                if len(answers) - by_replica[replica] - by_value[value] + 1 > 0:
                    verdict.count += answer.count
            for key in _contradicting(answers):
                if len(verdict.witnesses) == WITNESSES:
                    break
                verdict.witnesses.append(_witness(answers, key))
        return verdict


def _contradicting(answers: _Answers) -> Iterator[tuple[str, Any]]:
    """Yield the answers that contradict an earlier one: each pair comes once."""
    by_replica: Counter[str] = Counter()
    by_value: Counter[Any] = Counter()
    for earlier, (replica, value) in enumerate(answers):
        if earlier - by_replica[replica] - by_value[value] > 0:
            yield replica, value
        by_replica[replica] += 1
        by_value[value] += 1


def _witness(answers: _Answers, key: tuple[str, Any]) -> Witness:
    """Describe an answer and the first that it contradicts, the lower version first: that one lags."""
    earlier = next(known for (replica, value), known in answers.items() if replica != key[0] and value != key[1])
    one, other = sorted((earlier, answers[key]), key=lambda answer: (answer.read.version, answer.place))
    return Witness(
        f"{_told(one.read)}, and {_told(other.read)}",
        (one.place, other.place),
        one.read.cell,
        _times(one.read, other.read),
        (one.read.value, other.read.value),
    )


def _told(read: ReplicaRead) -> str:
    reader, value = read.agent or "somebody", _shown(read.value)
    when = "" if read.time is None else f" at {read.time}"
    return f"{reader} read {read.cell} = {value} from {read.replica}{when} (version {read.version})"


def _times(*reads: ReplicaRead) -> tuple[int, ...]:
    times = tuple(read.time for read in reads if read.time is not None)
    return times if len(times) == len(reads) else ()


def split_view(reads: Iterable[ReplicaRead]) -> Verdict:
    """Return the A4 verdict on a log of reads: how many another replica contradicts, and the first witnesses.

    The time is proportional to the reads, one of which is in memory at a time; what is remembered grows with the number
    of different answers. Different values of one replica are no split view: the cell was written in between.

    >>> found = split_view([
    ...     ReplicaRead(cell="date", replica="primary", version=2, value="21 June", agent="ada"),
    ...     ReplicaRead(cell="date", replica="eu", version=1, value="14 June", agent="bob"),
    ... ])
    >>> found.count, found.witnesses[0].sentence  # doctest: +NORMALIZE_WHITESPACE
    (2, "bob read date = '14 June' from eu (version 1), and ada read date = '21 June' from primary (version 2)")
    """
    detector = SplitView()
    for place, read in enumerate(reads, 1):
        detector.add(place, read)
    return detector.verdict()


__all__ = ["SplitView", "split_view"]
