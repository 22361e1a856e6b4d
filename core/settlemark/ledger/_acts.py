"""This process's acts in flight: calls, releases and undos that have begun and not returned.

A worker that lost its lease, or was closed, may still be sending. Its name stays on the store's list of such workers
until its last act has returned and the outcome is recorded.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

_SLICE_SECONDS = 60.0  # a lock's wait must be bounded


class _Out(NamedTuple):
    """Acts in flight: under which worker's name ("" for a program that only decides), and in which thread or loop."""

    worker: str
    place: object


class Acts:
    """The acts in flight, and the programs that run between them.

    Attributes:
        on_back: called with a worker's name when the last of its acts has returned.
    """

    def __init__(self) -> None:
        self.on_back: Callable[[str], None] | None = None
        self._changed = threading.Condition()
        self._out: dict[object, _Out] = {}
        self._lost: set[str] = set()

    @contextmanager
    def out(self, worker: str) -> Generator[None]:
        """Mark an act of this worker as in flight, from before the last lease check until its outcome is noted."""
        mark = object()
        with self._changed:
            self._out[mark] = _Out(worker, _place())
        try:
            yield
        except GeneratorExit:
            self._lost.update(
                {worker} if worker else ()
            )  # its program was collected: nobody will ever learn that it returned
            raise
        finally:
            with self._changed:
                del self._out[mark]
                over = bool(worker) and self.on_back is not None and not self.of(worker)
                self._changed.notify_all()
            if over and self.on_back is not None:
                self.on_back(worker)

    def under_way(self) -> AbstractContextManager[None]:
        """Mark a program as running: `wait` waits for its end."""
        return self.out("")

    def of(self, worker: str) -> bool:
        """Whether an act of this worker is, or may be, in flight."""
        return worker in self._lost or any(out.worker == worker for out in list(self._out.values()))

    def wait(self, seconds: float) -> None:
        """Wait until all acts have returned, except those that cannot return while the caller waits."""
        here = _place()
        deadline = time.monotonic() + seconds
        with self._changed:
            while any(out.place != here for out in self._out.values()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(min(left, _SLICE_SECONDS))


def when_there(method: weakref.WeakMethod[Callable[[str], None]]) -> Callable[[str], None]:
    """Return a weak call of a method: an object with a connection is collected with its last user."""

    def call(worker: str) -> None:
        found = method()
        if found is not None:
            found(worker)

    return call


def _place() -> object:
    """Return what must keep running for a program to finish: this thread's event loop, or this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return threading.get_ident()


__all__ = ["Acts", "when_there"]
