"""All detectors over one history, in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from settlemark.history._detect.cascade import CausalCascade
from settlemark.history._detect.detectors import (
    Detector,
    EffectReordering,
    PhantomTool,
    Residue,
    StaleGeneration,
    StaleSupersteps,
)
from settlemark.history._detect.levels import Level, Point, level_of, point_of
from settlemark.history._detect.verdict import Verdict
from settlemark.history._recording.files import HistoryError
from settlemark.history._recording.record import OpRecord


@dataclass(frozen=True)
class Analysis:
    """The findings in a history.

    Attributes:
        records: the number of records.
        verdicts: one for each anomaly.
    """

    records: int
    verdicts: tuple[Verdict, ...]

    def __getitem__(self, anomaly: str) -> Verdict:
        """Return the verdict on one anomaly."""
        return next(verdict for verdict in self.verdicts if verdict.anomaly == anomaly)

    @property
    def point(self) -> Point:
        """The anomalies, of the four, that the history is free of."""
        return point_of(self.verdicts)

    @property
    def level(self) -> Level:
        """The highest level it satisfies."""
        return level_of(self.point)

    def as_dict(self) -> dict[str, Any]:
        """Return the analysis as plain JSON."""
        return {
            "records": self.records,
            "level": self.level.name,
            "absent": sorted(self.point),
            "verdicts": [verdict.as_dict() for verdict in self.verdicts],
        }


def analyze(records: Iterable[OpRecord]) -> Analysis:
    """Run all detectors over a history, given in the order of its write times.

    The time is proportional to the records and their cells, whatever the history is like. One record is in memory at a
    time; what is remembered grows with the number of cells and values.

    Raises:
        HistoryError: two records are not in the order of their write times (sort with `ordered`), or have the same one
            (then they belong to two histories), or a value is nested too deep.

    >>> history = [
    ...     OpRecord(agent="ada", read_time=0, write_time=1, write_values={"date": "21 June"}),
    ...     OpRecord(agent="bob", read_time=0, write_time=2, read_values={"date": None}),
    ... ]
    >>> found = analyze(history)
    >>> (found.level, found["A1"].witnesses[0].sentence)  # doctest: +NORMALIZE_WHITESPACE
    (<Level.L0: 0>, "bob read date = None at 0 and committed at 2; in between, at 1, ada wrote '21 June'")
    """
    detectors: list[Detector] = [
        StaleGeneration(),
        StaleSupersteps(),
        PhantomTool(),
        CausalCascade(),
        EffectReordering(),
        Residue(),
    ]
    looks = [detector.add for detector in detectors]
    place, before = 0, 0
    for place, record in enumerate(records, 1):
        if record.write_time <= before:
            mend = (
                "two of one time have no order, so ordered() does not help; they are of two clocks: analyze what each"
                " writer wrote by itself"
                if record.write_time == before
                else "give records in the order of their write times, or sort them with ordered()"
            )
            raise HistoryError(
                f"record {place} committed at {record.write_time}, and the one before it at {before}: {mend}",
                file=None,
                line=place,
                field="write_time",
            )
        before = record.write_time
        try:
            for look in looks:
                look(place, record)
        except RecursionError:
            raise HistoryError(
                f"record {place}: one of its values is nested too deep", file=None, line=place, field=None
            ) from None
    return Analysis(place, tuple(verdict for detector in detectors for verdict in detector.verdicts()))


__all__ = ["Analysis", "analyze"]
