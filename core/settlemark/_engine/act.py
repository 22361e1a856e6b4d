"""Having an admitted effect act: its intent is on disk, its tool is called, and what came of that is noted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from settlemark._acts.bodies import asked_for
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program, perform
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import current_of
from settlemark._edges.errors import (
    LeaseLost,
    SettlemarkError,
)
from settlemark._edges.user_code import through
from settlemark._edges.wording import is_a
from settlemark._engine.admission import MAY_ACT, Admission, returned
from settlemark._engine.doubt import Probing, unless_told
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.abort import Undoing
from settlemark._model.effect_class import Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import DETACHED, Call, Mode, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark.ledger._contract import Book


class _OtherPolicyError(Exception):
    """Another policy has come into force in the step before."""


class Acting:
    """Has effects act, and reads read."""

    def __init__(
        self, kernel: Kernel, probing: Probing, freshness: Freshness, undoing: Undoing, admission: Admission
    ) -> None:
        self._kernel = kernel
        self._probing = probing
        self._freshness = freshness
        self._undoing = undoing
        self._admission = admission

    def read(
        self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]
    ) -> Program[Any]:
        calls = yield from self._admission.admit(attempt, txn, effect, Mode.READ)
        attempt.expected.sees(effect.scopes)
        try:
            live = (yield from self._freshness.look(attempt, effect)) if txn.guards.current else None
            result = yield from self._perform(attempt, txn, effect, let_through)
            if live is not None:
                attempt.live_reads.setdefault(live.what, live)
            return result
        finally:
            self._kernel.ledger.later(lambda protocol, _book: returned(protocol, calls, happened=True))

    def _perform(
        self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]
    ) -> Program[Any]:
        if attempt.asks is None:
            return self._try(attempt, txn, effect, let_through)
        once = partial(self._try, attempt, txn, effect, let_through)
        ours = partial(self._kernel.still_ours, txn)
        return self._kernel.asking_of_failures(attempt, effect, once, ours, held=False, let_through=let_through)

    def _try(
        self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]
    ) -> Program[Any]:
        current = current_of(attempt, effect)
        performing = perform(
            effect,
            effect.run,
            current,
            attempt.retries,
            self._probing,
            partial(self._kernel.still_ours, txn),
            retry_failures=attempt.on_failure == "retry",
            final=False,
            let_through=let_through,
        )
        if self._kernel.telling.observer is not None:
            performing = self._kernel.telling.observed(attempt, effect, "call", current, performing)
        try:
            return (yield from performing)
        finally:
            current._end()  # noqa: SLF001 - its own

    def act(
        self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]
    ) -> Program[Any]:
        mode = Mode.EAGER if effect.declaration.undoable else Mode.FINAL
        if attempt.live_reads:
            yield from self._freshness.before_writing(attempt, txn, effect)
        if effect.path not in attempt.effects:
            yield from self._admission.admit(attempt, txn, effect, mode, intends=True)
        else:
            yield from self._intend_again(attempt, txn, effect, mode)
        with self._kernel.acting(attempt):
            result = yield from self._send(attempt, txn, effect, let_through)
        if txn.state is not State.OPEN and txn.state in (State.ABORTING, State.ABORTED):
            raise self._kernel.protocol.refusal(txn)
        return result

    def _send(
        self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]
    ) -> Program[Any]:
        """Act, for an effect whose intent is on disk, and note its outcome."""
        try:
            yield from self._kernel.still_ours(txn)
        except LeaseLost:
            if effect.outcome is Outcome.INTENDED:  # nothing of it was sent, and nothing will be
                effect.outcome = Outcome.DROPPED
                self._kernel.note(attempt, [attempt.records.outcome(effect, self._kernel.clock())])
            raise
        called = effect.called
        try:
            result = yield from self._perform(attempt, txn, effect, let_through)
            if effect.called == called:
                attempt.expected.keep(effect.path)  # its counterparty knew of it
            refined: list[Scope] = []
            if effect.declaration.refine is not None:
                with asked_for(self._kernel, attempt.name):
                    refined = _refined(effect.declaration.refine, effect.result)
        except GeneratorExit:
            raise
        except BaseException as error:
            if is_a(error, let_through):
                effect.outcome = Outcome.SUSPENDED
            yield from self._come_back(attempt, txn, effect, [])
            raise
        if attempt.live_reads:
            self._freshness.after_writing(attempt, effect)
        yield from self._come_back(attempt, txn, effect, refined)
        return result

    def _intend_again(self, attempt: Attempt, txn: Txn, effect: Effect, mode: Mode) -> Program[None]:
        """Make it durable that an effect which failed, or was suspended, acts again under its key.

        Raises:
            Denied: the policy in force denies it. AskedSince: it has it asked about, which was not done.
        """
        while True:
            if self._kernel.judging.policy is not None and effect.outcome in MAY_ACT:
                yield from self._admission.judged_now(attempt, effect)
            try:
                return (yield from self._intend_as_judged(attempt, txn, effect, mode))
            except _OtherPolicyError:
                continue

    def _intend_as_judged(self, attempt: Attempt, txn: Txn, effect: Effect, mode: Mode) -> Program[None]:
        if effect.outcome is Outcome.FAILED or not effect.calls:
            effect.calls = yield from self._admission.admit(attempt, txn, effect, mode)
        else:
            calls = effect.calls
            yield from self._kernel.step(lambda protocol, _book: protocol.resumed(calls))
        if effect.outcome is Outcome.UNKNOWN:
            return  # the counterparty is asked before anything acts
        before, effect.outcome = effect.outcome, Outcome.INTENDED
        effect.at = self._kernel.ledger.time()  # nothing of it is out there: its key is as good as new
        told = attempt.records.outcome(effect, self._kernel.clock())

        def intend(protocol: Protocol, book: Book) -> None:
            if txn.state is not State.OPEN:
                raise protocol.refusal(txn)
            if before in MAY_ACT and self._admission.is_unjudged(effect):
                raise _OtherPolicyError
            self._kernel.reserve(book, attempt, effect)
            attempt.put(book, [told])

        try:
            yield from self._kernel.step(intend, durable=True, wait=attempt.wait)
        except GeneratorExit:
            raise
        except BaseException:
            effect.outcome = before
            calls, happened = effect.calls, before is not Outcome.FAILED
            yield from self._kernel.step(lambda protocol, _book: returned(protocol, calls, happened=happened))
            yield from self._undoing.tidy()
            raise

    def _come_back(self, attempt: Attempt, txn: Txn, effect: Effect, refined: list[Scope]) -> Program[None]:
        """Note an act's outcome; if the transaction was undone meanwhile, this program alone waits for the note."""
        calls, happened = effect.calls, effect.outcome is not Outcome.FAILED
        told = attempt.records.outcome(effect, self._kernel.clock())

        def back(protocol: Protocol, book: Book) -> None:
            if txn.id == DETACHED:
                self._probing.doubt()  # it may have come too late
            returned(protocol, calls, happened=happened)
            attempt.put(book, [told] if told.outcome is not Outcome.UNKNOWN else unless_told(book, [told]))

        def narrow(protocol: Protocol, book: Book) -> None:
            back(protocol, book)  # in one step with it: nobody sees a scope that it turned out not to have touched
            try:
                effect.calls = _narrowed(protocol, effect, refined)
            except SettlemarkError as error:
                outside.append(error)

        outside: list[SettlemarkError] = []
        self._kernel.ledger.later(narrow if refined else back)
        if refined:
            try:
                yield from self._kernel.step(lambda _protocol, _book: None)  # it is noted by then
            except SettlemarkError as error:
                outside.append(error)
        elif txn.state is not State.OPEN:
            yield from self._kernel.step(lambda _protocol, _book: None)  # it is noted by then
        if self._kernel.protocol.board.aborted:
            yield from self._undoing.tidy()
        if told.outcome is Outcome.UNKNOWN:
            self._probing.doubt()
        if outside:
            raise outside[0]


def _refined(refine: Callable[..., Any], result: Any) -> list[Scope]:
    """Return what an effect's result says it really touched; empty when there is nothing to say."""
    found = through(refine, result)
    texts = (found,) if isinstance(found, str | Scope) else tuple(found)
    return [Scope.parse(text) for text in texts]


def _narrowed(protocol: Protocol, effect: Effect, refined: list[Scope]) -> list[Call]:
    """Replace the calls on an effect's broad scopes by those on what it really touched."""
    broad = len(effect.declaration.may_touch) or len(effect.calls)
    kept, calls = effect.calls[:-broad], effect.calls[-broad:]
    outside = [scope for scope in refined if not any(call.scope.covers(scope) for call in effect.calls)]
    if outside:
        return protocol.refine(calls[0], outside)  # says what is wrong, and moves nothing
    narrower = [protocol.refine(call, [s for s in refined if call.scope.covers(s)]) for call in calls]
    return [*kept, *(call for found in narrower for call in found)]
