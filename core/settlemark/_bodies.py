"""In whose body a caller is: who enters a name there again would wait for itself.

What a call of a tool runs in is known from its call. This is about the code between: the block of a `with` statement,
the function given to `settlement.run`, and the tasks and threads that are begun there with its context.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any
from weakref import ref

# By reference, not by `id()`: a context may outlive its driver, and the next driver may stand in the same place.
_entered: ContextVar[tuple[tuple[ref[object], str], ...]] = ContextVar("settlemark_entered", default=())


def enter_body(driver: object, name: str) -> None:
    """Take note that the caller is in the body of a transaction from now on."""
    _entered.set((*_entered.get(), (ref(driver), name)))


def leave_body(driver: object, name: str) -> None:
    """Take that back; in another context than it was entered in there is nothing to take back."""
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


__all__ = ["enter_body", "in_body", "is_in_body", "leave_body"]
