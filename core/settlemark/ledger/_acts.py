"""What of this process is out in the world: calls, releases and undos that have begun and are not back.

A worker that lost its lease, or was closed, may still be sending. Its name is taken off the list of those that may
when its last act is back, and what came of it is on record.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

_SLICE_SECONDS = 60.0  # a wait without end is none that a lock can make


class _Out(NamedTuple):
    """What is out: under which worker's name ("" for a program that only decides), and in whose hands it is."""

    worker: str
    place: object


class Acts:
    """The acts that are out, and the programs that are under way between them.

    Attributes:
        on_back: told a worker's name when the last of its acts is back.
    """

    def __init__(self) -> None:
        self.on_back: Callable[[str], None] | None = None
        self._changed = threading.Condition()
        self._out: dict[object, _Out] = {}
        self._lost: set[str] = set()

    @contextmanager
    def out(self, worker: str) -> Generator[None]:
        """Mark an act of this worker as out, from before the last look at its lease until its outcome is noted."""
        mark = object()
        with self._changed:
            self._out[mark] = _Out(worker, _place())
        try:
            yield
        except GeneratorExit:
            self._lost.update(
                {worker} if worker else ()
            )  # its program was thrown away: nobody will ever know that it is back
            raise
        finally:
            with self._changed:
                del self._out[mark]
                over = not self.of(worker)
                self._changed.notify_all()
            if worker and over and self.on_back is not None:
                self.on_back(worker)

    def under_way(self) -> AbstractContextManager[None]:
        """Mark a program as under way: `wait` waits for its end."""
        return self.out("")

    def of(self, worker: str) -> bool:
        """Whether an act of this worker is out, or may be."""
        return worker in self._lost or any(out.worker == worker for out in list(self._out.values()))

    def wait(self, seconds: float) -> None:
        """Wait until all is back, but for what cannot come back while the caller waits."""
        here = _place()
        deadline = time.monotonic() + seconds
        with self._changed:
            while any(out.place != here for out in self._out.values()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(min(left, _SLICE_SECONDS))


def when_there(method: weakref.WeakMethod[Callable[[str], None]]) -> Callable[[str], None]:
    """Return a call of a method that keeps nobody there: what has a connection goes when its last user does."""

    def call(worker: str) -> None:
        found = method()
        if found is not None:
            found(worker)

    return call


def _place() -> object:
    """Return what has to go on for a program to go on: this thread's event loop, or this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return threading.get_ident()


__all__ = ["Acts", "when_there"]
