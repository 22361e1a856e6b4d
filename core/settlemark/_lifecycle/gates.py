"""Asking a person before a gated call acts: a question is on record before it is asked, an answer before it counts.

What waits for an answer is recorded as an effect that has not acted, and holds what it is to act on. So whoever comes
back to it, in whatever process, knows which call was asked about with which arguments; and an answer that comes to
another question finds nothing to approve.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from settlemark._acts.effect import Effect
from settlemark._acts.gate import Approval, Approver, Gate, approval_of, is_asked, rejection, would
from settlemark._acts.hearing import either
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.recall import resume
from settlemark._edges.errors import UsageError
from settlemark._edges.wording import in_words
from settlemark._engine.admission import Admission, checked_as_given, give_back, returned
from settlemark._engine.doubt import effect_of_key
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo import Undoing
from settlemark._model import json_text
from settlemark._model.declaration import Handler
from settlemark._model.disposition import NOTHING, Disposed, Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.identity import key_of
from settlemark._observe.logs import Quote, about
from settlemark._protocol.holdings import Mode, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State, Tag
from settlemark._report.questions import AnswerOnRecord, answer_on_record, no_on_record
from settlemark._report.verdicts import because_in
from settlemark.ledger._contract import Book

Control = tuple[type[BaseException], ...]

TRIES = 3
"""How often somebody is asked whose answer is none."""


class Gates:
    """Asks a person before a gated call acts."""

    def __init__(self, kernel: Kernel, freshness: Freshness, undoing: Undoing, admission: Admission) -> None:
        self._kernel = kernel
        self._freshness = freshness
        self._undoing = undoing
        self._admission = admission

    def gate(
        self, attempt: Attempt, txn: Txn, effect: Effect, earlier: Effect | None, let_through: Control
    ) -> Program[Effect | None]:
        """Return the recorded effect that may act now, or None: it is not on record, and needs nobody's yes.

        Raises:
            Rejected: a person said no. Stale: what it was read from has changed since the question; all is undone.
            UsageError: there is nobody to ask, the answer is none, or `approve=` failed; nothing was run.
        """
        ask, known = effect.ask or attempt.approver, NOTHING if earlier is None else earlier.disposed
        waits = known.disposition is Disposition.ASKED
        if earlier is not None:
            if known.disposition is Disposition.REJECTED:
                raise rejection(earlier.declaration.tool, earlier.key, attempt.name, because_in(known.note))
            if known.disposition is Disposition.EDITED:
                return self._its_likeness(attempt, effect, known.link)
            if not waits and (known.disposition is Disposition.APPROVED or earlier.outcome not in _NOT_YET):
                return earlier
        if earlier is not None and waits:
            said: AnswerOnRecord | None = yield from self._said(earlier.key)
            if said is not None:  # by somebody elsewhere, while nobody was here to hear it
                answer = said.answer
                yield from self._hear_late(attempt, earlier, said, let_through)
                return (yield from self._answered(attempt, txn, earlier, lambda _gate: answer, let_through))
        if not waits and not (yield from self._needs_a_yes(attempt, effect)):
            return earlier
        if earlier is None and attempt.number > 1:
            yield from self._tell_of_no(attempt, effect)
        if ask is None:
            self._leave_to_its_end(attempt, effect)
            if earlier is not None and earlier.outcome is not Outcome.QUEUED:
                yield from self._queue(attempt, txn, earlier)
            return earlier
        asking = earlier or effect
        if not waits:
            yield from self._put(attempt, txn, asking, _ASKED)
        return (yield from self._answered(attempt, txn, asking, ask, let_through))

    def _answered(
        self, attempt: Attempt, txn: Txn, effect: Effect, ask: Approver, let_through: Control
    ) -> Program[Effect]:
        """Ask about an effect, and return what may act now."""
        approval, likeness, said = yield from self._ask_person(attempt, effect, ask, let_through)
        while True:
            if approval.decision == "reject":
                yield from self._withdraw_question(attempt, effect, _no(approval))
                raise rejection(effect.declaration.tool, effect.key, attempt.name, approval.because)
            yield from self._look_again(attempt, txn)
            if likeness is None:
                effect.disposed = _APPROVED
                return (yield from self._held_back(attempt, txn, effect))
            # In this order a crash leaves the question, never an approval without what it is for.
            yield from self._put(attempt, txn, likeness, Disposed(Disposition.APPROVED, link=effect.key))
            edited = Disposed(Disposition.EDITED, link=likeness.key)
            first = yield from self._withdraw_question(attempt, effect, edited, answer=said)
            if first is None:
                return (yield from self._held_back(attempt, txn, likeness))
            # Somebody elsewhere was quicker, and was told that it is done: that holds.
            yield from self._withdraw_question(attempt, likeness, NOTHING)
            late, approval, said = approval, approval_of(first.answer), first
            _tell_late(effect, first, late)
            likeness = yield from self._likeness(attempt, effect, approval.arguments)

    def _held_back(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[Effect]:
        """Queue an approved effect that waits for the commit, and return it."""
        if effect.held:
            yield from self._queue(attempt, txn, effect)
        return effect

    def _needs_a_yes(self, attempt: Attempt, effect: Effect) -> Program[bool]:
        """Whether its declaration says that somebody has to approve it.

        Raises:
            UsageError: `approve=` failed, or did not say.
        """
        approve = effect.declaration.approve
        if not isinstance(approve, Handler):
            return True
        tool = effect.declaration.tool
        bound = approve.bind(effect.for_handlers(), result=None, key="")
        try:
            said = yield self._kernel.asking(attempt.name, partial(approve.function, **bound))
        except Exception as error:
            raise UsageError(
                f"approve={approve.name} of {tool} failed, so nobody knows whether it needs a yes: {tool} was not run;"
                f" mend it: {in_words(error)}",
                tool=tool,
            ) from error
        if not isinstance(said, bool):
            raise UsageError(
                f"approve={approve.name} of {tool} returned {said!r}: {tool} was not run; return True or False",
                tool=tool,
            )
        return said

    @staticmethod
    def _leave_to_its_end(attempt: Attempt, effect: Effect) -> None:
        """Park the transaction at its end if an effect that it holds waits for `Settlement.answer`.

        Raises:
            UsageError: the call would act before; nothing was run.
        """
        tool = effect.declaration.tool
        if attempt.parks is None or effect.declaration.kind is not EffectClass.IRREVERSIBLE:
            held = ", or declare it irreversible so that it waits for settlement.answer(…)"
            raise UsageError(
                f"{tool} needs a person's yes, and there is nobody to ask: nothing was run; give"
                f" settlement.transaction(…, approver=function){held if attempt.parks is not None else ''}",
                tool=tool,
            )
        if attempt.park is None and not attempt.again:
            log.warning(
                "%s needs a person's yes, and nobody is asked here: %s is put aside at its end, and nothing held of it"
                " leaves before settlement.approve(), or settlemark approve, has said it",
                tool, attempt.name, extra=about(transaction=attempt.name, tool=tool),
            )  # fmt: skip
        attempt.park = attempt.park or attempt.parks

    # ---- the question

    def _put(self, attempt: Attempt, txn: Txn, effect: Effect, disposed: Disposed) -> Program[None]:
        """Record that an effect waits for an answer, and why; its scopes are held meanwhile."""
        recorded = effect.path in attempt.effects
        effect.outcome, effect.tag, effect.disposed = Outcome.SUSPENDED, None, disposed
        if not any(call.hold is not None for call in effect.calls):
            effect.calls = yield from self._admission.admit(attempt, txn, effect, _mode(effect), intends=not recorded)
        if recorded:
            yield from self._record_outcome(attempt, effect)
        if not effect.held:
            calls = effect.calls
            self._kernel.ledger.later(lambda protocol, _book: returned(protocol, calls, happened=True))

    def _ask_person(
        self, attempt: Attempt, effect: Effect, ask: Approver, let_through: Control
    ) -> Program[tuple[Approval, Effect | None, AnswerOnRecord | None]]:
        """Return what was answered, the likeness of the effect with other arguments, and what was said elsewhere.

        There is a likeness where arguments were given. What was said elsewhere is None where the answer is from here.

        A framework's question is asked again, with what was wrong, when the answer is none; a few times, for it may
        be a function that answers.

        Raises:
            UsageError: the answer is none, however often it was asked.
        """
        gate = _gate_of(attempt, effect)
        for tries in range(TRIES, 0, -1):
            try:
                asking = ask if effect.ask is not None else self._listening(ask, effect.key)
                answer = yield self._kernel.asking(attempt.name, asking, gate)
                said = yield from self._said(effect.key)
                approval = approval_of(answer if said is None else said.answer)
                likeness = yield from self._likeness(attempt, effect, approval.arguments)
                if said is None and likeness is None:
                    said = yield from self._take_answer(attempt, effect, approval)
                    if said is not None:  # somebody elsewhere was quicker, and was told that it is done
                        approval = approval_of(said.answer)
                        likeness = yield from self._likeness(attempt, effect, approval.arguments)
                if said is not None and answer != said.answer:
                    _tell_late(effect, said, approval_of(answer))
            except GeneratorExit:
                raise
            except let_through:
                effect.disposed = Disposed(Disposition.ASKED, question=gate.question)
                yield from self._record_outcome(attempt, effect)
                raise
            except UsageError as error:
                if effect.ask is None or tries == 1:
                    yield from self._withdraw_question(attempt, effect, NOTHING)
                    raise
                gate.error = str(error)
            except BaseException:
                yield from self._withdraw_question(attempt, effect, NOTHING)
                raise
            else:
                return approval, likeness, said
        raise AssertionError

    def _said(self, key: str) -> Program[AnswerOnRecord | None]:
        """Return what somebody elsewhere has answered about an effect, or None."""
        said: AnswerOnRecord | None = yield from self._kernel.step(
            lambda _protocol, book: answer_on_record(effect_of_key(book, key))
        )
        return said

    def _hear_late(self, attempt: Attempt, effect: Effect, said: AnswerOnRecord, let_through: Control) -> Program[None]:
        """Let a framework hand over its late answer to this question; other questions keep theirs.

        It counts for nothing, since another was first; whoever gave it is told so.
        """
        if effect.ask is None or not let_through:
            return  # whoever would be asked now need not be
        gate = _gate_of(attempt, effect)
        gate.answered = True
        try:
            late = yield self._kernel.asking(attempt.name, effect.ask, gate)
        except let_through:
            return
        if late is not None:
            _tell_late(effect, said, late)

    def _tell_of_no(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Log that a person said no to this call when its transaction was entered before: it is asked about anew.

        That attempt is over, undone, and its answer is on record with it; this one acts on an answer of its own.
        """
        before = key_of(attempt.prefix, attempt.name, attempt.number - 1, effect.path, effect.call_id)
        no: str | None = yield from self._kernel.step(lambda _protocol, book: no_on_record(effect_of_key(book, before)))
        if no is not None:
            log.warning(
                "%s was %s, and %s is entered again: it is asked about anew, as %s", before, Quote(no), attempt.name,
                effect.key or f"attempt {attempt.number}",
                extra=about(transaction=attempt.name, tool=effect.declaration.tool),
            )  # fmt: skip

    def _take_answer(self, attempt: Attempt, effect: Effect, approval: Approval) -> Program[AnswerOnRecord | None]:
        """Record an answer if it is the first, in the step that finds so; else return the earlier one.

        From here on whoever answers elsewhere is told that this was.
        """
        before, effect.disposed = effect.disposed, _APPROVED if approval.decision == "approve" else _no(approval)
        told = attempt.outcome(effect, self._kernel.clock())
        effect.disposed = before

        def take(_protocol: Protocol, book: Book) -> AnswerOnRecord | None:
            said = answer_on_record(effect_of_key(book, effect.key))
            if said is None:
                attempt.put(book, [told])
            return said

        return (yield from self._kernel.step(take, durable=True))

    def _listening(self, ask: Approver, key: str) -> Approver:
        """Return an approver that asks as `ask` does, and listens meanwhile for an answer from elsewhere."""
        if self._kernel.ledger.immediate:
            return ask  # there is no elsewhere

        def heard() -> Mapping[str, Any] | None:
            said = self._kernel.ledger.read(lambda book: answer_on_record(effect_of_key(book, key)))
            return None if said is None else said.answer

        return either(ask, heard)

    def _record_outcome(self, attempt: Attempt, effect: Effect) -> Program[None]:
        told = attempt.outcome(effect, self._kernel.clock())
        yield from self._kernel.step(lambda _protocol, book: attempt.put(book, [told]), durable=True)

    def _withdraw_question(
        self,
        attempt: Attempt,
        effect: Effect,
        disposed: Disposed,
        *,
        answer: AnswerOnRecord | Literal[False] | None = False,
    ) -> Program[AnswerOnRecord | None]:
        """Record that an effect in question never runs, and why; its scopes become free.

        With an `answer`, what was said elsewhere or None, that is acted on only if it is the first: else return what
        was said before, and the question stays as it is.
        """
        calls, before = effect.calls, (effect.outcome, effect.tag, effect.disposed)
        effect.outcome, effect.tag, effect.disposed = Outcome.DROPPED, Tag.CLEAN, disposed
        told = attempt.outcome(effect, self._kernel.clock())

        def withdraw(protocol: Protocol, book: Book) -> AnswerOnRecord | None:
            first = None if answer is False else answer_on_record(effect_of_key(book, effect.key))
            if first is not None and first != answer:
                return first
            if attempt.live.state is State.OPEN:
                give_back(protocol, effect)
            attempt.put(book, [told])
            return None

        first: AnswerOnRecord | None = yield from self._kernel.step(withdraw, durable=True)
        if first is not None:
            effect.outcome, effect.tag, effect.disposed = before
            return first
        effect.calls = [call for call in calls if call.hold is not None]
        yield from self._undoing.tidy()
        return None

    # ---- the answer

    def _look_again(self, attempt: Attempt, txn: Txn) -> Program[None]:
        """Return when what the transaction has read still holds: a person may have taken days.

        Raises:
            Stale: it does not, and the transaction is aborted.
        """

        def look(protocol: Protocol, _book: Book) -> None:
            if txn.state is not State.OPEN:
                raise protocol.refusal(txn)
            protocol.refuse_changed(txn, planned=True)

        yield from self._kernel.step(look)
        wrong = yield from self._freshness.verify(attempt, self._freshness.live_reads(attempt))
        if wrong is None:
            return
        yield from self._kernel.step(lambda protocol, _book: protocol.abort(txn, Reason.STALE, **wrong))
        with self._kernel.local as protocol:
            raise protocol.refusal(txn)

    def _queue(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Record that an approved effect leaves when its transaction settles."""
        if not any(call.hold is not None for call in effect.calls):
            effect.calls = yield from self._admission.admit(attempt, txn, effect, Mode.HELD)
        effect.outcome = Outcome.QUEUED
        yield from self._record_outcome(attempt, effect)

    # ---- other arguments

    def _likeness(
        self, attempt: Attempt, effect: Effect, arguments: Mapping[str, Any] | None
    ) -> Program[Effect | None]:
        """Return an effect's likeness with other arguments; None when there are none, or they are the same.

        Raises:
            UsageError: the tool does not take them, or its check refuses them.
        """
        if arguments is None:
            return None
        tool = effect.declaration.tool
        if effect.remake is None:
            raise UsageError(f"{tool} cannot be called with other arguments here: approve or reject it", tool=tool)
        made = effect.remake(effect, arguments)
        made.arguments = json_text.snapshot(dict(made.arguments))
        made.payload = json_text.encode(made.arguments)
        if made.payload == effect.payload:
            return None
        parts = sum(path[:-1] == effect.path for path in attempt.effects)
        made.call_id, made.rationale, made.held = effect.call_id, effect.rationale, effect.held
        made.pack, made.unpack = effect.pack, effect.unpack
        made.path, made.position = (*effect.path, parts), attempt.placed
        made.key = attempt.key(made.path, made.call_id)
        yield from checked_as_given(attempt, made)
        return made

    @staticmethod
    def _its_likeness(attempt: Attempt, effect: Effect, key: str | None) -> Effect:
        """Return the recorded likeness of a call that was approved with other arguments, able to run here."""
        likeness = next(found for found in attempt.effects.values() if found.key == key)
        attempt.keep(likeness.path)
        if effect.remake is not None:
            made = effect.remake(effect, likeness.shown())
            made.payload, made.path, made.call_id = json_text.encode(made.arguments), likeness.path, effect.call_id
            made.pack, made.unpack = effect.pack, effect.unpack
            resume(attempt, made)
        return likeness


_ASKED, _APPROVED = Disposed(Disposition.ASKED), Disposed(Disposition.APPROVED)


def _no(approval: Approval) -> Disposed:
    return Disposed(Disposition.REJECTED, approval.because)


def _tell_late(effect: Effect, said: AnswerOnRecord, late: object) -> None:
    """Log that an answer came too late, and who had given the first."""
    first, approval, told = approval_of(said.answer), None, "none"
    try:
        approval = late if isinstance(late, Approval) else approval_of(late)
        told = approval.decision
    except UsageError as error:
        told = f"which is none: {error}"
    log.log(
        logging.INFO if approval == first else logging.WARNING,
        "%s was answered already, by %s: %s; the answer that was given here (%s) changes nothing", effect.key,
        said.by, first.decision, told, extra=about(key=effect.key, tool=effect.declaration.tool),
    )  # fmt: skip


_NOT_YET = (Outcome.SUSPENDED, Outcome.QUEUED, Outcome.DROPPED)
"""It has not acted: without a yes on record, whether it needs one is looked at again."""


def _mode(effect: Effect) -> Mode:
    if effect.held:
        return Mode.HELD
    return Mode.EAGER if effect.declaration.undoable else Mode.FINAL


def _gate_of(attempt: Attempt, effect: Effect) -> Gate:
    """Return what is asked about an effect, under the number it was asked under before."""
    declaration, arguments = effect.declaration, effect.shown()
    return Gate(
        attempt.name, attempt.run, declaration.tool, declaration.kind, effect.scope_text, arguments,
        effect.rationale, effect.key, would(declaration, arguments, effect.scope_text, held=effect.held),
        question=effect.disposed.question if is_asked(effect) else None,
    )  # fmt: skip


__all__ = ["Gates"]
