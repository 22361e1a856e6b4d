"""Waiting for an answer from two sides at once: this process's approver, and another process."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any

FIRST_PAUSE, LONGEST_PAUSE, SLOWER = 0.2, 2.0, 1.5


def either(ask: Callable[[Any], Any], heard: Callable[[], Any]) -> Callable[[Any], Any]:
    """Return a function that asks `ask`, and answers with whichever comes first: its answer or one `heard` elsewhere.

    `heard` returns None while there is no answer. When `heard` is first, the answer of `ask` is ignored.
    """
    if inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None)):  # noqa: B004
        return lambda gate: _first_async(ask, gate, heard)
    return lambda gate: _first(ask, gate, heard)


def _first(ask: Callable[[Any], Any], gate: Any, heard: Callable[[], Any]) -> Any:
    done = threading.Event()
    answers: list[Any] = []
    failures: list[BaseException] = []
    context = contextvars.copy_context()

    def asking() -> None:
        try:
            answers.append(context.run(ask, gate))
        except BaseException as error:  # re-raised where the answer is awaited
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=asking, name="settlemark-approver", daemon=True).start()
    pause = FIRST_PAUSE
    while not done.wait(pause):
        pause = min(pause * SLOWER, LONGEST_PAUSE)
        found = heard()
        if found is not None:
            return found
    if failures:
        raise failures[0]
    return answers[0]


async def _first_async(ask: Callable[[Any], Any], gate: Any, heard: Callable[[], Any]) -> Any:
    asking = asyncio.ensure_future(ask(gate))
    pause = FIRST_PAUSE
    try:
        while True:
            done, _ = await asyncio.wait([asking], timeout=pause)
            if done:
                return asking.result()
            pause = min(pause * SLOWER, LONGEST_PAUSE)
            found = await asyncio.to_thread(heard)
            if found is not None:
                return found
    finally:
        asking.cancel()


__all__ = ["either"]
