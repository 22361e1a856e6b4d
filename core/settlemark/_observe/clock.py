"""The clock of the record: between an act and its record stands no failure of a clock. And the calendar's ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from math import isfinite

from settlemark._edges.shield import closed
from settlemark._observe.logs import log_failure

_log = logging.getLogger("settlemark")

FIRST, LAST = -62_135_596_800.0, 253_402_300_799.0
"""The first second of the year 1, and the last one of 9999, in seconds since 1970."""


class SureClock:
    """Tells the time by a clock that was given, or by the system's where that one fails; the first failure is logged.

    Whatever the given clock raises is its own: signals are deferred while it is asked.

    >>> SureClock(lambda: 7)()
    7.0
    >>> SureClock(lambda: float("nan"))() > 0
    True
    """

    __slots__ = ("_clock", "_has_failed")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._has_failed = False

    @closed
    def __call__(self) -> float:
        try:
            now = float(self._clock())
            if isfinite(now):
                return now
            raise ValueError(f"{now} is no time")
        except BaseException as error:
            if not self._has_failed:
                self._has_failed = True
                log_failure(_log, "the clock that was given failed, and the system's is used where it does", error)
        return time.time()


def in_calendar(seconds: float) -> float:
    """Return a time as a calendar can show it: what is later than its end, as `datetime.max` is, is at its end.

    >>> in_calendar(7.0), in_calendar(1e18)
    (7.0, 253402300799.0)
    """
    return min(max(seconds, FIRST), LAST)


__all__ = ["FIRST", "LAST", "SureClock", "in_calendar"]
