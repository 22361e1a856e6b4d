"""Until when the thread that is at a store waits for it: no lock and no network has longer than that.

A store hangs in many ways: a foreign program has the file locked, a server stopped, a network swallows.
Whoever goes to it says until when, and the way to it (`wire`, `postgres`, `sqlite`) ends the wait there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from math import inf

CLOSE_SECONDS = 5.0
"""For how long `close()` waits for a store that does not answer."""
LEAST_SECONDS = 1.0
"""What a store is given at least: `wait=0` waits for no rival, and yet for the disk."""


class LateError(Exception):
    """The store has not answered in time: raised by the leading thread, and caught inside of the ledger."""


class Limit:
    """Until when the one thread that is at a store may wait there, on the monotonic clock.

    Attributes:
        at: then; another thread may move it.
        closing: whether nobody needs the store any more: each wait has `CLOSE_SECONDS` left, from when that began.
    """

    __slots__ = ("at", "closing", "since")

    def __init__(self, at: float = inf) -> None:
        self.at = at
        self.since = 0.0
        self.closing = inf

    def begin(self, at: float) -> None:
        """Begin a wait that lasts until then."""
        self.since, self.at = time.monotonic(), at

    @property
    def until(self) -> float:
        """When the wait ends."""
        return min(self.at, max(self.since, self.closing) + CLOSE_SECONDS)


class _Current(threading.local):
    limit: Limit | None = None


_current = _Current()


@contextmanager
def within(limit: Limit | float) -> Generator[None]:
    """Limit how long this thread waits for its store: by a `Limit`, or so many seconds."""
    if not isinstance(limit, Limit):
        limit = Limit(time.monotonic() + limit)
    before, _current.limit = _current.limit, limit
    try:
        yield
    finally:
        _current.limit = before


def remaining() -> float:
    """Return the seconds which this thread may still wait for its store."""
    limit = _current.limit
    return inf if limit is None else limit.until - time.monotonic()


def is_late(error: BaseException) -> bool:
    """Whether an error says that a store has not answered in time.

    >>> is_late(LateError()), is_late(ValueError())
    (True, False)
    """
    return isinstance(error, LateError) or isinstance(getattr(error, "orig", None), LateError)


def patience(seconds: float) -> float:
    """Return for how many seconds a store is waited for, where transactions are waited for so long.

    >>> patience(0), patience(30)
    (1.0, 30)
    """
    return max(seconds, LEAST_SECONDS)


__all__ = ["CLOSE_SECONDS", "LEAST_SECONDS", "LateError", "Limit", "is_late", "patience", "remaining", "within"]
