"""Asking `ask=` what a failed call means: retry the call, skip the call, or abort the step."""

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
    """A call that failed for certain: the argument of `ask=`.

    Attributes:
        transaction: the transaction's name.
        tool: the tool's name.
        arguments: the call's arguments.
        scope: the resource the call acts on.
        error: the exception that the tool raised.
        tries: how often `ask=` was asked about this call, this time included.
        held: the call had been acknowledged, and failed at its release.
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
    """The step goes on without a call; `error` is how that call failed."""

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
    """Perform an effect, and repeat it while `ask` answers "retry" and this worker still owns the effect (`ours`).

    Only a certain failure is asked about: an effect that may have happened is neither repeated nor skipped. `state`
    returns the transaction's state, or None when another worker has taken over: an answer given for another state is
    ignored.

    Raises:
        Skipped: the answer was "skip".
        UsageError: the answer is none of the three.
        BaseException: the last try's exception.
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
                    f"ask= answered {verdict!r} about {failure.tool}: answer 'retry', 'skip' or 'abort'"
                ) from error
            if verdict == "abort" or state() is not before:
                raise
            if verdict == "skip":
                effect.disposed = Disposed(Disposition.SKIPPED)
                raise Skipped(error) from error
        yield from ours()  # a person's answer takes time: another worker may have taken over


__all__ = ["Ask", "Failure", "Skipped", "Verdict", "until_answered"]
