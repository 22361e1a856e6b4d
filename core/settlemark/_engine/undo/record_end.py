"""The end of an aborted transaction that no program here works on, put on record: nothing of it had acted."""

from __future__ import annotations

from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._contract import Book, OutcomeChange, RecordedTransaction, StateChange


def record_end(book: Book, recorded: RecordedTransaction, reason: Reason | None, at: float, cause: str | None) -> None:
    """Record that an attempt was aborted, and what it held dropped.

    Args:
        book: of the step that ends it.
        recorded: the attempt as it is on record.
        reason: why.
        at: when, in seconds since 1970.
        cause: why, for people.
    """
    row = recorded.row
    for effect in recorded.effects:
        if effect.outcome in (Outcome.QUEUED, Outcome.INTENDED):
            book.write([OutcomeChange(effect.row.key, Outcome.DROPPED, None, None, Tag.CLEAN, None, at)])
    book.write([StateChange(row.name, row.attempt, State.ABORTED, row.epoch, reason, at, cause=cause)])


__all__ = ["record_end"]
