"""Clocks of frameworks that run on by events: what has a time limit is out of time when a test says so, never else."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from types import SimpleNamespace

LIMIT = 100.0
"""A time limit, in seconds, that only a clock of this file can use up."""


def use_up(loop=None):
    """Let more time than the limit go by in a running event loop: its timers are due at once."""
    loop = loop or asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + 2 * LIMIT
    loop.call_soon(lambda: None)  # it looks at its clock again


class StepClock:
    """The clock by which LangGraph's sync runner counts `step_timeout`."""

    def __init__(self, monkeypatch):
        from langgraph.pregel import _runner

        self._over, self._waits = concurrent.futures.Future(), threading.Event()
        futures = SimpleNamespace(**{**vars(concurrent.futures), "wait": self._wait})
        monkeypatch.setattr(_runner, "concurrent", SimpleNamespace(futures=futures))
        monkeypatch.setattr(_runner, "time", SimpleNamespace(**{**vars(time), "monotonic": self._monotonic}))

    def use_up(self):
        """Let more time than the limit go by, once the step's time has begun: its calls may be faster than that."""
        assert self._waits.wait(LIMIT)
        self._over.set_result(None)

    def _monotonic(self):
        return time.monotonic() + (2 * LIMIT if self._over.done() else 0)

    def _wait(self, futures, timeout=None, return_when=concurrent.futures.ALL_COMPLETED):
        if timeout is None or return_when != concurrent.futures.FIRST_COMPLETED:
            return concurrent.futures.wait(futures, timeout, return_when)
        self._waits.set()
        try:
            done, others = concurrent.futures.wait([*futures, self._over], timeout, return_when)
        finally:
            self._waits.clear()
        return done - {self._over}, others - {self._over}


__all__ = ["LIMIT", "StepClock", "use_up"]
