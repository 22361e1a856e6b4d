"""Calls that wait for a person's yes, wherever their transactions were put aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from settlemark._approvals.answers import ApprovalRecord
from settlemark._edges.plain import joined
from settlemark._model import json_text
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import State
from settlemark._report.sentences import answer_of, answer_values, short
from settlemark.ledger._approvals import approval_of_key
from settlemark.ledger._contract import Book, Ledger, RecordedEffect, RecordedTransaction
from settlemark.ledger._notices import NoticeRow, notices_about

if TYPE_CHECKING:
    from settlemark.ledger._replica.looking import Look

NOBODY_ASKS = "Nothing waits for a person."


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for a person's yes: see `Settlement.approve` and `Settlement.reject`.

    Attributes:
        key: its idempotency key, by which it is answered.
        transaction, attempt, run, tool, scope: the call.
        arguments: the arguments it would run with, which an approval covers.
        rationale: what the model said when it issued the call.
        since: when it was issued, in seconds since 1970.
        parked: its transaction was put aside, and settles once all of its calls are approved; else its process, or its
            framework, continues with it.
        answer: an answer that nobody has acted on yet: `decision`, `arguments`, `because`; None without.
        answered_by: who gave that answer.
        approval: its row: who may answer and by when, and who has answered by now; None where none is on record.
        notices: who was told of it, or is to be: see `Settlement(channels=…)`.
    """

    key: str
    transaction: str
    attempt: int
    run: str
    tool: str
    kind: str
    scope: str
    arguments: Any
    rationale: str | None
    since: float
    parked: bool
    answer: Mapping[str, Any] | None = None
    answered_by: str | None = None
    approval: ApprovalRecord | None = None
    notices: tuple[NoticeRow, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the question as JSON values."""
        return {
            "key": self.key,
            "transaction": self.transaction,
            "attempt": self.attempt,
            "run": self.run,
            "tool": self.tool,
            "class": self.kind,
            "scope": self.scope,
            "arguments": self.arguments,
            "rationale": self.rationale,
            "since": self.since,
            "parked": self.parked,
            "answer": None if self.answer is None else dict(self.answer),
            "answered_by": self.answered_by,
            "approval": None if self.approval is None else self.approval.to_json(),
            "notices": [row.account() for row in self.notices],
        }


@dataclass(frozen=True, slots=True)
class AnswerOnRecord:
    """An answer on record, given in any process, and its author."""

    answer: Mapping[str, Any]
    by: str | None


def answer_on_record(effect: RecordedEffect | None) -> AnswerOnRecord | None:
    """Return the answer recorded with an effect, or None."""
    said = None if effect is None else answer_values(effect)
    if effect is None or said is None:
        return None
    return AnswerOnRecord({name: value for name, value in said.items() if value is not None}, effect.said_by)


def no_on_record(effect: RecordedEffect | None) -> str | None:
    """Return who rejected an effect, and why; None when nobody did."""
    if effect is None:
        return None
    if effect.verdict == "reject":
        return answer_of(effect)
    return str(effect.disposed) if effect.disposition is Disposition.REJECTED else None


def is_parked(txn: Txn) -> bool:
    """Whether a transaction was put aside, and waits for a person or its framework."""
    return txn.parked and txn.owner == NOBODY and txn.state is State.OPEN and not txn.role


def gated_in(recorded: RecordedTransaction, txn: Txn) -> list[RecordedEffect]:
    """Return the effects of a parked transaction that would leave on a yes."""
    return [
        effect
        for effect in recorded.effects
        if effect.row.attempt == txn.attempt
        and effect.row.held
        and effect.outcome is Outcome.QUEUED
        and effect.row.kind is EffectClass.IRREVERSIBLE
    ]


def questions(protocol: Protocol, book: Book) -> list[Question]:
    """Return what waits for a person's yes, oldest first."""
    found: list[Question] = []
    for recorded in book.unfinished(Outcome.SUSPENDED):
        found += [
            _question(recorded, effect, parked=False)
            for effect in recorded.effects
            if effect.disposition is Disposition.ASKED
        ]
    known = {(one.transaction, one.attempt) for one in found}
    for txn in [txn for txn in protocol.live.values() if is_parked(txn)]:
        aside = book.load(txn.name)
        if aside is not None and (txn.name, txn.attempt) not in known:
            found += [_question(aside, effect, parked=True) for effect in gated_in(aside, txn)]
    return sorted(found, key=lambda one: one.since)


def asked(protocol: Protocol, book: Book) -> list[Question]:
    """Return what waits for a person's yes, each with its row, oldest first."""
    return [
        replace(one, approval=approval_of_key(book, one.key), notices=tuple(notices_about(book, one.key)))
        for one in questions(protocol, book)
    ]


def _question(recorded: RecordedTransaction, effect: RecordedEffect, *, parked: bool) -> Question:
    row, answer = effect.row, answer_values(effect)
    return Question(
        row.key,
        row.name,
        row.attempt,
        recorded.row.run,
        row.tool,
        row.kind.value,
        row.scope,
        json_text.decode(row.arguments),
        row.rationale,
        row.at,
        parked,
        answer,
        None if answer is None else effect.said_by,
    )


def asked_in(ledger: Ledger) -> list[Question]:
    """Return what waits for a person in a ledger that was opened for reading.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    from settlemark.ledger._replica.looking import looking

    def find(look: Look) -> list[Question]:
        return asked(look.replica(), look.book)

    return looking(ledger, find)


def asked_account(found: Sequence[Question]) -> str:
    """Describe in sentences what waits for a person, and how to answer.

    >>> asked_account([])
    'Nothing waits for a person.'
    """
    lines: list[str] = []
    for one in found:
        lines.append(
            f"{short(one.transaction)}: {one.tool} on {one.scope} waits for a person, since {_when(one.since)}"
        )
        lines.append(f"  with: {json_text.encode_result(one.arguments)}")
        if one.rationale:
            lines.append(f"  because: {' '.join(one.rationale.split())}")
        if one.approval is not None:
            lines += [f"  {line}" for line in _terms(one.approval)]
        for row in one.notices:
            lines += [f"  {row.notice.occasion}: told by {name}, {_when(at)}" for name, at in row.told.items()]
            if row.left:
                lines.append(f"  {row.notice.occasion}: not told yet by {', '.join(row.left)}")
        lines.append(f"  key: {one.key}")
        if one.answer is not None:
            answer = one.answer.get("decision")
            then = "any process that has its tools settles it" if one.parked else "the waiting program goes on with it"
            lines.append(f"  answered: {answer}, by {one.answered_by}; {then}")
    if any(one.answer is None for one in found):
        lines.append(
            "To answer: settlemark approve KEY [LEDGER] --as NAME,"
            " or settlemark reject KEY [LEDGER] --because TEXT --as NAME"
        )
    return joined(lines) or NOBODY_ASKS


def _terms(record: ApprovalRecord) -> list[str]:
    """Return in sentences who may answer and by when, and who has."""
    lines: list[str] = []
    if record.by or record.quorum > 1:
        who = " or ".join(record.by) or "anyone"
        lines.append(f"to be answered by {who}" + (f": {record.quorum} of them" if record.quorum > 1 else ""))
    for names, since in record.escalate if record.waits else ():
        lines.append(f"also by {' or '.join(names)} from {_when(since)}")
    if record.deadline is not None:
        lines.append(f"a no unless answered by {_when(record.deadline)}")
    if record.spends:
        lines.append("would spend " + ", ".join(f"{amount} {unit}" for unit, amount in record.spends.items()))
    said = {"approve": "yes", "edit": "yes, with other arguments", "reject": "no"}
    lines += [f"{vote.by or 'asked here'}: {said[vote.decision]}, {_when(vote.at)}" for vote in record.votes]
    return lines


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


__all__ = [
    "NOBODY_ASKS",
    "AnswerOnRecord",
    "Question",
    "answer_on_record",
    "asked",
    "asked_account",
    "asked_in",
    "gated_in",
    "is_parked",
    "no_on_record",
    "questions",
]
