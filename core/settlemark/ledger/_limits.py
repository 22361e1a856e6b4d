"""The time limit for waits at a store: no lock and no network waits longer.

A store hangs in many ways: a foreign program has the file locked, a server stopped, a network swallows packets. A
caller sets a limit, and the connection (`wire`, `postgres`, `sqlite`) ends the wait there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from math import inf

import msgspec

from settlemark._edges.wording import is_a

CLOSE_SECONDS = 5.0
"""How long `close()` waits for a store that does not answer (seconds)."""
LEAST_SECONDS = 1.0
"""The least time for a store (seconds): `wait=0` waits for no transaction, but still for the disk."""
LAST_LOOK_SECONDS = 0.25
"""The time for a store that was silent for too long, to say what became of the last step (seconds)."""


class LateError(Exception):
    """The store has not answered in time: raised by the thread at the store, and caught inside of the ledger."""


class Limit(msgspec.Struct, eq=False):
    """The moment until which the thread at a store may wait there, on the monotonic clock.

    Attributes:
        at: that moment; another thread may move it.
        since: when the wait began.
        closing: nobody needs the store any more: each wait gets `CLOSE_SECONDS`, from the start of closing.
    """

    at: float = inf
    since: float = 0.0
    closing: float = inf

    def begin(self, at: float) -> None:
        """Begin a wait that lasts until this moment."""
        self.since, self.at = time.monotonic(), at

    def remaining(self) -> float:
        """Return the seconds until the wait ends."""
        return min(self.at, max(self.since, self.closing) + CLOSE_SECONDS) - time.monotonic()


class _Here(threading.local):
    limit = Limit()
    """Until when this thread waits for its store; without an end where nobody says one."""


here = _Here()


@contextmanager
def within(limit: Limit | float) -> Generator[None]:
    """Limit how long this thread waits for its store: by a `Limit`, or in seconds."""
    if not isinstance(limit, Limit):
        limit = Limit(time.monotonic() + limit)
    before, here.limit = here.limit, limit
    try:
        yield
    finally:
        here.limit = before


def remaining() -> float:
    """Return the seconds for which this thread may still wait for its store."""
    return here.limit.remaining()


def is_late(error: BaseException) -> bool:
    """Whether an error says that a store has not answered in time.

    >>> is_late(LateError()), is_late(ValueError())
    (True, False)
    """
    if is_a(error, LateError):
        return True
    return is_a(error, Exception) and issubclass(type(getattr(error, "orig", None)), LateError)


def patience(seconds: float) -> float:
    """Return the seconds to wait for a store, given those to wait for a transaction.

    >>> patience(600)
    600
    """
    return max(seconds, LEAST_SECONDS)


__all__ = [
    "CLOSE_SECONDS",
    "LAST_LOOK_SECONDS",
    "LEAST_SECONDS",
    "LateError",
    "Limit",
    "here",
    "is_late",
    "patience",
    "remaining",
    "within",
]
