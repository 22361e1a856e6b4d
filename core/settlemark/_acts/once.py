"""A value computed by its first requester, awaited by the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._protocol.holdings import Ticket, fire

T = TypeVar("T")

_NO_DEADLINE = 1e6  # the computation has deadlines of its own


class Once(Generic[T]):
    """A value computed by one program and given to many, across threads and tasks.

    Attributes:
        value: the value once computed, else None.
        failed: the exception that the computation raised, else None.
    """

    def __init__(self, what: str) -> None:
        self.value: T | None = None
        self.failed: BaseException | None = None
        self._what = what
        self._making = False
        self._waiting: list[Ticket] = []
        self._lock = threading.Lock()

    def get(self, make: Callable[[], Program[T]]) -> Program[T]:
        """Return the value; the first requester computes it.

        Raises:
            BaseException: the computation failed.
        """
        while not self._is_over():
            ticket = Ticket()
            with self._lock:
                mine = not (self._making or self._is_over())
                self._making = self._making or mine
                self._waiting.append(ticket)
            if mine:
                yield from self._made(make())
            elif not self._is_over():
                yield Wait(ticket, _NO_DEADLINE, self._what, self._what)
        if self.failed is not None:
            raise self.failed
        return cast("T", self.value)

    def _is_over(self) -> bool:
        return self.value is not None or self.failed is not None

    def _made(self, make: Program[T]) -> Program[None]:
        try:
            self.value = yield from make
        except Exception as error:
            self.failed = error
            raise
        finally:
            with self._lock:
                self._making = False  # an interrupted requester leaves the computation to the next
                waiting, self._waiting = self._waiting, []
            fire(waiting)


__all__ = ["Once"]
