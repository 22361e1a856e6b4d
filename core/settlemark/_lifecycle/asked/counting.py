"""An answer from elsewhere, counted: whether its author may give it, in time, about what is still as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._acts.requests import Act
from settlemark._approvals.answers import ApprovalState, Count, Vote
from settlemark._approvals.terms import ANYONE
from settlemark._edges.errors import Stale, UsageError
from settlemark._edges.wording import in_words
from settlemark._engine.doubt import effect_of_key
from settlemark._engine.kernel import Kernel
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark._report.questions import Question, questions
from settlemark.ledger._approvals import (
    KIND,
    approval_of_key,
    asked_draft,
    close,
    count_in,
    digest_of,
    record_in,
    refuse,
    rewrite,
    weighed,
)
from settlemark.ledger._contract import Book, Said
from settlemark.ledger._entries import Draft, Which
from settlemark.ledger._links import linked
from settlemark.ledger._payloads.unreadable import Unreadable

DEADLINE = "the deadline"
"""Who has answered where nobody did in time."""
NO_IN_TIME = "nobody answered in time"


class Voice(NamedTuple):
    """An answer, and whose it is.

    Attributes:
        decision: `approve`, `edit` or `reject`.
        by, roles: who gives it, and as what.
        because: why.
        arguments: those to run with, of an edit.
        seen: the digest of the arguments that it is about, where its author tells.
        asked_in: the round of the question that it answers, where that is known.
    """

    decision: str
    by: str
    roles: tuple[str, ...] = ()
    because: str | None = None
    arguments: Mapping[str, Any] | None = None
    seen: str | None = None
    asked_in: int | None = None

    def vote(self, shown: str, at: float) -> Vote:
        """Return it as an answer about the arguments with this digest."""
        digest = shown if self.arguments is None else digest_of(dict(self.arguments))
        return Vote(self.by, self.roles, self.decision, digest, at, self.because)


def counted(kernel: Kernel, protocol: Protocol, book: Book, asked: list[Question], voice: Voice) -> list[Count]:
    """Record an answer to questions, in one step, and return what it comes to for each: for all of them, or for none.

    Raises:
        UsageError: it does not count for one of them, which is all that is recorded.
        Stale: what a call stands on has changed; its transaction is aborted, and the refusal recorded.
    """
    at, found = kernel.ledger.time(), list[tuple[Question, Draft, Vote, Count]]()
    for one in asked:
        digest = "" if isinstance(one.arguments, Unreadable) else digest_of(one.arguments)
        draft = asked_draft(
            one.key,
            run=one.run,
            name=one.transaction,
            attempt=one.attempt,
            digest=digest,
            spends={},
            terms=ANYONE,
            at=at,
        )
        vote = voice.vote(digest, at)
        found.append((one, draft, vote, weighed(book, draft, vote, seen=voice.seen, asked_in=voice.asked_in)))
    refused = [(one, draft, vote, count) for one, draft, vote, count in found if count.refused]
    for one, draft, vote, count in found if not refused else ():
        if not count.late:
            refuse_stale(protocol, book, draft, vote, one)
    for one, draft, vote, count in refused or found:
        count_in(book, draft, vote, count)
        if count.late:
            book.write([no_in_time(one.key, one.tool, kernel.clock())])
    for one, _, _, count in refused:
        raise UsageError(
            f"{one.key} was not answered: {count.refused}; nothing but that was recorded", key=one.key, by=voice.by
        )
    return [count for _, _, _, count in found]


def no_in_time(key: str, tool: str, at: float) -> Said:
    """Return the answer that a question has which nobody answered in time."""
    text = json_text.encode({"decision": "reject", "because": NO_IN_TIME})
    return Said(key, text, DEADLINE, at, dealt=False, tool=tool, verdict="reject")


def refuse_unfit(
    kernel: Kernel,
    which: str,
    arguments: Mapping[str, Any] | None,
    remake: Callable[[str, Effect, Mapping[str, Any]], Effect],
) -> Program[None]:
    """Return when a call that was put aside takes arguments given in place of its own, as far as is known here.

    Raises:
        UsageError: its tool does not take them, its check refuses them, or they are no scope; nothing was recorded.
    """
    if arguments is None:
        return

    def find(protocol: Protocol, book: Book) -> list[tuple[Question, Declaration | None]]:
        mine = [one for one in questions(protocol, book) if one.parked and which in (one.key, one.transaction)]
        rows = [(one, effect_of_key(book, one.key)) for one in mine]
        return [(one, kernel.declaration(row.row.tool, row.row.version)) for one, row in rows if row is not None]

    found: list[tuple[Question, Declaration | None]] = yield from kernel.step(find)
    for one, declared in found:
        if declared is None or declared.function is None or one.answer is not None:
            continue
        try:
            made = remake(one.run, Effect(declared, (), {}, str), arguments)
        except UsageError as error:
            raise UsageError(f"{one.key} was not answered: {error}; nothing was recorded", key=one.key) from error
        check = declared.check
        if check is None:
            continue
        bound = check.bind(made.for_handlers(), result=None, key=one.key)
        try:
            yield Act(check.function, bound, CurrentCall(one.key, one.transaction, 0, one.attempt))
        except Exception as error:
            raise UsageError(
                f"{one.key} was not answered: {one.tool} refuses these arguments: {in_words(error)}; nothing was"
                " recorded",
                key=one.key,
            ) from error


def refuse_unfit_by_link(
    kernel: Kernel,
    token: str,
    arguments: Mapping[str, Any] | None,
    remake: Callable[[str, Effect, Mapping[str, Any]], Effect],
) -> Program[None]:
    """Return as `refuse_unfit`, of the call that a one-time link is about: a link is used by what counts alone."""
    if arguments is not None:
        key: str | None = yield from kernel.step(lambda _protocol, book: linked(book, token))
        if key is not None:
            yield from refuse_unfit(kernel, key, arguments, remake)


def refuse_stale(protocol: Protocol, book: Book, draft: Draft, vote: Vote, one: Question) -> None:
    """Return when everything that a call has read is as it was when it was issued.

    Where another policy is in force by now, the call is judged again before it leaves, and asked about again.

    Raises:
        Stale: it is not, and its transaction is aborted.
    """
    txn = protocol.named.get(one.transaction)
    if vote.decision == "reject" or txn is None or txn.attempt != one.attempt or txn.state is not State.OPEN:
        return
    try:
        protocol.refuse_changed(txn, planned=True)
    except Stale as stale:
        refuse(book, draft, vote, str(stale))
        raise


def refuse_unsigned(protocol: Protocol, book: Book, txn: Txn, at: float, *, approve: bool, edited: bool) -> None:
    """Return when it is a no, or anyone may say yes to a transaction, or the person who has to has said that yes.

    Raises:
        UsageError: somebody has answered otherwise, or it is to be said who answers; nothing moved.
    """
    waiting = questions(protocol, book) if approve else []
    for one in [one for one in waiting if (one.transaction, one.attempt) == (txn.name, txn.attempt)]:
        if one.answer is not None:
            said = str(one.answer.get("decision"))
            if said != "approve" or edited:
                raise UsageError(
                    f"{one.key} was answered already by {one.answered_by}: {said}; nothing moved, and"
                    " settlement.recover() carries that answer out where its tools are declared",
                    transaction=txn.name,
                    key=one.key,
                    decision=said,
                )
            continue
        record = approval_of_key(book, one.key)
        if record is None:
            continue
        late = record.deadline is not None and at >= record.deadline
        if record.by or record.quorum > 1 or late:
            who = ", ".join(record.may_answer(at)) or "several people"
            raise UsageError(
                f"{txn.name} is to be answered by {who}: say who answers, as in settlement.approve({record.key!r},"
                " by=...); nothing moved",
                transaction=txn.name,
                key=record.key,
            )


def end_unsigned(book: Book, txn: Txn, at: float, *, approve: bool, edited: bool) -> list[str]:
    """End the questions of a transaction that is answered as a whole, and return their keys."""
    found = [record_in(entry) for entry in book.entries.find(Which(KIND, state=ApprovalState.WAITING, name=txn.name))]
    yes = ApprovalState.EDITED if edited else ApprovalState.APPROVED
    mine = [record.key for record in found if record.attempt == txn.attempt]
    for key in mine:
        close(book, key, yes if approve else ApprovalState.REJECTED, at)
    return mine


def refuse_late(kernel: Kernel, key: str, protocol: Protocol, book: Book) -> Question | None:
    """Answer a question with no that nobody has answered in time, and return it; None: it still waits, or has ended."""
    one = next((each for each in questions(protocol, book) if each.key == key), None)
    record, at = approval_of_key(book, key), kernel.ledger.time()
    if one is None:
        close(book, key, ApprovalState.VOID, at)
    if one is None or one.answer is not None or record is None or not record.is_late(at):
        return None
    rewrite(book, record, at=at, state=ApprovalState.OVERDUE)
    book.write([no_in_time(key, one.tool, kernel.clock())])
    return one


__all__ = [
    "DEADLINE",
    "NO_IN_TIME",
    "Voice",
    "counted",
    "end_unsigned",
    "no_in_time",
    "refuse_late",
    "refuse_stale",
    "refuse_unfit",
    "refuse_unfit_by_link",
    "refuse_unsigned",
]
