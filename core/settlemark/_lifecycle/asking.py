"""A question to a person: recorded before it is asked, answered once, perhaps with other arguments."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Literal

from settlemark._acts.effect import Effect
from settlemark._acts.first_answer import either
from settlemark._acts.gate import Approval, Approver, Gate, approval_of, is_asked, would
from settlemark._acts.perform import Program
from settlemark._approvals.answers import ApprovalState, Count, Vote
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.recall import resume
from settlemark._edges.errors import UsageError
from settlemark._engine.admission import (
    Admission,
    checked_as_given,
    give_back,
    judged_as_given,
    question_of,
    returned,
)
from settlemark._engine.doubt import effect_of_key
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.abort import Undoing
from settlemark._lifecycle.asked.counting import no_in_time
from settlemark._lifecycle.asked.hearing import one_of_several, warn_late_answer
from settlemark._model import json_text
from settlemark._model.disposition import NOTHING, Disposed, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._model.identity import key_of
from settlemark._observe.logs import Quote, about
from settlemark._policy.judging import has_judged
from settlemark._protocol.holdings import Mode, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State, Tag
from settlemark._report.questions import AnswerOnRecord, answer_on_record, no_on_record
from settlemark.ledger._approvals import close, count_in, digest_of, weighed
from settlemark.ledger._contract import Book

ASKED, APPROVED = Disposed(Disposition.ASKED), Disposed(Disposition.APPROVED)


Control = tuple[type[BaseException], ...]
"""Exceptions by which a framework stops at a question: they pass through."""
TRIES = 3
"""How often a person is asked whose answer cannot be read."""
_TRIES_OF_APPROVER = 2


class Asking:
    """Asks a person about one effect, and records the answer or withdraws the question."""

    def __init__(self, kernel: Kernel, undoing: Undoing, admission: Admission) -> None:
        self._kernel = kernel
        self._undoing = undoing
        self._admission = admission
        self._salt = secrets.token_hex()  # never recorded

    def put(self, attempt: Attempt, txn: Txn, effect: Effect, disposed: Disposed) -> Program[None]:
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

    def ask(
        self, attempt: Attempt, effect: Effect, ask: Approver, let_through: Control
    ) -> Program[tuple[Approval, Effect | None, AnswerOnRecord | None]]:
        """Return the answer, the effect with the answer's arguments (if any), and the answer from elsewhere (if any).

        A question is put again, with the error, when its answer cannot be read: a framework's `TRIES` times at most, an
        approver's once more, since the answer may come from a function.

        Raises:
            UsageError: no answer could be read.
        """
        gate, heard = _gate_of(attempt, effect), set[str | None]()
        tries = TRIES if effect.ask is not None else _TRIES_OF_APPROVER
        while True:
            try:
                asking = ask if effect.ask is not None else self._listening(ask, effect)
                answer = yield self._kernel.callers.asking(attempt.name, asking, gate)
                said = yield from self.said(effect.key)
                approval = approval_of(answer if said is None else said.answer)
                likeness = yield from self._with_others(attempt, effect, approval)
                if said is None:
                    said, more = yield from self._take_answer(attempt, effect, approval, likeness)
                    if more:
                        gate.error = one_of_several(effect, approval, more, heard)
                        continue
                    if said is not None:  # an answer from elsewhere was first, and its author was told so
                        approval = approval_of(said.answer)
                        likeness = yield from self._with_others(attempt, effect, approval)
                if said is not None and answer != said.answer:
                    warn_late_answer(effect, said, approval_of(answer))
            except GeneratorExit:
                raise
            except let_through:
                effect.disposed = Disposed(Disposition.ASKED, question=gate.question)
                yield from self._record_outcome(attempt, effect)
                raise
            except UsageError as error:
                tries -= 1
                if tries == 0:
                    yield from self.withdraw(attempt, effect, NOTHING)
                    raise
                gate.error = str(error)
            except BaseException:
                yield from self.withdraw(attempt, effect, NOTHING)
                raise
            else:
                return approval, likeness, said

    def _with_others(self, attempt: Attempt, effect: Effect, approval: Approval) -> Program[Effect | None]:
        likeness = yield from with_other_arguments(attempt, effect, approval.arguments)
        if likeness is not None:
            yield from judged_as_given(self._kernel, attempt, likeness)
            yield from self._asked_by_the_same(attempt, effect, likeness)
        return likeness

    def _asked_by_the_same(self, attempt: Attempt, effect: Effect, likeness: Effect) -> Program[None]:
        """Return when other arguments were given to the question of the policy that would ask about them.

        Raises:
            UsageError: that has come into force since: it asks anew. Denied: it denies the call as it is.
        """
        policy, said = self._kernel.judging.policy, likeness.judged
        if policy is None or said is None or said.verdict != "ask" or has_judged(policy, effect.judged):
            return
        yield from self._kernel.judging.judge(attempt, effect)
        tool = effect.declaration.tool
        raise UsageError(
            f"the policy {said.policy} has come into force since {tool} was asked about, and asks by its rule"
            f" {said.rule!r}: nothing was run; answer once more",
            tool=tool,
        )

    def said(self, key: str) -> Program[AnswerOnRecord | None]:
        """Return the answer that was recorded elsewhere for an effect, or None."""
        said: AnswerOnRecord | None = yield from self._kernel.step(
            lambda _protocol, book: answer_on_record(effect_of_key(book, key))
        )
        return said

    def collect_late_answer(
        self, attempt: Attempt, effect: Effect, said: AnswerOnRecord, let_through: Control
    ) -> Program[None]:
        """Let a framework deliver its late answer to this question, so that no other question gets it.

        The answer has no effect, since another was first; its author is told so.
        """
        if effect.ask is None or not let_through:
            return  # nobody else need be asked
        gate = _gate_of(attempt, effect)
        gate.answered = True
        try:
            late = yield self._kernel.callers.asking(attempt.name, effect.ask, gate)
        except let_through:
            return
        if late is not None:
            warn_late_answer(effect, said, late)

    def log_rejected_before(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Log that a person rejected this call when its transaction was entered before: it is asked about anew.

        That attempt is over and undone, with its answer on record; the new attempt needs an answer of its own.
        """
        before = key_of(attempt.prefix, attempt.name, attempt.number - 1, effect.path, effect.call_id)
        no: str | None = yield from self._kernel.step(lambda _protocol, book: no_on_record(effect_of_key(book, before)))
        if no is not None:
            log.warning(
                "%s was %s, and %s is entered again: it is asked about anew, as %s",
                before,
                Quote(no),
                attempt.name,
                effect.key,
                extra=about(transaction=attempt.name, tool=effect.declaration.tool),
            )

    def _take_answer(
        self, attempt: Attempt, effect: Effect, approval: Approval, likeness: Effect | None
    ) -> Program[tuple[AnswerOnRecord | None, int]]:
        """Record an answer if it is the first, checked in the same step; else return the earlier one.

        Later answers from elsewhere are refused with this one. Where several have to say yes, return how many more.
        An answer with other arguments decides when its call is withdrawn.

        Raises:
            UsageError: it comes from somebody who may not answer.
        """
        before, effect.disposed = effect.disposed, rejected(approval) if approval.decision == "reject" else APPROVED
        told = attempt.records.outcome(effect, self._kernel.clock())
        effect.disposed = before
        decision = "edit" if likeness is not None else "approve" if approval.decision == "edit" else approval.decision
        given = "" if likeness is None else self._digest_given(attempt, likeness)

        def take(_protocol: Protocol, book: Book) -> tuple[AnswerOnRecord | None, Count]:
            said, at = answer_on_record(effect_of_key(book, effect.key)), self._kernel.ledger.time()
            if said is not None:
                return said, Count()
            draft = question_of(attempt, effect, at)
            digest = given or json_text.decode(draft.body)["digest"]
            vote = Vote(approval.by, approval.roles, decision, digest, at, approval.because)
            found = weighed(book, draft, vote)
            count_in(book, draft, vote, found, closes=likeness is None)
            if found.late:
                no = no_in_time(effect.key, effect.declaration.tool, self._kernel.clock())
                book.write([no])
                return AnswerOnRecord(json_text.decode(no.text), no.by), found
            if found.decided and likeness is None:
                attempt.put(book, [told])
            return None, found

        said: AnswerOnRecord | None
        found: Count
        said, found = yield from self._kernel.step(take, durable=True)
        if found.refused:
            raise UsageError(
                f"{effect.key} was not answered: {found.refused}; nothing was run", key=effect.key, by=approval.by
            )
        return said, found.more

    def _digest_given(self, attempt: Attempt, likeness: Effect) -> str:
        """Return the digest of arguments that were given in place of a call's own, which tells nothing of a secret.

        Where some of them are never recorded, only this process can tell whether somebody else has given the same.
        """
        shown = attempt.payloads.redact(likeness.payload, tool=likeness.declaration.tool)
        given = likeness.shown()
        return digest_of(given if shown == likeness.payload else [self._salt, given])

    def _listening(self, ask: Approver, effect: Effect) -> Approver:
        """Return an approver that asks `ask` and at the same time listens for an answer from elsewhere."""
        if self._kernel.ledger.immediate and effect.declaration.approval.within is None:
            return ask  # no other process can answer
        key = effect.key

        def heard() -> Mapping[str, Any] | None:
            said = self._kernel.ledger.read(lambda book: answer_on_record(effect_of_key(book, key)))
            return None if said is None else said.answer

        return either(ask, heard)

    def _record_outcome(self, attempt: Attempt, effect: Effect) -> Program[None]:
        told = attempt.records.outcome(effect, self._kernel.clock())
        yield from self._kernel.step(lambda _protocol, book: attempt.put(book, [told]), durable=True)

    def withdraw(
        self,
        attempt: Attempt,
        effect: Effect,
        disposed: Disposed,
        *,
        answer: AnswerOnRecord | Literal[False] | None = False,
    ) -> Program[AnswerOnRecord | None]:
        """Record that an effect in question never runs, and why; its scopes become free.

        With an `answer` (the one from elsewhere, or None) this happens only if that is still the recorded one: else
        return the recorded answer, and the question stays.
        """
        calls, before = effect.calls, (effect.outcome, effect.tag, effect.disposed)
        effect.outcome, effect.tag, effect.disposed = Outcome.DROPPED, Tag.CLEAN, disposed
        told = attempt.records.outcome(effect, self._kernel.clock())

        def withdraw(protocol: Protocol, book: Book) -> AnswerOnRecord | None:
            first = None if answer is False else answer_on_record(effect_of_key(book, effect.key))
            if first is not None and first != answer:
                return first
            if attempt.live.state is State.OPEN:
                give_back(protocol, effect)
            attempt.put(book, [told])
            close(
                book,
                effect.key,
                _ENDS.get(disposed.disposition or Disposition.ASKED, ApprovalState.VOID),
                self._kernel.ledger.time(),
            )
            return None

        first: AnswerOnRecord | None = yield from self._kernel.step(withdraw, durable=True)
        if first is not None:
            effect.outcome, effect.tag, effect.disposed = before
            return first
        effect.calls = [call for call in calls if call.hold is not None]
        yield from self._undoing.tidy()
        return None

    def queue(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Record that an approved effect leaves when its transaction settles."""
        if not any(call.hold is not None for call in effect.calls):
            effect.calls = yield from self._admission.admit(attempt, txn, effect, Mode.HELD)
        effect.outcome = Outcome.QUEUED
        yield from self._record_outcome(attempt, effect)


def with_other_arguments(
    attempt: Attempt, effect: Effect, arguments: Mapping[str, Any] | None
) -> Program[Effect | None]:
    """Return an effect's copy with other arguments; None when there are none, or they are the same.

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
    parts = sum(path[:-1] == effect.path for path in attempt.effects.copy())
    made.call_id, made.rationale, made.held = effect.call_id, effect.rationale, effect.held
    made.decision = effect.decision
    made.pack, made.unpack, made.controls = effect.pack, effect.unpack, effect.controls
    made.path, made.position = (*effect.path, parts), attempt.placed
    made.key, made.instead_of = attempt.key(made.path, made.call_id), effect.key
    yield from checked_as_given(attempt, made)
    return made


def recorded_likeness(attempt: Attempt, effect: Effect, key: str | None) -> Effect:
    """Return the recorded copy of a call that was approved with other arguments, made runnable here."""
    likeness = next(found for found in attempt.effects.copy().values() if found.key == key)
    attempt.expected.keep(likeness.path)
    if effect.remake is not None:
        made = effect.remake(effect, likeness.shown())
        made.payload, made.path, made.call_id = json_text.encode(made.arguments), likeness.path, effect.call_id
        made.pack, made.unpack, made.controls = effect.pack, effect.unpack, effect.controls
        resume(attempt, made)
    return likeness


def rejected(approval: Approval) -> Disposed:
    """Return the error for a rejected effect."""
    return Disposed(Disposition.REJECTED, approval.because)


_ENDS = {Disposition.REJECTED: ApprovalState.REJECTED, Disposition.EDITED: ApprovalState.EDITED}


def _mode(effect: Effect) -> Mode:
    if effect.held:
        return Mode.HELD
    return Mode.EAGER if effect.declaration.undoable else Mode.FINAL


def _gate_of(attempt: Attempt, effect: Effect) -> Gate:
    """Return the gate of an effect, under the question number it had before."""
    declaration, arguments = effect.declaration, effect.shown()
    return Gate(
        attempt.name,
        attempt.run,
        declaration.tool,
        declaration.kind,
        effect.scope_text,
        arguments,
        effect.rationale,
        effect.key,
        would(declaration, arguments, effect.scope_text, held=effect.held),
        question=effect.disposed.question if is_asked(effect) else None,
    )


__all__ = [
    "APPROVED",
    "ASKED",
    "Asking",
    "Control",
    "recorded_likeness",
    "rejected",
    "with_other_arguments",
]
