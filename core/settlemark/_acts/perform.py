"""One act on the world: call, tell failed from unknown, ask the counterparty, retry.

Every function here is a program for a runner: a generator that yields requests and returns an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect, Frozen
from settlemark._acts.requests import Act, Request, Sleep
from settlemark._edges.errors import InDoubt, LedgerError, PartialCommit, Refused, SettlemarkError
from settlemark._edges.user_code import Unfinished
from settlemark._edges.wording import in_words, is_a, is_cut_off, parts_of
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import Disposed
from settlemark._model.effect_class import UNKNOWN, EffectClass, Outcome

T = TypeVar("T")

Program = Generator[Request, Any, T]

# A final act is never cancelled from outside: CancelledError, and SystemExit too, come from the handler itself.
_NOT_THE_HANDLERS = (GeneratorExit, KeyboardInterrupt)
_UNKNOWN_NAMES = frozenset({"ConnectionError", "TransportError", "Timeout", "TimeoutException"})

CUT_OFF = "its process ended before the answer was recorded"
SILENT = "its worker fell silent before the answer was recorded, and may still be sending it"
NOBODY_KNOWS = Disposed(note="nobody can tell whether it happened: ask the counterparty")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a failed call is tried in all, and the pause before each retry (seconds)."""

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


class Inquiry(Protocol):
    """How `perform` learns what became of an effect; the engine's doubt service implements this."""

    def ask(self, effect: Effect, current: CurrentCall, retries: Retries | None, *, final: bool) -> Program[object]:
        """Return the result, None for absent, or `UNKNOWN`; with `retries`, ask again while the answer is `UNKNOWN`."""
        ...

    def is_forgotten(self, effect: Effect) -> bool:
        """Whether the counterparty has forgotten the key by now: the call must not be sent again."""
        ...

    def sends_again(self, effect: Effect) -> Program[None]:
        """Record that this worker now sends a call which a dead worker may still be sending."""
        ...


def leaves_unknown(error: BaseException, declaration: Declaration) -> bool:
    """Whether an exception leaves open if the effect happened: timeouts, lost connections, cancellation.

    A cancellation counts too when a clean-up's exception hides the cancellation, and so does any of these inside an
    exception group. Libraries' own timeout classes that do not derive from `TimeoutError` are known by name. Errors of
    a settlement inside the tool say themselves whether anything is unknown.
    """
    return is_a(error, declaration.unknown) or any(_leaves_unknown(part, declaration) for part in parts_of(error))


def _leaves_unknown(error: BaseException, declaration: Declaration) -> bool:
    if is_cut_off(error):
        return True
    if is_a(error, SettlemarkError):
        return is_a(error, (InDoubt, PartialCommit, Unfinished))
    known: tuple[type[BaseException], ...] = (TimeoutError, ConnectionError, *declaration.unknown)
    if is_a(error, known):
        return True
    return any(c.__name__ in _UNKNOWN_NAMES or c.__name__.endswith("Timeout") for c in type(error).__mro__)


def perform(
    effect: Effect,
    run: Callable[[], Any],
    current: CurrentCall,
    retries: Retries,
    inquiry: Inquiry,
    ours: Callable[[], Program[None]],
    *,
    retry_failures: bool,
    final: bool,
    let_through: tuple[type[BaseException], ...] = (),
) -> Program[Any]:
    """Run an effect until its outcome is known, and return its result.

    An effect that is unknown from before (its process ended in between) is resolved first. A failure is retried when
    asked; an unknown outcome is probed, or re-issued under the same key where the counterparty honours keys and still
    remembers this one. `effect.outcome` is set also when this raises. The caller has just checked that this worker owns
    the act; `ours` checks again before each try that follows a wait.

    Raises:
        InDoubt: nobody can tell whether the effect happened.
        Refused: the effect did not happen before its process ended, and its key is too old to send now.
        BaseException: the tool's exception, when the effect did not happen; or the exception of `ours`.
    """
    failures = 0
    doubt = False  # an earlier try may have happened, even when a later one fails for certain
    waited = effect.outcome is Outcome.UNKNOWN
    if waited:
        asked = yield from _ask_first(effect, current, retries, inquiry, ours, final=final)
        if asked is None:
            return effect.result
        doubt = asked
    while True:
        if waited:
            yield from ours()
        current._calls(effect)  # noqa: SLF001 - the calls made inside the tool are expected anew
        act: Act | None = None
        try:
            act = Act(run.fresh() if isinstance(run, Frozen) else run, {}, current, final)
            result = yield act
        except GeneratorExit:
            raise
        except let_through:
            raise
        except BaseException as error:
            failures += 1
            tries = _Tries(failures, retries, retry_failures)
            acted = is_a(error, Exception) or (act is not None and act.begun)
            found = yield from _look_into(
                error, effect, current, tries, inquiry, ours, doubt=doubt, acted=acted, final=final
            )
            if found is None:
                return effect.result
            doubt = found
            waited = True
        else:
            effect.happened(result)
            return result


@dataclass(frozen=True, slots=True)
class _Tries:
    """How often a call has failed so far, and whether a certain failure alone is retried."""

    failed: int
    retries: Retries
    retry_failures: bool


