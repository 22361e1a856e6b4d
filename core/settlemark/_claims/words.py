"""What a primer is made of: a run's acts, what others have changed, and what keeps it from acting."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._owing.obligation import Obligation
from settlemark._steering.message import Steering
from settlemark.ledger._budgets import Bucket


@dataclass(frozen=True, slots=True)
class Act:
    """One effect, as a primer tells it.

    Attributes:
        key: its idempotency key, unique in the ledger.
        transaction, attempt, run: whose it is.
        tool, kind: what was called, and its class.
        scope: where it acts.
        arguments, result: as recorded: redacted, or pruned.
        outcome: what is known of it.
        told: the same in words, with its error, and what a person has said of it, as JSON texts.
        at: when it was issued, in seconds since 1970.
        said_by: who said the last word on it, if a person did.
    """

    key: str
    transaction: str
    attempt: int
    run: str
    tool: str
    kind: EffectClass
    scope: str
    arguments: Any
    result: Any
    outcome: Outcome
    told: str
    at: float
    said_by: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A resource that is not any more as a run has read or left it.

    Attributes:
        scope: the resource.
        stale: what the run has read there, or decided on, is not current.
        by: what others have committed there since the run's last act, as far as it is on record.
    """

    scope: str
    stale: bool
    by: tuple[Act, ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """What a run has decided, and why: see `Transaction.decide`.

    Attributes:
        id: names it.
        title: what was decided; "" where that is no longer kept.
        because: why, if that was said.
        at: when, in seconds since 1970.
    """

    id: str
    title: str
    because: str | None
    at: float


@dataclass(frozen=True, slots=True)
class Halting:
    """A halt that keeps a run from acting, there or everywhere: see `Settlement.halt`.

    Attributes:
        number: names it.
        what: what is halted, as people name it.
        by, because: who has halted it, and why.
        since: in seconds since 1970.
    """

    number: int
    what: str
    by: str
    because: str
    since: float


@dataclass(frozen=True, slots=True)
class Primer:
    """What a run's record says of it when it is taken up again: as a text for its model, and as data.

    Attributes:
        run: whose it is.
        known: whether anything of the run is on record. Where nothing is, there is nothing to be told.
        at: as of when, in seconds since 1970 on the store's clock.
        paused_at: when the run issued its last act, in seconds since 1970; None where it has not acted.
        happened: acts that have happened and stand, the oldest first: not to be done again.
        in_doubt: acts that may have happened: nobody knows yet.
        waiting: acts that have not left yet: they wait until their transaction settles, or for a person.
        not_done: acts that failed, were rejected, or were undone, in the last attempt of their transaction.
        owed: its open obligations, those due first at the front; pending ones are owed once their transaction commits.
        said: what people have said to it that its model may not know: since its last act, or not taken yet.
        decided: its decisions, the oldest first.
        changed: what it has read, decided on or touched, and others have changed since.
        budgets: what is left of the budgets that it spends from.
        halts: the halts that keep it from acting.
        cancelled: the run was cancelled: nothing of it acts any more.
        text: all of this in plain sentences, short enough for a model's instructions. What a tool or a person has
            written stands in it as JSON, in one line: it cannot pass for a sentence of the record.
    """

    run: str
    known: bool
    at: float
    paused_at: float | None
    happened: tuple[Act, ...]
    in_doubt: tuple[Act, ...]
    waiting: tuple[Act, ...]
    not_done: tuple[Act, ...]
    owed: tuple[Obligation, ...]
    said: tuple[Steering, ...]
    decided: tuple[Decided, ...]
    changed: tuple[Change, ...]
    budgets: tuple[Bucket, ...]
    halts: tuple[Halting, ...]
    cancelled: bool
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the primer as JSON values; amounts are texts.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").primer("trip-42").to_json()["known"]
        False
        """
        return {**asdict(self), "budgets": [bucket.values() for bucket in self.budgets]}


__all__ = ["Act", "Change", "Decided", "Halting", "Primer"]
