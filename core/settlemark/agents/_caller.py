"""The context from which a tool was called: a call that is held may be run by another call's thread or task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar, cast

from settlemark._acts.current import carried_into
from settlemark._edges.user_code import awaited_to_its_end, outcome_of

T = TypeVar("T")


class Caller:
    """Who calls a tool: it runs in this context, in whatever thread or task, and with `current_call()` as it is there.

    Args:
        context: the caller's; that of this code by default.

    >>> from contextvars import ContextVar
    >>> user = ContextVar("user", default="nobody")
    >>> token = user.set("ada")
    >>> caller = Caller()
    >>> user.reset(token)
    >>> user.get(), caller.run(user.get)
    ('nobody', 'ada')
    """

    def __init__(self, context: Context | None = None) -> None:
        self._context = copy_context() if context is None else context

    def run(self, work: Callable[[], T]) -> T:
        """Run what does a tool's work in this thread; what that sets in its context is nobody else's."""
        return carried_into(self._context).run(work)

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a tool's work in a task of its own."""
        ended = await asyncio.create_task(awaited_to_its_end(work), context=carried_into(self._context))
        return cast("T", outcome_of(ended))


__all__ = ["Caller"]
