"""Worker threads for tasks: as many as there is work at a time.

The event loop's own executor has a handful of threads, and belongs to the application. A tool in one of its threads may
wait for a transaction whose next call waits for a thread: with all threads taken, nothing moves until a wait times out.
So settlemark has its own threads, reuses idle ones, and never waits for a busy one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from settlemark.ledger._forking import Origin

_T = TypeVar("_T")
_MOST = 1 << 14  # more than any machine can run: the machine's own limit applies
_lock = threading.Lock()
_pool: tuple[Origin, ThreadPoolExecutor] | None = None


def executor() -> ThreadPoolExecutor:
    """Return this process's threads; a forked child does not inherit its parent's."""
    global _pool, _lock  # noqa: PLW0603 - a process has one
    if _pool is not None and _pool[0].is_elsewhere:
        _pool, _lock = None, threading.Lock()
    with _lock:
        if _pool is None:
            _pool = (Origin(), ThreadPoolExecutor(_MOST, thread_name_prefix="settlemark-call"))
        return _pool[1]


async def in_thread(function: Callable[..., _T], /, *args: object, **kwargs: object) -> _T:
    """Call a function in a thread, in a copy of this context, and return its result; starts at once.

    >>> import asyncio
    >>> asyncio.run(in_thread(sum, [1, 2]))
    3
    """
    context = copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor(), lambda: context.run(function, *args, **kwargs))


__all__ = ["executor", "in_thread"]
