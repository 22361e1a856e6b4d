"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from settlemark._acts.perform import Retries
from settlemark._api.settings import Injected

NOON = 1_767_268_800.0  # 2026-01-01 12:00 UTC: a plausible time for a ledger


class VirtualClock:
    """A clock that a test moves: `Settlement(url, **clock.options())` reads its time and pauses by it.

    Calling it returns the wall time, `monotonic()` the seconds since it was made. Safe for threads.

    Laws: only `advance` and `sleep` move it, never back; wall and monotonic time move together; a function planned with
    `at` is called once, in order of time, while the clock shows that very time.

    It does not move waits for other transactions: these take real time, up to `wait=` seconds; with `wait=0` they end
    at once.

    Raises:
        ValueError: it is asked to go back.

    >>> clock = VirtualClock()
    >>> rang = []
    >>> clock.at(30, lambda: rang.append(clock.monotonic()))
    >>> clock.advance(60)
    >>> (clock.monotonic(), rang)
    (60.0, [30.0])
    """

    def __init__(self, now: float = NOON) -> None:
        self._start = now
        self._passed = 0.0
        self._planned: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._lock = threading.RLock()

    def __call__(self) -> float:
        """The wall time, in seconds since 1970."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """The seconds that have passed since this clock was made."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Move the clock, and call the functions planned for that time."""
        if not seconds >= 0:
            raise ValueError(f"a clock cannot go back by {-seconds:g} s: make a new one")
        with self._lock:
            end = self._passed + seconds
            while self._planned and self._planned[0][0] <= end:
                due, _, function = heapq.heappop(self._planned)
                self._passed = max(self._passed, float(due))
                function()
            self._passed = max(self._passed, end)  # a called function may have moved it further

    sleep = advance
    """A replacement for `time.sleep` that takes no time, and moves the clock."""

    def at(self, seconds: float, function: Callable[[], object]) -> None:
        """Call `function` when the clock reaches `seconds` (monotonic), in the thread that moves it."""
        if seconds < self._passed:
            raise ValueError(f"{seconds:g} s is past, it is {self._passed:g} s: plan what is to come")
        with self._lock:
            heapq.heappush(self._planned, (seconds, next(self._numbers), function))

    def retries(self, tries: int = 3, first: float = 0.05, factor: float = 1.5, most: float = 1.0) -> Retries:
        """Return `Retries` whose pauses pass on this clock.

        >>> clock = VirtualClock()
        >>> (clock.retries(first=2.0, most=5.0).pause(1), clock.monotonic())
        (0.0, 2.0)
        """
        return _VirtualRetries(tries, first, factor, most, clock=self)

    def options(self) -> dict[str, Any]:
        """Return a `Settlement`'s options for this clock's time: the clocks, and `retries`.

        >>> from settlemark import Settlement
        >>> with Settlement("memory:", **VirtualClock(0.0).options()) as settlement:
        ...     with settlement.transaction("trip-42") as tx:
        ...         _ = tx.call(print, "booked")
        ...     settlement.transactions()[0].row.at
        booked
        0.0
        """
        clocks = Injected(clock=self, monotonic=self.monotonic, store_clock=self)
        return {"injected": clocks, "retries": self.retries()}


@dataclass(frozen=True, slots=True)
class _VirtualRetries(Retries):
    clock: VirtualClock = field(default_factory=VirtualClock)

    def pause(self, failures: int) -> float:
        """Let the pause pass on the clock: the caller has nothing left to wait for."""
        # Not super(): a dataclass with slots is a new class, and its methods refer to the first one.
        self.clock.sleep(Retries.pause(self, failures))
        return 0.0
