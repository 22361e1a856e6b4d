"""Isolation levels: four anomalies, and five levels that exclude one more of them each.

Source: the anomaly paper, section 4. The four are independent, so any set of them may be excluded; the levels name five
such sets, each including the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import cast

from settlemark._edges.errors import UsageError

ANOMALIES = ("A1", "A3", "A6", "A2")
"""In the order in which the levels exclude them."""
Point = frozenset[str]
"""A set of excluded anomalies, one of sixteen."""


class Level(IntEnum):
    """What is prevented: each level excludes one anomaly more.

    `L0` nothing, `L1` stale generation, `L2` causal cascades too, `L3` reordered effects too, `L4` phantom tools too.
    """

    L0 = 0
    L1 = 1
    L2 = 2
    L3 = 3
    L4 = 4

    @property
    def prevents(self) -> Point:
        """The anomalies that the level excludes.

        >>> sorted(Level.L2.prevents)
        ['A1', 'A3']
        """
        return frozenset(ANOMALIES[: int(self)])


def point_named(prevent: Level | Iterable[str]) -> Point:
    """Return the set of anomalies that a level, or a set of names, excludes.

    Raises:
        UsageError: there is no such level, or no such anomaly.

    >>> sorted(point_named(Level.L1)), sorted(point_named(["A6", "A1"]))
    (['A1'], ['A1', 'A6'])
    """
    if isinstance(prevent, Level):
        return prevent.prevents
    if isinstance(prevent, str):
        prevent = [prevent]
    given = cast("object", prevent)  # an untyped caller may pass anything
    named = list(cast("Iterable[object]", given)) if isinstance(given, Iterable) else [given]
    unknown = [name for name in named if name not in ANOMALIES]
    if unknown:
        raise UsageError(
            f"prevent= has {unknown[0]!r}: give a Level, or some of {', '.join(sorted(ANOMALIES))}, as in"
            ' prevent=Level.L4 or prevent={"A1", "A6"}'
        )
    return frozenset(str(name) for name in named)


__all__ = ["ANOMALIES", "Level", "Point", "point_named"]
