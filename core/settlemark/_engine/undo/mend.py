"""Undoing a late effect under its own key: a mend is a transaction that holds the effect of another, and aborts."""

from __future__ import annotations

import logging
from functools import partial

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.revival import afresh, revive
from settlemark._edges.text import CAUSE, prose
from settlemark._engine.doubt import Probing, effect_of_key
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.retries import undo
from settlemark._model.disposition import Disposed
from settlemark._model.effect_class import Outcome
from settlemark._observe.logs import Quote, about
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Tag
from settlemark._report.verdicts import is_to_rewind, is_to_undo
from settlemark.ledger._contract import Book, OutcomeChange, RecordedEffect, RecordedTransaction

Found = tuple[RecordedTransaction, RecordedEffect]


class Mending:
    """Undoes what mends hold."""

    def __init__(self, kernel: Kernel, probing: Probing) -> None:
        self._kernel = kernel
        self._probing = probing

    def take_back(self, attempt: Attempt, effect: Effect) -> Program[bool]:
        """Undo the effect that a mend holds under its own key: what came of that is the late effect's."""
        assert effect.call_id is not None
        key = effect.call_id
        found: Found | None = yield from self._kernel.step(lambda _protocol, book: _to_undo(book, key))
        effect.tag, effect.disposed = Tag.CLEAN, Disposed(note=f"see {key}")
        if found is None:
            return False  # somebody has done so
        before = found[1]
        row = before.row
        late = revive(afresh(before), effect.declaration)
        current = CurrentCall(key, row.name, attempt.live.epoch, row.attempt)
        undoing = undo(late, current, attempt.retries, self._probing, partial(self._kernel.still_ours, attempt.live))
        if self._kernel.telling.observer is not None:
            undoing = self._kernel.telling.observed(attempt, late, "undo", current, undoing)
        yield from undoing
        effect.outcome = late.outcome
        gone = late.outcome is not Outcome.UNDONE
        done = "undone on request" if is_to_rewind(*found) else "undone after its transaction was"
        became = late.disposed.told or ("gone when it was to be undone" if gone else done)
        note = f"{became} {before.note}" if before.note else became  # with who had told of it
        disposed = Disposed(late.disposed.disposition, note)
        told = OutcomeChange.of(
            key, late.outcome, before.result, before.error, late.tag, disposed, self._kernel.clock(), row.tool
        )

        def tell(_protocol: Protocol, book: Book) -> None:
            book.write([told])

        yield from self._kernel.queue_step(tell, durable=True)
        tell_change(told)
        return False  # a write: no plan may go by what it read meanwhile


def tell_change(change: OutcomeChange) -> None:
    level = logging.INFO if change.tag in (None, Tag.CLEAN) else logging.WARNING
    data = about(key=change.key, outcome=change.outcome.value, tag=change.tag and change.tag.value)
    told = prose(str(change.disposed), CAUSE)
    log.log(level, "%s is %s: %s", change.key, change.outcome, Quote(told), extra=data)


def _to_undo(book: Book, key: str) -> Found | None:
    recorded = book.find(key)
    effect = effect_of_key(book, key)
    if recorded is None or effect is None:
        return None
    return (recorded, effect) if is_to_undo(recorded, effect) or is_to_rewind(recorded, effect) else None
