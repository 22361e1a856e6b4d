"""An event loop in a thread of its own: for async clients, which belong to the loop they were made in."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from settlemark import UsageError

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for synchronous callers, from whatever thread or loop they call.

    >>> with LoopThread("doc") as loop:
    ...     loop.run(asyncio.sleep(0, "done"))
    'done'
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"settlemark-{name}", daemon=True)
        self._closing = threading.Lock()
        self._closed = False
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine and return its result; after `timeout` seconds it is cancelled.

        Raises:
            TimeoutError: it was not done in time.
            UsageError: the loop is closed; nothing was run.
        """
        with self._closing:  # `close` cancels what has begun by then; a later call would wait for ever
            if self._closed or not self._thread.is_alive():
                coroutine.close()
                raise UsageError("this adapter is closed: make another one")
            running = asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, timeout), self._loop)
        return running.result()

    def close(self) -> None:
        """Cancel what still runs, and end the thread. A second call does nothing."""
        with self._closing:
            if self._closed:
                return
            self._closed = True

        async def cancel() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(cancel(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


__all__ = ["LoopThread"]
