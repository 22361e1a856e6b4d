"""Asking somebody what a failed call is to mean: try it again, go on without it, or undo the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast, get_args

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._acts.requests import Request
from settlemark._edges.errors import UsageError
from settlemark._model.disposition import Disposed, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import State

T = TypeVar("T")

Verdict = Literal["retry", "skip", "abort"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed for certain: what `ask=` is given.

    Attributes:
        transaction: the transaction's name.
        tool: the tool's name.
        arguments: what it was called with.
        scope: what it acts on.
        error: what it raised.
        tries: how often somebody was asked about it, this time included.
        held: it had been acknowledged, and failed when it was to leave.
    """

    transaction: str
    tool: str
    arguments: Mapping[str, Any]
    scope: str
    error: Exception
    tries: int
    held: bool


Ask = Callable[[Failure], Any]
"""Returns a `Verdict`, or something to await that does."""


class Skipped(Exception):
    """The step goes on without a call that failed with this error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def until_answered(
    effect: Effect,
    once: Callable[[], Program[T]],
    ours: Callable[[], Program[None]],
    *,
    ask: Callable[[Failure], Request] | None,
    transaction: str,
    state: Callable[[], State | None],
    held: bool,
    let_through: tuple[type[BaseException], ...] = (),
) -> Program[T]:
    """Perform an effect, and again for as long as whoever is asked about its failures says so, and it is `ours`.

    Only a failure is asked about: what may have happened must not be repeated, nor gone on without. `state` tells
    how the transaction stands, None when another worker has it: an answer for another state counts for nothing.

    Raises:
        Skipped: the step is to go on without it. UsageError: the answer is none.
        BaseException: what the last try raised.
    """
    tries = 0
    while True:
        tries += 1
        before = state()
        try:
            return (yield from once())
        except GeneratorExit:
            raise
        except let_through:
            raise
        except Exception as error:
            if ask is None or effect.outcome is not Outcome.FAILED or state() is None:
                raise
            failure = Failure(
                transaction, effect.declaration.tool, effect.shown(), effect.scope_text, error, tries, held
            )
            verdict = cast("object", (yield ask(failure)))
            if verdict not in get_args(Verdict):
                raise UsageError(
                    f"ask= answered {verdict!r} about {failure.tool}: it can be 'retry', 'skip' or 'abort'"
                ) from error
            if verdict == "abort" or state() is not before:
                raise
            if verdict == "skip":
                effect.disposed = Disposed(Disposition.SKIPPED)
                raise Skipped(error) from error
        yield from ours()  # people take their time


__all__ = ["Ask", "Failure", "Skipped", "Verdict", "until_answered"]
