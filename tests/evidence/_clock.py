"""An event loop whose time passes only when nobody has anything to do: every interleaving is scripted, and at once.

A step at moment 2 runs when all that was possible before has happened and the rest waits for somebody. Nothing here
depends on how fast a machine is.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
LOOK = 1e-6


class _Selector(selectors.DefaultSelector):
    """Never sleeps: what it was asked to wait for has passed when it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None or self.threads:  # somebody else is at work, in a thread
            return super().select(None)
        self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time. What runs in a thread takes no time."""

    def __init__(self) -> None:
        self.selector = _Selector()
        super().__init__(self.selector)

    def time(self) -> float:
        # A look at the clock takes a moment, as everywhere: of two who sleep equally long the first wakes first.
        self.selector.now += LOOK
        return self.selector.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        self.selector.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: object) -> None:
        self.selector.threads -= 1


def play(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)


__all__ = ["VirtualLoop", "play"]
