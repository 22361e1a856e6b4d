"""The call a tool is running for, as the tool itself can ask for it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import Any

from settlemark._scope import Scope


def _nothing_staged(_scope: Scope) -> list[dict[str, Any]]:
    return []


@dataclass(slots=True)
class CurrentCall:
    """Who a tool is acting for.

    Attributes:
        key: the idempotency key to send to the counterparty; the same for every retry of the call.
        transaction: the transaction's name.
        epoch: its place in the settlement order when the call began.
        attempt: 1 for the first try of the transaction.
    """

    key: str
    transaction: str
    epoch: int
    attempt: int
    _staged: Callable[[Scope], list[dict[str, Any]]] = field(default=_nothing_staged, repr=False, compare=False)

    def staged(self, scope: str) -> list[dict[str, Any]]:
        """Return the requests this transaction has staged on a scope and not yet applied, in order."""
        return self._staged(Scope.parse(scope))


_current: ContextVar[CurrentCall | None] = ContextVar("settlemark_current_call", default=None)


def current_call() -> CurrentCall | None:
    """Return the call the running tool acts for, or None outside of one.

    >>> current_call() is None
    True
    """
    return _current.get()


def carried_into(context: Context) -> Context:
    """Return a copy of a context in which `current_call()` is what it is here."""
    copy = context.copy()
    copy.run(_current.set, _current.get())
    return copy
