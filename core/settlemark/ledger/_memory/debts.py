"""The obligations of a ledger in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from settlemark.ledger._contract import EffectRow, OutcomeChange, RecordedTransaction
from settlemark.ledger._owed import (
    GONE,
    Lapse,
    OwedChange,
    OwedPage,
    OwedRow,
    RecordedOwed,
    Told,
    due_first,
    is_ended,
    is_on,
    lapse_id,
    stands,
)
from settlemark.ledger._payloads.payloads import PRUNED_WHY
from settlemark.ledger._payloads.unreadable import Outdated

_Attempt = tuple[str, int]


class MemoryDebts:
    """The obligations of a ledger in memory: see `settlemark.ledger._owed.Debts`.

    Args:
        transactions: the recorded attempts: what an obligation is now follows from its own.
        on_rollback: takes functions that undo a step's changes.
    """

    def __init__(
        self,
        transactions: Mapping[_Attempt, RecordedTransaction],
        on_rollback: Callable[[Callable[[], object]], None],
    ) -> None:
        self._transactions = transactions
        self._on_rollback = on_rollback
        self._owed: dict[str, RecordedOwed] = {}
        self._by_attempt: dict[_Attempt, list[str]] = {}
        self._by_effect: dict[str, str] = {}
        self._unended: dict[str, dict[str, None]] = {}  # by tool

    def __bool__(self) -> bool:
        return bool(self._owed)

    def find(self, page: OwedPage) -> list[RecordedOwed]:
        """Return the obligations of a page, those due first at the front."""
        return due_first(each for each in map(self._now, self._looked_at(page)) if is_on(page, each))

    def _looked_at(self, page: OwedPage) -> Iterable[RecordedOwed]:
        if page.id is not None:
            return filter(None, [self._owed.get(page.id)])
        if not page.unended:
            return self._owed.values()
        tools = self._unended if page.tools is None else page.tools
        return [self._owed[number] for tool in tools for number in self._unended.get(tool, ())]

    def write(self, change: OwedRow | OwedChange) -> None:
        """Record an obligation, or news of one; one that is recorded stays as it is."""
        if isinstance(change, OwedChange):
            self._change(change)
        elif change.id not in self._owed:
            self._open(change)

    def _open(self, row: OwedRow) -> None:
        self._put(RecordedOwed(row))
        theirs = self._by_attempt.setdefault((row.name, row.attempt), [])
        theirs.append(row.id)
        self._on_rollback(partial(theirs.remove, row.id))

    def _change(self, change: OwedChange) -> None:
        found = self._owed.get(change.id)
        if found is None:
            return
        if change.fulfilled is not None:
            found = found._replace(fulfilled=change.fulfilled, fulfilled_at=change.at)
            self._by_effect[change.fulfilled] = change.id
        if change.waived_by is not None:
            found = found._replace(waived_by=change.waived_by, waived_at=change.at)
        if change.note is not None:
            found = found._replace(note=change.note)
        if change.told is not None:
            found = found._replace(told=Told(change.told), told_at=change.at)
        self._put(found)

    def reopen(self, change: OutcomeChange) -> None:
        """Open again what an effect had fulfilled that never left, or was taken back."""
        number = self._by_effect.get(change.key) if change.outcome in GONE else None
        found = None if number is None else self._owed.get(number)
        if found is not None and found.fulfilled == change.key:
            self._put(found._replace(fulfilled=None, fulfilled_at=None))

    def lapse(self, effect: EffectRow, lapse: Lapse, at: float) -> None:
        """Open what an effect owes for what it got until a time, or let it go: the effect was taken back."""
        number, attempt = lapse_id(effect.key), (effect.name, effect.attempt)
        known = self._owed.get(number)
        if lapse.due is not None:
            run = self._transactions[attempt].row.run
            where = lapse.to, lapse.tool, lapse.scope, lapse.payload
            self.write(OwedRow(number, *attempt, run, effect.position + 1, *where, at, lapse.due))
        elif known is not None:
            theirs = self._by_attempt[attempt]
            theirs.remove(number)
            self._on_rollback(partial(theirs.append, number))
            self._on_rollback(partial(self._stands, known))
            self._stands_no_more(known)

    def stand(self, attempt: _Attempt) -> bool:
        """Whether an attempt owes something, or will when it commits."""
        return any(stands(self._now(self._owed[number])) for number in self._by_attempt.get(attempt, ()))

    def forget(self, attempt: _Attempt) -> None:
        """Forget what an attempt owed."""
        for number in self._by_attempt.pop(attempt, ()):
            gone = self._owed[number]
            self._stands_no_more(gone)
            if gone.fulfilled is not None:
                self._by_effect.pop(gone.fulfilled, None)

    def strip(self, attempt: _Attempt) -> None:
        """Remove the payloads of what an attempt owed."""
        for number in self._by_attempt.get(attempt, ()):
            found = self._owed[number]
            text = Outdated.of("arguments", PRUNED_WHY)
            self._owed[number] = found._replace(row=found.row._replace(payload=text), note=None)

    def _put(self, found: RecordedOwed) -> None:
        before = self._owed.get(found.row.id)
        self._on_rollback(partial(self._stands_no_more, found) if before is None else partial(self._stands, before))
        self._stands(found)

    def _stands(self, found: RecordedOwed) -> None:
        number, theirs = found.row.id, self._unended.setdefault(found.row.tool, {})
        self._owed[number] = found
        if is_ended(found):
            theirs.pop(number, None)
        else:
            theirs[number] = None

    def _stands_no_more(self, found: RecordedOwed) -> None:
        del self._owed[found.row.id]
        self._unended[found.row.tool].pop(found.row.id, None)

    def _now(self, found: RecordedOwed) -> RecordedOwed:
        theirs = self._transactions.get((found.row.name, found.row.attempt))
        return found if theirs is None else found._replace(committed=theirs.state, reason=theirs.reason)


__all__ = ["MemoryDebts"]
