"""The times that a calendar can show: those of the years 1 to 9999."""

from __future__ import annotations

FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0
"""The first second of the year 1, and the last one of 9999, in seconds since 1970."""


def in_calendar(seconds: float) -> float:
    """Return a time as a calendar can show it: what is later than its end, as `datetime.max` is, is at its end.

    >>> in_calendar(7.0), in_calendar(1e18)
    (7.0, 253402300799.0)
    """
    return min(max(seconds, FIRST), LAST)


__all__ = ["FIRST", "LAST", "in_calendar"]
