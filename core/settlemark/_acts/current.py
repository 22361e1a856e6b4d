"""The call a tool is running for, as the tool itself can ask for it."""

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

    Attributes: `tool`, the name of what was called, and `key`, the idempotency key under which it is to be applied.
    """

    __slots__ = ("key", "tool")

    def __init__(self, tool: str, arguments: Mapping[str, Any], key: str = "") -> None:
        self.tool = tool
        self.key = key
        super().__init__(arguments)


class Within(Protocol):
    """What a call keeps of the transaction it is made in; see `settlemark._attempt.attempt.Inside`."""

    effect: Effect
    joined: int
    over: bool

    def staged(self, scope: Scope) -> list[Staged]:
        """Return the requests that its transaction has staged on a scope, in order."""
        ...

    def calls_again(self) -> None:
        """Note that the tool is called: what it called within, before, is to be asked for again."""
        ...


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
    _inside: Within | None = field(default=None, repr=False, compare=False)
    _around: Callable[[], AbstractContextManager[None]] | None = field(default=None, repr=False, compare=False)

    @property
    def effect(self) -> Effect | None:
        """The effect that is made, undone or asked about; None where only its key is known."""
        return None if self._inside is None else self._inside.effect

    def staged(self, scope: str) -> list[Staged]:
        """Return the requests this transaction has staged on a scope and not yet applied, in order."""
        return [] if self._inside is None else self._inside.staged(Scope.parse(scope))

    def _end(self) -> None:
        """Note that the call is over: what is begun from here on, in a thread it left behind, is no part of it."""
        if self._inside is not None:
            self._inside.over = True

    def _calls(self) -> None:
        """Note that its tool is called, perhaps again: what it called within, before, is to be asked for again."""
        if self._inside is not None:
            self._inside.calls_again()

    def _begun(self) -> CurrentCall:
        """Return it as it is when its tool begins: what joined an earlier try joins again under the same names."""
        if self._inside is not None:
            self._inside.joined = 0
        return self


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
