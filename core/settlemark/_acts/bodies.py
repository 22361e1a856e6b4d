"""Which transaction's body is running, so that a wait for that transaction, which would never end, is refused.

A tool's call knows its own transaction. This module covers the code between calls: the block of a `with` statement, the
function given to `settlement.run`, and the tasks and threads started there with its context. It also covers functions
that are no tool call and must return before their transaction ends: a hook, an approver, a `refine=`, an observer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any
from weakref import ref


# A weak reference, not `id()`: a context may outlive its driver, and the next driver may get the same address.
@dataclass(slots=True, eq=False)
class _Asked:
    driver: ref[object]
    name: str
    over: bool = False  # a thread started inside may outlive the call


_entered: ContextVar[tuple[tuple[ref[object], str], ...]] = ContextVar("settlemark_entered", default=())
_asked: ContextVar[tuple[_Asked, ...]] = ContextVar("settlemark_asked", default=())


def enter_body(driver: object, name: str) -> None:
    """Mark the caller as being in the body of a transaction."""
    _entered.set((*_entered.get(), (ref(driver), name)))


def leave_body(driver: object, name: str) -> None:
    """Undo `enter_body`; does nothing in a context that did not enter the body."""
    here = list(_entered.get())
    if (ref(driver), name) in here:
        here.remove((ref(driver), name))
        _entered.set(tuple(here))


def is_in_body(driver: object, name: str) -> bool:
    """Whether the caller is in the body of a transaction of this name."""
    return (ref(driver), name) in _entered.get()


def in_body(driver: object, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is the body of a transaction."""
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def run_async(*given: Any) -> Any:
            enter_body(driver, name)
            try:
                return await function(*given)
            finally:
                leave_body(driver, name)

        return run_async

    def run(*given: Any) -> Any:
        enter_body(driver, name)
        try:
            return function(*given)
        finally:
            leave_body(driver, name)

    return run


@contextmanager
def asked_for(driver: object, name: str) -> Generator[None]:
    """Mark the calling code as what must return before this transaction can end."""
    asked, before = _Asked(ref(driver), name), _asked.get()
    _asked.set((*before, asked))
    try:
        yield
    finally:
        asked.over = True
        _asked.set(before)


def names_asked_for(driver: object) -> list[str]:
    """Return the transactions that cannot end before the caller returns, the innermost last."""
    return [asked.name for asked in _asked.get() if asked.driver() is driver and not asked.over]


__all__ = ["asked_for", "enter_body", "in_body", "is_in_body", "leave_body", "names_asked_for"]
