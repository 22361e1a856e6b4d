"""Calls an act's function with `current_call()` set and the observer's context entered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from contextvars import Context, copy_context
from typing import Any

from settlemark._acts.current import _current
from settlemark._acts.requests import Act
from settlemark._edges.shield import (
    closed,
    lifted,
)
from settlemark._edges.user_code import (
    awaited,
    through,
)


@closed
def call_with_current(act: Act, *, strikes: bool = False) -> Any:
    """Call an act's function with `current_call()` set; with `strikes`, signals may be delivered inside of it.

    Around the function no signal is delivered: one between two instructions here would leave the thread inside of a
    call that is over.
    """
    act.begun = True
    before = _current.get()
    try:
        around = act.around
        if act.current is not None:
            _current.set(act.current._begun())  # noqa: SLF001 - a runner begins the call
            around = act.current._around  # noqa: SLF001
        if around is not None:
            return _struck(_called_in, around, act) if strikes else _called_in(around, act)
        if strikes:
            return _struck(through, act.function, **act.arguments)
        return through(act.function, **act.arguments)
    finally:
        _current.set(before)


@lifted
def _struck(call: Callable[..., Any], /, *given: Any, **arguments: Any) -> Any:
    return call(*given, **arguments)


def _called_in(around: Callable[[], AbstractContextManager[None]], act: Act) -> Any:
    with around():
        return through(act.function, **act.arguments)


def outside() -> Context:
    """Return a copy of this context outside of any call."""
    context = copy_context()
    context.run(_current.set, None)
    return context


def in_event_loop() -> bool:
    """Whether this thread is running an event loop, which a wait would block."""
    return running_loop() is not None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return this thread's running event loop, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def with_current(act: Act, work: Any) -> Any:
    if act.current is None:
        return await _surrounded(act.around, act, work)
    token = _current.set(act.current._begun())  # noqa: SLF001
    try:
        return await _surrounded(act.current._around, act, work)  # noqa: SLF001
    finally:
        with suppress(ValueError):  # closed by the garbage collector, in another context
            _current.reset(token)


async def _surrounded(around: Callable[[], AbstractContextManager[None]] | None, act: Act, work: Any) -> Any:
    if around is None:
        return await awaited(work, act.function)
    with around():
        return await awaited(work, act.function)
