"""Which calls of a turn have come to their places, and which a framework answers itself."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, Protocol

from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._protocol.holdings import Ticket, fire


class Watch(Protocol):
    """What tells how long a call is waited for."""

    name: str

    @property
    def patience(self) -> float:
        """Seconds after which a call that has not come is taken for answered by the framework itself."""
        ...

    def now(self) -> float:
        """Return the time in seconds, from any fixed point."""
        ...


class Attendance:
    """Who of the calls of one turn has come, and who will not.

    A call that has not come is waited for while any of the turn's acts, and then as long as patience is.

    Args:
        size: how many calls there are.
        watch: says how long is waited.
        leave_out: is told of each call that will not come, once.
    """

    def __init__(self, size: int, watch: Watch, leave_out: Callable[[int], None]) -> None:
        self._absent: set[int] = set()
        self._size = size
        self._watch = watch
        self._leave_out = leave_out
        self._come: set[int] = set()
        self._acting = 0
        self._moved = watch.now()
        self._waiting: list[Ticket] = []
        self._lock = threading.Lock()

    @property
    def absent(self) -> list[int]:
        """The places of those that will not come."""
        with self._lock:
            return sorted(self._absent)

    @property
    def is_void(self) -> bool:
        """Whether none of the calls comes."""
        return len(self._absent) == self._size

    def arrive(self, place: int) -> bool:
        """Take note that a call has come; return whether it was given up before."""
        now = self._watch.now()
        with self._lock:
            self._come.add(place)
            self._moved = now
            return place in self._absent

    def give_up(self, place: int) -> None:
        """Take note that a call will not come, unless it has."""
        with self._lock:
            if place in self._come or place in self._absent:
                return
            self._absent.add(place)
        self._leave_out(place)
        self.wake()

    def withdraw(self, place: int) -> None:
        """Take back that a call has come: it was cut short before it had its place."""
        with self._lock:
            self._come.discard(place)
        self.give_up(place)

    def wake(self) -> None:
        """Wake the calls that wait for others."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        fire(waiting)

    def until_come(self, place: int) -> Program[None]:
        """Wait until the calls issued before have come; who does not in time is taken for answered elsewhere."""
        while self._missing(place):
            ticket = Ticket()
            with self._lock:
                self._waiting.append(ticket)
            if self._missing(place):
                yield Wait(ticket, self._watch.patience, "calls issued before it", self._watch.name)
                self._lose_patience()

    def look(self) -> float | None:
        """Take for answered elsewhere what has not come, when nobody has moved since the last look.

        Returns the seconds until the next look, or None: all have come.
        """
        self._lose_patience()
        return self._watch.patience if self._missing(self._size) else None

    def _missing(self, below: int) -> list[int]:
        return [place for place in range(below) if place not in self._come and place not in self._absent]

    def _lose_patience(self) -> None:
        now, patience = self._watch.now(), self._watch.patience
        with self._lock:
            idle = not self._acting and now - self._moved >= patience
        for place in self._missing(self._size) if idle else ():
            self.give_up(place)

    def counted(self, run: Callable[[], Any]) -> Callable[[], Any]:
        """Return what runs a tool so that it is known how many act: as long as one does, others may still come."""
        if inspect.iscoroutinefunction(run):

            async def acting() -> Any:
                self._moves(1)
                try:
                    return await run()
                finally:
                    self._moves(-1)

            return acting

        def act() -> Any:
            self._moves(1)
            try:
                return run()
            finally:
                self._moves(-1)

        return act

    def _moves(self, more: int) -> None:
        now = self._watch.now()
        with self._lock:
            self._acting += more
            self._moved = now


__all__ = ["Attendance", "Watch"]
