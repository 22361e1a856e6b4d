"""Approvals as values: a question, the answers to it, and what one more answer comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any

from settlemark._approvals.channel import Occasion
from settlemark._approvals.terms import ROLE, one_person


class ApprovalState(StrEnum):
    """What a question is now.

    `waiting`: for answers; `approved`, `edited` (approved with other arguments), `rejected`: answered; `overdue`:
    nobody answered in time, which is a no; `void`: its call does not wait any more, since its transaction was undone.
    """

    WAITING = "waiting"
    APPROVED = "approved"
    EDITED = "edited"
    REJECTED = "rejected"
    OVERDUE = "overdue"
    VOID = "void"


ENDS: Mapping[str, ApprovalState] = {
    "approve": ApprovalState.APPROVED,
    "edit": ApprovalState.EDITED,
    "reject": ApprovalState.REJECTED,
}


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's answer.

    Attributes:
        by: who gave it; None: the person whom the process asks, where anyone may answer.
        roles: as what, such as `finance`.
        decision: `approve`, `edit` or `reject`.
        digest: of the arguments that the call is to run with.
        at: when, in seconds since 1970, on the store's clock.
        because: why, for people.
    """

    by: str | None
    roles: tuple[str, ...]
    decision: str
    digest: str
    at: float
    because: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "by": self.by,
            "roles": list(self.roles),
            "decision": self.decision,
            "digest": self.digest,
            "at": self.at,
            "because": self.because,
        }


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that was refused.

    Attributes:
        by: who gave it.
        why: why it does not count, for people.
        at: when, in seconds since 1970, on the store's clock.
    """

    by: str | None
    why: str
    at: float

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"by": self.by, "why": self.why, "at": self.at}


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """A question on record, with the answers that it has.

    Attributes:
        key: of the call that is asked about.
        state: what it is now.
        digest: of the arguments that the answers are about, as they are shown.
        spends: what the call would spend, by unit, as exact decimal numbers; empty where it tells nothing.
        at: when it was asked, in seconds since 1970, on the store's clock.
        by: who may answer from the start; empty: anyone.
        quorum: how many different people have to say yes.
        deadline: from when on it is a no; None: never.
        escalate: who may answer, too, and from when on.
        remind: after how many seconds those who may answer are told again.
        policy: which policy asked for it, or let it be asked: its version and digest; None: none did.
        round: how often its answers were taken back: an answer to an earlier round is none to it.
        told: up to when those who may answer were told what there was to tell; None: nobody was told.
        votes: the answers.
        refused: the last answers that were refused.
        transaction, attempt: of the call.
        version: how often it was written.
    """

    key: str
    state: ApprovalState
    digest: str
    spends: Mapping[str, str]
    at: float
    by: tuple[str, ...] = ()
    quorum: int = 1
    deadline: float | None = None
    escalate: tuple[tuple[tuple[str, ...], float], ...] = ()
    remind: float | None = None
    policy: tuple[str, str] | None = None
    told: float | None = None
    votes: tuple[Vote, ...] = ()
    refused: tuple[Refusal, ...] = ()
    transaction: str = ""
    attempt: int = 0
    version: int = 0
    round: int = 0

    @property
    def waits(self) -> bool:
        """Whether it waits for answers."""
        return self.state is ApprovalState.WAITING

    def is_late(self, at: float) -> bool:
        """Whether nobody has answered in time."""
        return self.waits and self.deadline is not None and at >= self.deadline

    def may_answer(self, at: float) -> tuple[str, ...]:
        """Return who may answer at a time; empty: anyone."""
        if not self.by:
            return ()
        later = (name for names, since in self.escalate if at >= since for name in names)
        return tuple(dict.fromkeys((*self.by, *later)))

    @property
    def due(self) -> float | None:
        """When something is to be done about it by somebody who tells nobody; None: never."""
        return self.deadline if self.waits else None

    def next_telling(self) -> float | None:
        """Return when there is something to tell next; None: there is nothing more to tell."""
        if not self.waits:
            return None
        if self.told is None:
            return self.at
        times = [since for _, since in self.escalate if since > self.told]
        if self.remind is not None:
            times.append(self.at + (int((self.told - self.at) / self.remind) + 1) * self.remind)
        return min((time for time in times if self.deadline is None or time < self.deadline), default=None)

    def to_tell(self, at: float) -> list[tuple[Occasion, tuple[str, ...]]]:
        """Return what there is to tell by a time, each with whom: to those who may answer, or who may from now on."""
        due = self.next_telling()
        if due is None or due > at or self.is_late(at):
            return []
        if self.told is None:
            return [("asked", self.may_answer(at))]
        before = self.told
        found: list[tuple[Occasion, tuple[str, ...]]] = [
            ("escalated", names) for names, since in self.escalate if before < since <= at
        ]
        return found or [("reminded", self.may_answer(at))]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "state": self.state.value,
            "digest": self.digest,
            "spends": dict(self.spends),
            "asked": self.at,
            "by": list(self.by),
            "quorum": self.quorum,
            "deadline": self.deadline,
            "remind": self.remind,
            "escalate": [{"to": list(to), "at": at} for to, at in self.escalate],
            "told": self.told,
            "round": self.round,
            "policy": None if self.policy is None else self.policy[0],
            "answers": [vote.to_json() for vote in self.votes],
            "refused": [refusal.to_json() for refusal in self.refused],
        }


@dataclass(frozen=True, slots=True)
class Count:
    """What an answer comes to.

    Attributes:
        refused: why it does not count; "" when it does.
        decided: nothing more is needed.
        news: it was not given before.
        more: how many more have to say the same.
        late: it came too late: nobody had answered in time, which is a no.
    """

    refused: str = ""
    decided: bool = False
    news: bool = True
    more: int = 0
    late: bool = False


def count(record: ApprovalRecord, vote: Vote) -> Count:
    """Return what an answer comes to: of one person the first counts, and one no is enough.

    A no without a name comes from the process itself, which may always leave its call alone.

    >>> asked = ApprovalRecord("k", ApprovalState.WAITING, "d", {}, 0.0, by=("ada", "role:board"), quorum=2)
    >>> count(asked, Vote("eve", (), "approve", "d", 1.0)).refused
    'eve is none of those who may answer: ada, role:board'
    >>> count(asked, Vote("bo", ("board",), "approve", "d", 1.0))
    Count(refused='', decided=False, news=True, more=1, late=False)
    """
    allowed, who = record.may_answer(vote.at), "whoever answers here" if vote.by is None else vote.by
    if vote.by is None and vote.decision == "reject":
        return Count(decided=True)
    if vote.by is None and (allowed or record.quorum > 1):
        return Count(f"nobody says who answers: it has to be {_or_anyone(allowed)}")
    named = vote.by in allowed and not str(vote.by).startswith(ROLE)  # a role is held, not borne as a name
    if allowed and not named and not any(f"{ROLE}{role}" in allowed for role in vote.roles):
        return Count(f"{who} is none of those who may answer: {', '.join(allowed)}")
    person = one_person(vote.by)
    before = next((each for each in record.votes if one_person(each.by) == person), None)
    if before is not None and (before.decision, before.digest) != (vote.decision, vote.digest):
        return Count(f"{who} has answered already: {before.decision}")
    if vote.decision == "reject":
        return Count(decided=True, news=before is None)
    alike = [each for each in record.votes if each.digest == vote.digest and each.decision != "reject"]
    more = record.quorum - len({one_person(each.by) for each in alike} | {person})
    refused = ""
    if before is None and more > _left(record, person):
        refused = f"nobody would be left to make {record.quorum} who say the same: say what others have said, or no"
    return Count(refused, decided=more <= 0, news=before is None, more=max(0, more))


def _left(record: ApprovalRecord, person: str | None) -> float:
    """Return how many more people may answer, now or later, once this one has."""
    names = [*record.by, *(name for names, _ in record.escalate for name in names)]
    if not record.by or any(name.startswith(ROLE) for name in names):
        return inf
    return len({one_person(name) for name in names} - {one_person(vote.by) for vote in record.votes} - {person})


def _or_anyone(allowed: tuple[str, ...]) -> str:
    return f"one of {', '.join(allowed)}" if allowed else "somebody with a name"


__all__ = ["ENDS", "ApprovalRecord", "ApprovalState", "Count", "Refusal", "Vote", "count"]
