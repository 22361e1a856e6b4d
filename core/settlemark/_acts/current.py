"""The call that a tool is running for, as the tool itself sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from settlemark._model.scope import Scope

if TYPE_CHECKING:
    from settlemark._acts.effect import Effect


class Staged(dict[str, Any]):
    """The arguments of a call that is staged and not yet applied.

    Attributes: `tool`, the called tool's name, and `key`, the idempotency key that the application will use.
    """

    __slots__ = ("key", "tool")

    def __init__(self, tool: str, arguments: Mapping[str, Any], key: str = "") -> None:
        self.tool = tool
        self.key = key
        super().__init__(arguments)


class Within(Protocol):
    """The part of its transaction that a call keeps; see `settlemark._attempt.attempt.Inside`."""

    effect: Effect
    joined: int
    over: bool

    def staged(self, scope: Scope) -> list[Staged]:
        """Return the requests that the transaction has staged on a scope, in order."""
        ...

    def calls_again(self) -> None:
        """Note that the tool is called again: the calls made inside its earlier run are expected anew."""
        ...


@dataclass(slots=True)
class CurrentCall:
    """The call on whose behalf a tool acts.

    Attributes:
        key: the idempotency key to send to the counterparty; the same for every retry of the call.
        transaction: the transaction's name.
        epoch: the transaction's place in the settlement order when the call began.
        attempt: 1 for the first try of the transaction.
    """

    key: str
    transaction: str
    epoch: int
    attempt: int
    _inside: Within | None = field(default=None, repr=False, compare=False)
    _around: Callable[[], AbstractContextManager[None]] | None = field(default=None, repr=False, compare=False)

    @property
    def effect(self) -> Effect | None:
        """The effect that is made, undone or probed; None where only the key is known."""
        return None if self._inside is None else self._inside.effect

    def staged(self, scope: str) -> list[Staged]:
        """Return the requests that this transaction has staged on a scope and not yet applied, in order."""
        return [] if self._inside is None else self._inside.staged(Scope.parse(scope))

    def _end(self) -> None:
        """Note that the call is over: work that a left-behind thread starts later is no part of the call."""
        if self._inside is not None:
            self._inside.over = True

    def _calls(self, effect: Effect) -> None:
        """Note that the effect's tool is called, perhaps again: what an earlier run called inside is expected anew."""
        if self._inside is not None and self._inside.effect is effect:
            self._inside.calls_again()

    def _begun(self) -> CurrentCall:
        """Reset the call for a new run of its tool: transactions that joined an earlier run get the same names."""
        if self._inside is not None:
            self._inside.joined = 0
        return self


_current: ContextVar[CurrentCall | None] = ContextVar("settlemark_current_call", default=None)


def current_call() -> CurrentCall | None:
    """Return the call that the running tool acts for, or None outside of a call.

    >>> current_call() is None
    True
    """
    return _current.get()


def carried_into(context: Context) -> Context:
    """Return a copy of a context with the caller's `current_call()`."""
    copy = context.copy()
    copy.run(_current.set, _current.get())
    return copy
