"""Acting on the world once: try, tell failed from unknown, ask the counterparty, undo.

Every function here is a program for a runner: it yields requests and returns an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect, Frozen
from settlemark._acts.requests import Act, Request, Sleep
from settlemark._edges.door import Unfinished
from settlemark._edges.errors import InDoubt, LedgerError, PartialCommit, Refused, SettlemarkError
from settlemark._edges.wording import in_words, is_a, is_cut_off, parts_of
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import Disposed
from settlemark._model.effect_class import UNKNOWN, EffectClass, Outcome

T = TypeVar("T")

Program = Generator[Request, Any, T]

# A final act is never cancelled from outside: a CancelledError is the handler's own, as is sys.exit().
_NOT_THE_HANDLERS = (GeneratorExit, KeyboardInterrupt)
_UNKNOWN_NAMES = frozenset({"ConnectionError", "TransportError", "Timeout", "TimeoutException"})

CUT_OFF = "its process ended before the answer was recorded"
SILENT = "its worker fell silent before the answer was recorded, and may still be sending it"
NOBODY_KNOWS = Disposed(note="nobody can tell whether it happened: ask the counterparty")


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


class Inquiry(Protocol):
    """How a program learns what became of an effect: a driver's part."""

    def ask(self, effect: Effect, current: CurrentCall, retries: Retries | None, *, final: bool) -> Program[object]:
        """Return its result, None for absent, or `UNKNOWN`; with `retries` asked again while nobody can tell."""
        ...

    def is_forgotten(self, effect: Effect) -> bool:
        """Whether its counterparty has forgotten its key by now, so that it must not be sent again."""
        ...

    def sends_again(self, effect: Effect) -> Program[None]:
        """Record that this worker sends what a buried worker may still be sending."""
        ...


def leaves_unknown(error: BaseException, declaration: Declaration) -> bool:
    """Whether an exception leaves open if the effect happened: timeouts, lost connections, cancellation.

    A cancellation does so too where what a clean-up raised hides it, and each of these in a group of exceptions.
    Libraries have their own timeout classes that are no `TimeoutError`: those are known by name. A
    settlement inside the tool knows for itself what it left.
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

    One whose outcome is unknown from before (its process ended in between) is resolved first.

    A failure is retried when asked; an unknown outcome is asked about, else re-issued under the same key
    where the counterparty honours it, and while it remembers it. `effect.outcome` says what came of it,
    also when this raises. Whoever asked for this has just seen that the act is this worker's; before each try
    that something was waited for, `ours` sees to that again.

    Raises:
        InDoubt: nobody can tell whether it happened.
        Refused: it did not happen before its process ended, and its key is too old to send it now.
        BaseException: whatever the tool raised, when it did not happen; or what `ours` raised.
    """
    failures = 0
    doubt = False  # that a later try fails says nothing of an earlier one that may have happened
    waited = effect.outcome is Outcome.UNKNOWN
    if waited:
        asked = yield from _ask_first(effect, current, retries, inquiry, ours, final=final)
        if asked is None:
            return effect.result
        doubt = asked
    while True:
        if waited:
            yield from ours()
        if current.effect is effect:
            current._calls()  # noqa: SLF001 - what its tool calls within is expected anew
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
    """How often a call has failed by now, and whether a failure alone is a reason to try again."""

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
    """Find out what a call that raised has done; return None when it happened after all.

    When it is to be tried again, pause, and return whether an earlier try may have happened. Else raise.
    """
    declaration, retries = effect.declaration, tries.retries
    # A read leaves nothing in the world that could be in doubt, nor does what an interrupt came before.
    unknown = doubt or (acted and declaration.kind is not EffectClass.READ and leaves_unknown(error, declaration))
    # Known before it is asked about: who is cancelled while asking leaves it so.
    effect.outcome = Outcome.UNKNOWN if unknown else Outcome.FAILED
    effect.error = in_words(error)
    found = yield from inquiry.ask(
        effect, current, retries if unknown and is_a(error, Exception) else None, final=final
    )
    if found is not UNKNOWN and found is not None:
        if is_a(error, Exception):
            effect.outcome = Outcome.UNKNOWN  # it happened: unless it was another worker who did it meanwhile
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
    """Find out about an effect that is unknown from before; return None when it happened.

    When it may be sent again, return whether it may have happened. Else raise.
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
    """Return the error that says an outcome is unknown and must not be repeated blindly."""
    declaration = effect.declaration
    if declaration.probe is not None:
        advice = "settlemark goes on asking its counterparty"
    elif effect.missing is not None:
        advice = f"declare {effect.missing} in this process, so that settlemark can ask"
    else:
        advice = "ask the counterparty, or declare probe= so that settlemark can"
    return InDoubt(
        f"the outcome of {declaration.tool} on {effect.scope_text} is unknown ({effect.error or CUT_OFF}):"
        f" do not repeat it; {advice}; tell what you know with settlement.resolve({effect.key!r}, …)",
        key=effect.key,
        tool=declaration.tool,
        scope=effect.scope_text,
    )


def _forgotten(effect: Effect) -> str:
    return f"not sent again: its counterparty remembers a key for {effect.declaration.window:g} s, and they are over"


def _too_late(effect: Effect, current: CurrentCall) -> Refused:
    """Note that an effect is absent and stays so, and return the error that says why it is not sent now."""
    effect.outcome = Outcome.FAILED
    effect.error = f"{effect.error}; it did not happen, and is {_forgotten(effect)}"
    return Refused(
        f"{effect.declaration.tool} on {effect.scope_text} did not happen, and is {_forgotten(effect)};"
        " decide anew: a new call has a new key",
        transaction=current.transaction,
        epoch=current.epoch,
        key=effect.key,
    )


def _confirm(effect: Effect, found: Any) -> None:
    effect.confirm(found)
    effect.error = None


def probe(effect: Effect, current: CurrentCall) -> Program[object]:
    """Ask the counterparty: return the effect's result, None for absent, `UNKNOWN` when it cannot tell."""
    handler = effect.declaration.probe
    if handler is None or "probe" in effect.withheld:
        return UNKNOWN
    try:
        arguments = handler.bind(effect.for_handlers(), result=effect.plain_result(), key=effect.key)
        return (yield Act(handler.function, arguments, current, final=True))
    except _NOT_THE_HANDLERS:
        raise
    except BaseException:
        return UNKNOWN


def refuse_withheld(effect: Effect, role: str) -> None:
    """Return when a handler may run on what the record has.

    Raises:
        LedgerError: it would be given a marker in place of what was taken out.
    """
    if role in effect.withheld:
        raise LedgerError(effect.withheld[role], key=effect.key)