def _look_into(
    error: BaseException,
    effect: Effect,
    current: CurrentCall,
    tries: _Tries,
    inquiry: Inquiry,
    ours: Callable[[], Program[None]],
    *,
    doubt: bool,
    acted: bool,
    final: bool,
) -> Program[bool | None]:
    """Find out what a call that raised has done; return None when the effect happened after all.

    When the call may be tried again, pause, and return whether an earlier try may have happened. Else raise.
    """
    declaration, retries = effect.declaration, tries.retries
    # A read leaves nothing in doubt, nor does an interrupt that came before the tool was called.
    unknown = doubt or (acted and declaration.kind is not EffectClass.READ and leaves_unknown(error, declaration))
    # Set before the probe: a cancellation during the probe leaves the outcome as set here.
    effect.outcome = Outcome.UNKNOWN if unknown else Outcome.FAILED
    effect.error = in_words(error)
    found = yield from inquiry.ask(
        effect, current, retries if unknown and is_a(error, Exception) else None, final=final
    )
    if found is not UNKNOWN and found is not None:
        if is_a(error, Exception):
            effect.outcome = Outcome.UNKNOWN  # the effect happened, but another worker may have taken over meanwhile
            yield from ours()
        _confirm(effect, found)
        if not is_a(error, Exception):
            raise error
        return None
    absent = unknown and found is None
    unknown = unknown and found is UNKNOWN
    effect.outcome = Outcome.UNKNOWN if unknown else Outcome.FAILED
    if not is_a(error, Exception):
        raise error
    may_retry = declaration.keyed if unknown else (tries.retry_failures or absent)
    if may_retry and inquiry.is_forgotten(effect):
        effect.error = f"{effect.error}; {_forgotten(effect)}"
    elif may_retry and tries.failed < retries.tries:
        yield Sleep(retries.pause(tries.failed), final)
        return unknown
    if unknown:
        raise in_doubt(effect) from error
    raise error


def _ask_first(
    effect: Effect,
    current: CurrentCall,
    retries: Retries,
    inquiry: Inquiry,
    ours: Callable[[], Program[None]],
    *,
    final: bool,
) -> Program[bool | None]:
    """Find out about an effect that is unknown from before; return None when the effect happened.

    When the effect may be sent again, return whether it may have happened. Else raise.
    """
    found = yield from inquiry.ask(effect, current, retries, final=final)
    if found is not UNKNOWN and found is not None:
        yield from ours()
        _confirm(effect, found)
        return None
    doubt = found is UNKNOWN
    effect.error = effect.error or CUT_OFF
    forgotten = inquiry.is_forgotten(effect)
    if doubt and (forgotten or not effect.declaration.keyed):
        if forgotten and effect.declaration.keyed:
            effect.error = f"{effect.error}; {_forgotten(effect)}"
        raise in_doubt(effect)
    if forgotten:
        raise _too_late(effect, current)
    if effect.sender is not None:
        yield from inquiry.sends_again(effect)
    return doubt


def in_doubt(effect: Effect) -> InDoubt:
    """Return the error for an outcome that is unknown, and must not be repeated blindly."""
    declaration = effect.declaration
    if declaration.probe is not None:
        advice = "settlemark goes on asking its counterparty"
    elif effect.missing is not None:
        advice = f"declare {effect.missing} in this process, so that settlemark can ask"
    else:
        advice = "ask the counterparty, or declare probe= so that settlemark can"
    return InDoubt(
        f"the outcome of {declaration.tool} on {effect.scope_text} is unknown ({effect.error or CUT_OFF}): do not"
        f" repeat it; {advice}; tell what you know with settlement.resolve({effect.key!r}, …)",
        key=effect.key,
        tool=declaration.tool,
        scope=effect.scope_text,
    )


def _forgotten(effect: Effect) -> str:
    return f"not sent again: its counterparty remembers a key for {effect.declaration.window:g} s, which have passed"


def _too_late(effect: Effect, current: CurrentCall) -> Refused:
    """Record an effect as absent for good, and return the error that says why the call is not sent now."""
    effect.outcome = Outcome.FAILED
    effect.error = f"{effect.error}; it did not happen, and is {_forgotten(effect)}"
    return Refused(
        f"{effect.declaration.tool} on {effect.scope_text} did not happen, and is {_forgotten(effect)}; make a new"
        " call, which gets a new key",
        transaction=current.transaction,
        epoch=current.epoch,
        key=effect.key,
    )


def _confirm(effect: Effect, found: Any) -> None:
    effect.confirm(found)
    effect.error = None


def probe(effect: Effect, current: CurrentCall) -> Program[object]:
    """Ask the counterparty: return the effect's result, None for absent, or `UNKNOWN`."""
    handler = effect.declaration.probe
    if handler is None or "probe" in effect.withheld:
        return UNKNOWN
    try:
        arguments = handler.bind(effect.for_handlers(), result=effect.own_result(), key=effect.key)
        return (yield Act(handler.function, arguments, current, final=True))
    except _NOT_THE_HANDLERS:
        raise
    except BaseException:
        return UNKNOWN


def refuse_withheld(effect: Effect, role: str) -> None:
    """Refuse to run a handler for which the record lacks data.

    Raises:
        LedgerError: the handler would get a marker in place of redacted or lost data.
    """
    if role in effect.withheld:
        raise LedgerError(effect.withheld[role], key=effect.key)
