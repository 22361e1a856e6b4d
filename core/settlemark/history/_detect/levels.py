"""The levels L0 to L4, one path in the lattice of anomalies that a history may be free of.

Source: the anomaly paper, section 4. The four anomalies are independent, so the sets that a history may be free of are
the sixteen points of a Boolean lattice; the levels name five of them, each including the one before, and a history off
that path is at the highest level that it satisfies.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from settlemark._model.level import ANOMALIES, Level, Point
from settlemark.history._detect.verdict import Verdict


def point_of(verdicts: Iterable[Verdict]) -> Point:
    """Return the lattice point of a history: the set of the four anomalies that it is free of."""
    present = {verdict.anomaly for verdict in verdicts if not verdict.absent}
    return frozenset(ANOMALIES) - present


def level_of(point: Point) -> Level:
    """Return the highest level that a point satisfies.

    >>> level_of(frozenset({"A1", "A3", "A2"})), level_of(frozenset({"A2", "A3", "A6"}))
    (<Level.L2: 2>, <Level.L0: 0>)
    """
    return next(level for level in reversed(Level) if level.prevents <= point)


POINTS: tuple[Point, ...] = tuple(frozenset(free) for n in range(5) for free in combinations(ANOMALIES, n))
"""All sixteen points, from free of nothing to free of all four."""


def covers() -> list[tuple[Point, Point]]:
    """Return the edges of the lattice: each point, and each that is free of one anomaly more.

    >>> len(covers())
    32
    """
    return [(low, high) for low in POINTS for high in POINTS if low < high and len(high) == len(low) + 1]


def hasse(point: Point) -> str:
    """Return a drawing of the lattice as text, a row for each number of excluded anomalies, this point in brackets.

    Points on the path of the levels bear their names.

    >>> print(hasse(frozenset({"A1", "A3"})).splitlines()[2].strip())
    A1·A6   A1·A2   A3·A6   A3·A2   A6·A2   [A1·A3 =L2]
    """
    rows: list[str] = []
    for n in reversed(range(5)):
        row = sorted((p for p in POINTS if len(p) == n), key=lambda p: (_named(p) is not None, _order(p)))
        rows.append("   ".join(_cell(p, here=p == point) for p in row))
    width = max(map(len, rows))
    return "\n".join(row.center(width).rstrip() for row in rows)


def _order(point: Point) -> list[int]:
    return sorted(ANOMALIES.index(anomaly) for anomaly in point)


def _named(point: Point) -> Level | None:
    return next((level for level in Level if level.prevents == point), None)


def _cell(point: Point, *, here: bool) -> str:
    text = "·".join(ANOMALIES[n] for n in _order(point)) or "nothing"
    level = _named(point)
    text = text if level is None else f"{text} ={level.name}"
    return f"[{text}]" if here else text


__all__ = ["ANOMALIES", "POINTS", "Level", "Point", "covers", "hasse", "level_of", "point_of"]
