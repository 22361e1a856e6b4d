"""Acting on the world once: try, tell failed from unknown, ask the counterparty, undo.

Every function here is a program for a runner: it yields requests and returns an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from settlemark._current import CurrentCall
from settlemark._effect import UNKNOWN, Declaration, Effect, EffectClass, Outcome
from settlemark._errors import InDoubt, PartialCommit, SettlemarkError
from settlemark._requests import Act, Request, Sleep
from settlemark._states import Tag

Program = Generator[Request, Any, Any]

# A final act is never cancelled from outside: a CancelledError is the handler's own, as is sys.exit().
_NOT_THE_HANDLERS = (GeneratorExit, KeyboardInterrupt)
_UNKNOWN_NAMES = frozenset({"ConnectionError", "TransportError", "Timeout", "TimeoutException"})


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a faulted call is tried in all, and the pause before each retry, in seconds."""

    tries: int = 3
    first: float = 0.05
    factor: float = 1.5
    most: float = 1.0

    def pause(self, failures: int) -> float:
        """Return how long to wait after this many failures.

        >>> [Retries().pause(n) for n in (1, 2, 10)]
        [0.05, 0.07500000000000001, 1.0]
        """
        return min(self.first * self.factor ** (failures - 1), self.most)


def leaves_unknown(error: BaseException, declaration: Declaration) -> bool:
    """Whether an exception leaves open if the effect happened: timeouts, lost connections, cancellation.

    Libraries have their own timeout classes that are no `TimeoutError`: those are known by name. A
    settlement inside the tool knows for itself what it left.
    """
    if isinstance(error, SettlemarkError):
        return isinstance(error, InDoubt | PartialCommit)
    if not isinstance(error, Exception) or isinstance(error, (TimeoutError, ConnectionError, *declaration.unknown)):
        return True
    return any(c.__name__ in _UNKNOWN_NAMES or c.__name__.endswith("Timeout") for c in type(error).__mro__)


def perform(
    effect: Effect,
    run: Callable[[], Any],
    current: CurrentCall,
    retries: Retries,
    *,
    retry_failures: bool,
    final: bool,
    let_through: tuple[type[BaseException], ...] = (),
) -> Program:
    """Run an effect until its outcome is known, and return its result.

    One whose outcome is unknown from before (its process ended in between) is resolved first.

    A failure is retried when asked; an unknown outcome is probed, else re-issued under the same key
    where the counterparty honours it. `effect.outcome` says what came of it, also when this raises.

    Raises:
        InDoubt: nobody can tell whether it happened.
        BaseException: whatever the tool raised, when it did not happen.
    """
    failures = 0
    declaration = effect.declaration
    if effect.outcome is Outcome.UNKNOWN:
        found = yield from probe(effect, current)
        if found is not UNKNOWN and found is not None:
            effect.confirm(found)
            return effect.result
        if found is UNKNOWN and not declaration.keyed:
            raise in_doubt(effect)
    while True:
        try:
            result = yield Act(run, {}, current, final)
        except GeneratorExit:
            raise
        except let_through:
            raise
        except BaseException as error:
            failures += 1
            # A read leaves nothing in the world that could be in doubt.
            unknown = declaration.kind is not EffectClass.READ and leaves_unknown(error, declaration)
            found = yield from probe(effect, current)
            if found is not UNKNOWN and found is not None:
                effect.confirm(found)
                if not isinstance(error, Exception):
                    raise
                return effect.result
            absent = unknown and found is None
            unknown = unknown and found is UNKNOWN
            effect.outcome = Outcome.UNKNOWN if unknown else Outcome.FAILED
            effect.error = f"{type(error).__name__}: {error}"
            if not isinstance(error, Exception):
                raise
            may_retry = declaration.keyed if unknown else (retry_failures or absent)
            if may_retry and failures < retries.tries:
                yield Sleep(retries.pause(failures), final)
                continue
            if unknown:
                raise in_doubt(effect) from error
            raise
        else:
            effect.outcome, effect.result, effect.error = Outcome.CONFIRMED, result, None
            return result


def in_doubt(effect: Effect) -> InDoubt:
    """Return the error that says an outcome is unknown and must not be repeated blindly."""
    return InDoubt(
        f"the outcome of {effect.declaration.tool} on {effect.scope_text} is unknown ({effect.error}):"
        " do not repeat it; ask the counterparty, or declare probe= or keyed=True so that settlemark can",
        key=effect.key, tool=effect.declaration.tool, scope=effect.scope_text,
    )  # fmt: skip


def probe(effect: Effect, current: CurrentCall) -> Program:
    """Ask the counterparty: return the effect's result, None for absent, `UNKNOWN` when it cannot tell."""
    handler = effect.declaration.probe
    if handler is None:
        return UNKNOWN
    try:
        arguments = handler.bind(effect.for_handlers(), result=effect.plain_result(), key=effect.key)
        return (yield Act(handler.function, arguments, current, final=True))
    except _NOT_THE_HANDLERS:
        raise
    except BaseException:
        return UNKNOWN


def undo(effect: Effect, current: CurrentCall, retries: Retries) -> Program:
    """Undo one executed effect as far as possible; return True when nothing of it stays.

    `effect.outcome`, `tag` and `note` say what became of it. Never raises for the world's faults.
    """
    declaration = effect.declaration
    if effect.outcome is Outcome.UNKNOWN or declaration.kind is EffectClass.IDEMPOTENT:
        found = yield from probe(effect, current)
        if found is None:
            effect.outcome, effect.tag = Outcome.FAILED, Tag.CLEAN
            return True
        if found is not UNKNOWN:
            effect.confirm(found)
    if effect.outcome is Outcome.UNKNOWN:
        effect.tag = Tag.UNRESOLVED
        effect.note = "nobody can tell whether it happened: ask the counterparty"
        return False
    handler = declaration.undo
    if handler is None:
        effect.tag = Tag.UNRESOLVED
        effect.note = f"it happened, and {declaration.kind} effects of {declaration.tool} have no undo"
        return False
    failures = 0
    while True:
        try:
            bound = handler.bind(effect.for_handlers(), result=effect.plain_result(), key=effect.key)
            yield Act(handler.function, bound, current, final=True)
        except _NOT_THE_HANDLERS:
            raise
        except BaseException as error:
            failures += 1
            if failures < retries.tries:
                yield Sleep(retries.pause(failures), final=True)
                continue
            effect.tag = Tag.UNRESOLVED
            effect.note = f"its undo failed {failures} times: {type(error).__name__}: {error}"
            return False
        effect.outcome = Outcome.UNDONE
        if declaration.cost is None:
            effect.tag = Tag.CLEAN
            return True
        effect.tag, effect.note = Tag.UNRESOLVED, f"undone, but a cost stays: {declaration.cost}"
        return False
