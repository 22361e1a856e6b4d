"""A stuck transaction as people and programs see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from settlemark._mending.remedy import Remedy, last_remedy
from settlemark._model import json_text
from settlemark._report.stuck import StuckCause, cause_of, is_stuck
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction, age_of
from settlemark.ledger._payloads.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class StuckEffect:
    """An effect that was to be undone, and stands.

    Attributes:
        key: its counterparty knows it by this.
        tool, scopes: what acted, and where.
        cause: why it was not undone: "failed", "missing" or "moved_on".
        note: what is known, for people; no decision reads it.
        arguments, result: as recorded; None where they were pruned, or cannot be read here.
        at: since when it stands so, in seconds since 1970.
    """

    key: str
    tool: str
    scopes: tuple[str, ...]
    cause: StuckCause
    note: str
    arguments: Any
    result: Any
    at: float | None


@dataclass(frozen=True, slots=True)
class Stuck:
    """A transaction that was undone, and of which something stands that could not be undone.

    Attributes:
        transaction, attempt, run: which.
        effects: what stands, in the order in which it was issued.
        remedy: what was tried about it, if anything.
    """

    transaction: str
    attempt: int
    run: str
    effects: tuple[StuckEffect, ...]
    remedy: Remedy | None = None


Found = tuple[RecordedTransaction, list[RecordedEffect]]


def recorded_stuck(book: Book) -> list[Found]:
    """Return the stuck attempts in a record, the oldest first, each with its stuck effects in issuance order."""
    found: list[Found] = []
    for recorded in sorted(book.unresolved(), key=age_of):
        effects = [effect for effect in recorded.effects if is_stuck(recorded, effect)]
        if effects:
            found.append((recorded, sorted(effects, key=lambda effect: effect.row.position)))
    return found


def stuck_in(book: Book) -> list[Stuck]:
    """Return what is stuck in a record, the oldest first."""
    return [as_stuck(book, recorded, effects) for recorded, effects in recorded_stuck(book)]


def as_stuck(book: Book, recorded: RecordedTransaction, effects: Iterable[RecordedEffect]) -> Stuck:
    """Return a recorded attempt with these effects of it."""
    row = recorded.row
    standing = tuple(_as_stuck(effect) for effect in effects)
    return Stuck(row.name, row.attempt, row.run, standing, last_remedy(book, row.name, row.attempt))


def _as_stuck(effect: RecordedEffect) -> StuckEffect:
    row = effect.row
    arguments, result = (
        None if isinstance(text, Unreadable) else json_text.decode(text) for text in (row.arguments, effect.result)
    )
    scopes: tuple[str, ...] = tuple(json_text.decode(row.scopes))
    return StuckEffect(
        row.key, row.tool, scopes, cause_of(effect), str(effect.disposed), arguments, result, effect.settled_at
    )


__all__ = ["Found", "Stuck", "StuckEffect", "as_stuck", "recorded_stuck", "stuck_in"]
