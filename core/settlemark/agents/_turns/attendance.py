"""Which calls of a turn have come to their places; which have not in time, a framework answers itself."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, Protocol

from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._protocol.holdings import Ticket, fire
from settlemark.agents._turns.gathering import Gathering


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
        gathering: the turn's.
        watch: says how long is waited.
    """

    def __init__(self, gathering: Gathering, watch: Watch) -> None:
        self._gathering = gathering
        self._roll = gathering.roll
        self._watch = watch
        self._acting = 0
        self._moved = watch.now()
        self._waiting: list[Ticket] = []
        self._lock = threading.Lock()

    @property
    def absent(self) -> list[int]:
        """The places of those that will not come."""
        return self._roll.absent

    def arrive(self, place: int) -> bool:
        """Take note that a call has come; return whether it was given up before."""
        now = self._watch.now()
        with self._lock:
            self._moved = now
        self._roll.arrive(place)
        return self._roll.is_absent(place)

    def give_up(self, place: int) -> None:
        """Take note that a call will not come, unless it has."""
        if self._gathering.give_up(place):
            self.wake()

    def withdraw(self, place: int) -> None:
        """Take back that a call has come: it was cut short before it had its place."""
        self._roll.withdraw(place)
        self.give_up(place)

    def wake(self) -> None:
        """Wake the calls that wait for others."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        fire(waiting)

    def until_come(self, place: int) -> Program[None]:
        """Wait until the calls issued before have come; who does not in time is taken for answered elsewhere."""
        while self._is_early(place):
            ticket = Ticket()
            with self._lock:
                self._waiting.append(ticket)
            if self._is_early(place):
                yield Wait(ticket, self._watch.patience, "calls issued before it", self._watch.name)
                self._lose_patience()

    def look(self) -> float | None:
        """Take for answered elsewhere what has not come, when nobody has moved since the last look.

        Returns the seconds until the next look, or None: all have come.
        """
        self._lose_patience()
        return self._watch.patience if self._roll.missing else None

    def _is_early(self, place: int) -> bool:
        return any(other < place for other in self._roll.missing)

    def _lose_patience(self) -> None:
        now, patience = self._watch.now(), self._watch.patience
        with self._lock:
            idle = not self._acting and now - self._moved >= patience
        for place in self._roll.missing if idle else ():
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
