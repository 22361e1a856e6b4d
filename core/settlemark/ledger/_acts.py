"""This process's acts in flight: calls, releases and undos that have begun and not returned.

A worker that lost its lease, or was closed, may still be sending. Its name stays on the store's list of such workers
until its last act has returned and the outcome is recorded.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

_SLICE_SECONDS = 60.0  # a lock's wait must be bounded


class _Out:
    """An act in flight: under which worker's name ("" for a program that only decides), in which thread or loop."""

    __slots__ = ("_acts", "place", "worker")

    def __init__(self, acts: Acts, worker: str) -> None:
        self._acts = acts
        self.worker = worker
        self.place = _place()

    def __enter__(self) -> None:
        acts = self._acts
        with acts.changed:
            acts.now[self] = None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        acts, worker = self._acts, self.worker
        if worker and kind is not None and issubclass(kind, GeneratorExit):
            acts.lost.add(worker)  # its program was collected: nobody will ever learn that it returned
        with acts.changed:
            del acts.now[self]
            on_back = acts.on_back
            if on_back is not None and (not worker or acts.of(worker)):
                on_back = None
            acts.changed.notify_all()
        if on_back is not None:
            on_back(worker)


class Acts:
    """The acts in flight, and the programs that run between them.

    Attributes:
        out: marks an act of a worker as in flight, from before the last lease check until its outcome is noted.
        on_back: called with a worker's name when the last of its acts has returned.
        now: what is in flight; guarded, as all of it, by `changed`.
        lost: workers with an act that will never be known to have returned.
    """

    def __init__(self) -> None:
        self.out: Callable[[str], AbstractContextManager[None]] = partial(_Out, self)
        self.on_back: Callable[[str], None] | None = None
        self.changed = threading.Condition()
        self.now: dict[_Out, None] = {}
        self.lost: set[str] = set()

    def under_way(self) -> AbstractContextManager[None]:
        """Mark a program as running: `wait` waits for its end."""
        return self.out("")

    def of(self, worker: str) -> bool:
        """Whether an act of this worker is, or may be, in flight."""
        return worker in self.lost or any(out.worker == worker for out in list(self.now))

    def wait(self, seconds: float) -> None:
        """Wait until all acts have returned, except those that cannot: the caller's own, or of a loop that stopped."""
        here = _place()
        deadline = time.monotonic() + seconds
        with self.changed:
            while any(out.place != here and _goes_on(out.place) for out in self.now):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self.changed.wait(min(left, _SLICE_SECONDS))


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


def _goes_on(place: object) -> bool:
    return not isinstance(place, asyncio.AbstractEventLoop) or place.is_running()


__all__ = ["Acts", "when_there"]
