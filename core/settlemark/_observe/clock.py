"""The clock of the record: between an act and its record stands no failure of a clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from math import isfinite

from settlemark._edges.shield import closed
from settlemark._observe.logs import log_failure

_log = logging.getLogger("settlemark")


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


__all__ = ["SureClock"]
