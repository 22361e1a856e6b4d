"""Who of a turn has come, and who will not."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Who = TypeVar("Who", bound=Hashable)


class Roll(Generic[Who]):
    """Who has come to a turn: its calls, by their places, or the tasks that carry them, by name. Safe for threads.

    Each is waited for until it has come, or is given up; what is first holds.

    Args:
        expected: all of them, in order.

    >>> roll = Roll("abc")
    >>> roll.arrive("a"), roll.arrive("a"), roll.give_up("a"), roll.give_up("b"), roll.arrive("b")
    (True, False, False, True, False)
    >>> roll.absent, roll.missing
    (['b'], ['c'])
    """

    def __init__(self, expected: Iterable[Who]) -> None:
        self._expected = tuple(expected)
        self._come: set[Who] = set()
        self._absent: set[Who] = set()
        self._lock = threading.Lock()

    @property
    def missing(self) -> list[Who]:
        """Those that are waited for."""
        with self._lock:
            return [who for who in self._expected if self._is_awaited(who)]

    @property
    def absent(self) -> list[Who]:
        """Those that were given up."""
        with self._lock:
            return [who for who in self._expected if who in self._absent]

    @property
    def is_void(self) -> bool:
        """Whether all were given up."""
        return len(self._absent) == len(self._expected)

    def arrive(self, who: Who) -> bool:
        """Take note that one has come; return whether it was waited for until now."""
        with self._lock:
            awaited = self._is_awaited(who)
            self._come.add(who)
        return awaited

    def give_up(self, who: Who) -> bool:
        """Take note that one will not come, if it was waited for until now, and return whether it was."""
        with self._lock:
            awaited = self._is_awaited(who)
            if awaited:
                self._absent.add(who)
        return awaited

    def withdraw(self, who: Who) -> None:
        """Take back that one has come: it was cut short."""
        with self._lock:
            self._come.discard(who)

    def is_absent(self, who: Who) -> bool:
        """Whether one was given up."""
        return who in self._absent

    def _is_awaited(self, who: Who) -> bool:
        return who not in self._come and who not in self._absent


__all__ = ["Roll"]
