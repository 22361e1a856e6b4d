"""Approvals on record: what a person is asked, who may answer and by when, and who has answered.

A question is an entry of its run's chain, added in the commit that records its call, with each answer as one more
version. What is asked about is still told by the call's own row: a question whose call waits no more has ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from settlemark._approvals.answers import ENDS, ApprovalRecord, ApprovalState, Count, Refusal, Vote, count
from settlemark._approvals.terms import Approval
from settlemark._edges.errors import UsageError
from settlemark._model import json_text
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Draft, Entry, Which
from settlemark.ledger._payloads.unreadable import Unreadable

KIND = "approval"
REFUSALS = 20
"""How many refused answers stay on record with a question: the last ones."""
_LONGEST = 360


def digest_of(arguments: object) -> str:
    """Return the digest of arguments as they are shown to the person who is asked.

    >>> digest_of({"to": "ada"}) == digest_of({"to": "bo"})
    False
    """
    return hashlib.sha256(json_text.canonical(arguments).encode()).hexdigest()


def approval_id(key: str) -> str:
    """Return the id of the question about a call."""
    return key if len(key) <= _LONGEST else hashlib.sha256(key.encode()).hexdigest()


def asked_draft(
    key: str,
    *,
    run: str,
    name: str,
    attempt: int,
    digest: str,
    spends: Mapping[str, Any],
    terms: Approval,
    at: float,
    policy: tuple[str, str] | None = None,
) -> Draft:
    """Return the entry that puts a question."""
    record = ApprovalRecord(
        key,
        ApprovalState.WAITING,
        digest,
        {unit: str(amount) for unit, amount in spends.items()},
        at,
        terms.names,
        terms.quorum,
        None if terms.within is None else at + terms.within,
        tuple((cast("tuple[str, ...]", step.to), at + step.after) for step in terms.steps),
        terms.remind,
        policy,
    )
    return Draft(
        KIND,
        approval_id(key),
        run,
        record.state.value,
        at,
        _body(record),
        name,
        attempt,
        key,
        due=record.due,
        open=_stands(record),
    )


def _stands(record: ApprovalRecord) -> bool:
    """Whether retention leaves a question: without it, nobody would know who may answer, or by when."""
    return record.waits and bool(record.by or record.quorum > 1 or record.deadline is not None)


def _body(record: ApprovalRecord) -> str:
    return json_text.encode(
        {
            "digest": record.digest,
            "spends": dict(record.spends),
            "asked": record.at,
            "by": list(record.by),
            "quorum": record.quorum,
            "deadline": record.deadline,
            "remind": record.remind,
            "policy": record.policy,
            "round": record.round,
            "told": record.told,
            "escalate": [[list(to), at] for to, at in record.escalate],
            "answers": [vote.to_json() for vote in record.votes],
            "refused": [refusal.to_json() for refusal in record.refused],
        }
    )


def record_in(entry: Entry) -> ApprovalRecord:
    """Return a question as recorded; what cannot be read of it any more is empty."""
    unread = isinstance(entry.body, Unreadable) or not entry.kept
    return _as_told(entry, {} if unread else json_text.decode(entry.body), entry.version)


def _as_told(told: Draft | Entry, said: Mapping[str, Any], version: int) -> ApprovalRecord:
    return ApprovalRecord(
        told.key or told.id,
        ApprovalState(told.state),
        str(said.get("digest", "")),
        said.get("spends") or {},
        float(said.get("asked", told.at)),
        tuple(said.get("by") or ()),
        int(said.get("quorum", 1)),
        said.get("deadline"),
        tuple((tuple(to), float(at)) for to, at in said.get("escalate") or ()),
        said.get("remind"),
        _pair(said.get("policy")),
        said.get("told"),
        tuple(_vote_in(each) for each in said.get("answers") or ()),
        tuple(Refusal(each["by"], each["why"], float(each["at"])) for each in said.get("refused") or ()),
        told.name or "",
        told.attempt or 0,
        version,
        _whole(said.get("round")),
    )


def _pair(said: list[str] | None) -> tuple[str, str] | None:
    return (said[0], said[1]) if isinstance(said, list) else None  # a rule of redact= may name a field alike


def _whole(said: object) -> int:
    return said if isinstance(said, int) else 0


def _vote_in(said: Mapping[str, Any]) -> Vote:
    return Vote(
        said["by"], tuple(said["roles"]), said["decision"], said["digest"], float(said["at"]), said.get("because")
    )


def known_or_new(book: Book, draft: Draft) -> ApprovalRecord:
    """Return the question about a call as recorded; where none is, as this draft puts it, with version 0.

    Raises:
        UsageError: who may answer cannot be read in this process.
    """
    entry = book.entries.get(KIND, draft.id)
    if entry is None:
        return _as_told(draft, json_text.decode(draft.body), 0)
    if entry.open and isinstance(entry.body, Unreadable):
        raise UsageError(
            f"who may answer about {draft.key} cannot be read here: answer where the ledger's key is known; nothing was"
            " recorded",
            key=draft.key,
        )
    return record_in(entry)


def approval_of_key(book: Book, key: str) -> ApprovalRecord | None:
    """Return the question about a call, or None."""
    entry = book.entries.get(KIND, approval_id(key))
    return None if entry is None else record_in(entry)


def move(book: Book, key: str, to: str, *, name: str, attempt: int, at: float) -> None:
    """Have what is asked about a call asked about the one that it goes on as, in another transaction."""
    entry = book.entries.get(KIND, approval_id(key))
    if entry is None or entry.state != ApprovalState.WAITING:
        return
    book.entries.add(
        Draft(
            KIND,
            approval_id(to),
            entry.run,
            entry.state,
            at,
            entry.body,
            name,
            attempt,
            to,
            entry.due,
            entry.open,
        )
    )
    book.entries.change(KIND, entry.id, state=ApprovalState.VOID.value, at=at, from_version=entry.version)


def close(book: Book, key: str, state: ApprovalState, at: float) -> None:
    """Record the end of a question, unless it has ended, or none was put."""
    entry = book.entries.get(KIND, approval_id(key))
    if entry is not None and entry.state == ApprovalState.WAITING:
        book.entries.change(KIND, entry.id, state=state.value, at=at, from_version=entry.version)


def approvals_waiting(book: Book) -> list[ApprovalRecord]:
    """Return the questions that are recorded as waiting, the oldest first."""
    return [record_in(entry) for entry in book.entries.find(Which(KIND, state=ApprovalState.WAITING.value))]


def weighed(book: Book, draft: Draft, vote: Vote, *, seen: str | None = None, asked_in: int | None = None) -> Count:
    """Return what an answer comes to, with nothing recorded; `draft` puts its question where none is on record.

    `seen` is the digest of the arguments that the answer is about, where its author tells; `asked_in` the round.

    Raises:
        UsageError: who may answer cannot be read in this process.
    """
    record, told = _asked_again(book, draft), json_text.decode(draft.body)["digest"]
    if record.is_late(vote.at):
        return Count(late=True)
    if record.digest not in ("", told) or seen not in (None, told):
        return Count("its arguments are not those that the answer is about: look at them again")
    if asked_in not in (None, record.round):
        return Count("it is asked about again since: look at it again")
    return count(record, vote)


def count_in(book: Book, draft: Draft, vote: Vote, found: Count, *, closes: bool = True) -> None:
    """Record an answer, with what it comes to: an end of its question if it `closes` it, or a refusal."""
    record = _asked_again(book, draft)
    if found.late:
        rewrite(book, record, at=vote.at, draft=draft, state=ApprovalState.OVERDUE)
    elif found.refused:
        rewrite(book, record, at=vote.at, draft=draft, refusal=Refusal(vote.by, found.refused, vote.at))
    elif found.news or (found.decided and closes):
        state = ENDS[vote.decision] if found.decided and closes else None
        rewrite(book, record, at=vote.at, draft=draft, vote=vote, state=state)


def _asked_again(book: Book, draft: Draft) -> ApprovalRecord:
    return replace(known_or_new(book, draft), state=ApprovalState.WAITING)


def refuse(book: Book, draft: Draft, vote: Vote, why: str) -> None:
    """Record that an answer does not count, and why."""
    record = known_or_new(book, draft)
    rewrite(book, record, at=vote.at, draft=draft, refusal=Refusal(vote.by, why, vote.at))


def put_again(book: Book, key: str, at: float, policy: tuple[str, str] | None = None) -> None:
    """Have a question wait again whose answer was taken back; who may answer is told anew, in a new round.

    With a `policy`, it is that one that has it asked now.
    """
    record = approval_of_key(book, key)
    if record is None or (record.waits and not record.votes and policy in (None, record.policy)):
        return  # it is put again already
    again = replace(record, votes=(), policy=policy or record.policy, told=None, round=record.round + 1)
    rewrite(book, again, at=at, state=ApprovalState.WAITING)


def rewrite(
    book: Book,
    record: ApprovalRecord,
    *,
    at: float,
    draft: Draft | None = None,
    state: ApprovalState | None = None,
    vote: Vote | None = None,
    refusal: Refusal | None = None,
    told: float | None = None,
) -> ApprovalRecord:
    """Record an answer, a refusal, or the end of a question, and return it as it is then.

    A question that was not on record before is put there first, by its draft.
    """
    if record.version == 0 and draft is not None:
        record = replace(record, version=book.entries.add(draft).entry.version)
    known = vote is None or any(each.by == vote.by and each.decision == vote.decision for each in record.votes)
    votes = record.votes if vote is None or known else (*record.votes, vote)
    refused = record.refused if refusal is None else (*record.refused, refusal)[-REFUSALS:]
    now = replace(record, state=state or record.state, votes=votes, refused=refused, version=record.version + 1)
    now = now if told is None else replace(now, told=told)
    book.entries.change(
        KIND,
        approval_id(record.key),
        state=now.state.value,
        at=at,
        from_version=record.version,
        body=_body(now),
        due=now.due,
        open=_stands(now),
    )
    return now


__all__ = [
    "KIND",
    "approval_id",
    "approval_of_key",
    "approvals_waiting",
    "asked_draft",
    "close",
    "count_in",
    "digest_of",
    "known_or_new",
    "move",
    "put_again",
    "record_in",
    "refuse",
    "rewrite",
    "weighed",
]
