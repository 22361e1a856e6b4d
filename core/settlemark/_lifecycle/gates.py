"""Asking a person before a gated call acts: the question is recorded before it is asked, the answer before it counts.

A call that waits for an answer is recorded as an effect that has not acted, and holds its scopes. So any process that
resumes it knows which call was asked about with which arguments, and an answer to another question approves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from settlemark._acts.effect import Effect
from settlemark._acts.gate import Approver, approval_of, rejection
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import UsageError
from settlemark._edges.wording import in_words
from settlemark._engine.admission import Admission, checked
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.abort import Undoing
from settlemark._lifecycle.asked.hearing import warn_late_answer
from settlemark._lifecycle.asking import (
    APPROVED,
    ASKED,
    Asking,
    Control,
    recorded_likeness,
    rejected,
    with_other_arguments,
)
from settlemark._model.declaration import Handler
from settlemark._model.disposition import NOTHING, Disposed, Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._observe.logs import about
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State
from settlemark._report.approval_rejected_on_replay import refuse_rejected
from settlemark._report.questions import AnswerOnRecord
from settlemark.ledger._contract import Book


class Gates:
    """Asks a person before a gated call acts."""

    def __init__(self, kernel: Kernel, freshness: Freshness, undoing: Undoing, admission: Admission) -> None:
        self._kernel = kernel
        self._freshness = freshness
        self._asking = Asking(kernel, undoing, admission)

    def gate(
        self, attempt: Attempt, txn: Txn, effect: Effect, earlier: Effect | None, let_through: Control
    ) -> Program[Effect | None]:
        """Return the recorded effect that may act now; None if it is not recorded and needs no approval.

        Raises:
            Rejected: a person said no.
            Stale: something it read has changed since the question; everything is undone.
            UsageError: there is nobody to ask, the answer cannot be read, or `approve=` failed; nothing was run.
        """
        ask, known = effect.ask or attempt.approver, NOTHING if earlier is None else earlier.disposed
        waits = known.disposition is Disposition.ASKED
        if earlier is not None:
            refuse_rejected(known, tool=earlier.declaration.tool, key=earlier.key, transaction=attempt.name)
            if known.disposition is Disposition.EDITED:
                return recorded_likeness(attempt, effect, known.link)
            if not waits and (known.disposition is Disposition.APPROVED or earlier.outcome not in _NOT_YET):
                return earlier
        if earlier is not None and waits:
            said: AnswerOnRecord | None = yield from self._asking.said(earlier.key)
            if said is not None:  # given elsewhere, while nobody here was waiting
                answer = said.answer
                yield from self._asking.collect_late_answer(attempt, earlier, said, let_through)
                return (yield from self._answered(attempt, txn, earlier, lambda _gate: answer, let_through))
        if not waits and not (yield from self._needs_a_yes(attempt, effect)):
            return earlier
        if earlier is None and attempt.number > 1:
            yield from self._asking.log_rejected_before(attempt, effect)
        effect.gated = True
        if ask is None:
            try:
                self._leave_to_its_end(attempt, effect)
            except UsageError:
                if earlier is not None and earlier.outcome is Outcome.QUEUED:
                    yield from self._asking.withdraw(attempt, earlier, NOTHING)  # a caller that goes on has none
                raise
            if earlier is not None and earlier.outcome is not Outcome.QUEUED:
                yield from self._asking.queue(attempt, txn, earlier)
            return earlier
        asking = earlier or effect
        if not waits:
            yield from self._asking.put(attempt, txn, asking, ASKED)
        return (yield from self._answered(attempt, txn, asking, ask, let_through))

    def refuse_unasked(self, attempt: Attempt, effects: Iterable[Effect], fix: str) -> Program[None]:
        """Return when none of a turn's calls needs a yes: there is nobody to ask for one.

        What cannot be told yet, because `approve=` or the policy fails on it, is told when the call runs; so is what a
        scope or a `check=` refuses, for that is no question yet.

        Args:
            attempt: the turn's transaction.
            effects: the calls, before any of them runs.
            fix: what to give so that somebody is asked.

        Raises:
            UsageError: one does; nothing was run.
        """
        for effect in effects:
            if effect.declaration.kind is EffectClass.READ or effect.path in attempt.effects or not effect.scopes:
                continue
            try:
                said = yield from self._kernel.judging.foretell(attempt, effect)
                verdict = None if said is None else said.verdict
                needs = verdict == "ask" or (verdict != "deny" and (yield from self._needs_a_yes(attempt, effect)))
                if needs:
                    yield from checked(attempt, effect)
            except Exception:
                tool, told = effect.declaration.tool, attempt.about(effect)
                log.debug("%s may need a yes: it says so when it runs", tool, exc_info=True, extra=told)
                continue
            if needs:
                tool = effect.declaration.tool
                raise UsageError(
                    f"{tool} needs a person's yes, and there is nobody to ask: nothing was run of its turn; give {fix}",
                    tool=tool,
                )

    def ask_again(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Ask anew about a held effect: another policy has come into force since it was planned.

        Raises:
            Rejected: a person said no. Stale: what was read has changed. UsageError: the answer cannot be read.
        """
        assert attempt.approver is not None, "nobody else can be asked now"
        yield from self._asking.put(attempt, txn, effect, ASKED)
        yield from self._answered(attempt, txn, effect, attempt.approver, ())

    def _answered(
        self, attempt: Attempt, txn: Txn, effect: Effect, ask: Approver, let_through: Control
    ) -> Program[Effect]:
        """Ask about an effect, and return the effect that may act now."""
        approval, likeness, said = yield from self._asking.ask(attempt, effect, ask, let_through)
        while True:
            if approval.decision == "reject":
                yield from self._asking.withdraw(attempt, effect, rejected(approval))
                raise rejection(effect.declaration.tool, effect.key, attempt.name, approval.because)
            yield from self._look_again(attempt, txn)
            if likeness is None:
                effect.disposed = APPROVED
                return (yield from self._held_back(attempt, txn, effect))
            # In this order a crash leaves the question, never an approval without its call.
            yield from self._asking.put(attempt, txn, likeness, Disposed(Disposition.APPROVED, link=effect.key))
            edited = Disposed(Disposition.EDITED, link=likeness.key)
            first = yield from self._asking.withdraw(attempt, effect, edited, answer=said)
            if first is None:
                return (yield from self._held_back(attempt, txn, likeness))
            # An answer from elsewhere was first, and its author was told so: that answer holds.
            yield from self._asking.withdraw(attempt, likeness, NOTHING)
            late, approval, said = approval, approval_of(first.answer), first
            warn_late_answer(effect, first, late)
            likeness = yield from with_other_arguments(attempt, effect, approval.arguments)

    def _held_back(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[Effect]:
        """Queue an approved effect for the commit, and return it."""
        if effect.held:
            yield from self._asking.queue(attempt, txn, effect)
        return effect

    def _needs_a_yes(self, attempt: Attempt, effect: Effect) -> Program[bool]:
        """Whether the declaration, or a policy, requires a person's approval for this call.

        Raises:
            UsageError: `approve=` failed, or returned no bool.
        """
        approve = effect.declaration.approve
        if effect.judged is not None and effect.judged.verdict == "ask":
            return True
        if not isinstance(approve, Handler):
            return approve is not None
        tool = effect.declaration.tool
        bound = approve.bind(effect.for_handlers(), result=None, key="")
        try:
            said = yield self._kernel.callers.asking(attempt.name, partial(approve.function, **bound))
        except Exception as error:
            raise UsageError(
                f"approve={approve.name} of {tool} failed, so nobody knows whether it needs a yes: {tool} was not"
                f" run; correct approve=: {in_words(error)}",
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
        """Park the transaction at its end if a held effect waits for `Settlement.answer`.

        Raises:
            UsageError: the call would act before its end; nothing was run.
        """
        tool = effect.declaration.tool
        if attempt.parks is None or not effect.declaration.can_wait:
            held = ", or declare it irreversible so that it waits for settlement.answer(…)"
            raise UsageError(
                f"{tool} needs a person's yes, and there is nobody to ask: nothing was run; give"
                f" settlement.transaction(…, approver=function){held if attempt.parks is not None else ''}",
                tool=tool,
            )
        if attempt.park is None and not attempt.again:
            log.warning(
                "%s needs a person's yes, and nobody is asked here: %s is put aside at its end, and nothing held of"
                " it leaves before settlement.approve(), or settlemark approve, is called",
                tool,
                attempt.name,
                extra=about(transaction=attempt.name, tool=tool),
            )
        attempt.park = attempt.park or attempt.parks

    def _look_again(self, attempt: Attempt, txn: Txn) -> Program[None]:
        """Check that what the transaction has read still holds: a person may have taken days.

        Raises:
            Stale: a read has changed, and the transaction is aborted.
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


_NOT_YET = (Outcome.SUSPENDED, Outcome.QUEUED, Outcome.DROPPED)
"""The effect has not acted: without an approval on record, whether it needs one is checked again."""


__all__ = ["Gates"]
