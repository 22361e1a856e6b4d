"""A ledger that lives as long as the process: for tests and one-shot scripts."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future
from typing import Any

from settlemark._errors import LedgerError
from settlemark._states import FINISHED
from settlemark.ledger._contract import (
    Change,
    EffectRow,
    Fence,
    OutcomeChange,
    RecordedEffect,
    RecordedTransaction,
    StateChange,
    TransactionRow,
)


class MemoryLedger:
    """Keeps every unfinished transaction, and the last `retain` finished ones.

    >>> ledger = MemoryLedger()
    >>> ledger.load("trip-42") is None
    True
    """

    url = "memory:"

    def __init__(self, *, retain: int = 10_000) -> None:
        self._retain = retain
        self._transactions: dict[tuple[str, int], RecordedTransaction] = {}
        self._last: dict[str, RecordedTransaction] = {}
        self._effects: dict[str, RecordedEffect] = {}
        self._finished: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._fences: dict[str, float] = {}
        self._next_epoch = 1

    def reserve_epochs(self, count: int) -> int:
        """Return the first of `count` epochs that no one was ever given before."""
        first = self._next_epoch
        self._next_epoch += count
        return first

    def fences(self) -> list[str]:
        """Return the runs that were cancelled."""
        return list(self._fences)

    def write(self, changes: list[Change]) -> Future[Any] | None:
        """Keep changes; they are kept when this returns.

        Raises:
            LedgerError: a row is there already, or its transaction is not; none of them is kept.
        """
        self._check(changes)
        for change in changes:
            kind = type(change)
            if kind is OutcomeChange:
                self._outcome(change)  # type: ignore[arg-type]  # narrowed by the line above
            elif kind is StateChange:
                self._state(change)  # type: ignore[arg-type]
            elif kind is EffectRow:
                effect = RecordedEffect(change, change.outcome)  # type: ignore[arg-type,union-attr]
                effects = self._transactions[change.name, change.attempt].effects  # type: ignore[union-attr]
                effects.append(effect)
                if len(effects) > 1 and effects[-2].row.position > effect.row.position:
                    effects.sort(key=lambda e: e.row.position)
                self._effects[change.key] = effect  # type: ignore[union-attr]
            elif kind is TransactionRow:
                recorded = RecordedTransaction(change, change.state, change.epoch)  # type: ignore[arg-type,union-attr]
                self._transactions[change.name, change.attempt] = recorded  # type: ignore[union-attr]
                self._last[change.name] = recorded  # type: ignore[union-attr]
            elif kind is Fence:
                self._fences[change.run] = change.at  # type: ignore[union-attr]
        return None

    def _check(self, changes: list[Change]) -> None:
        begun: set[tuple[str, int]] = set()
        keys: set[str] = set()
        for change in changes:
            wrong = None
            if isinstance(change, EffectRow):
                attempt = (change.name, change.attempt)
                if change.key in keys or change.key in self._effects:
                    wrong = f"there is an effect under the key {change.key}"
                elif attempt not in begun and attempt not in self._transactions:
                    wrong = f"there is no attempt {change.attempt} of {change.name} for its effect"
                keys.add(change.key)
            elif isinstance(change, TransactionRow):
                attempt = (change.name, change.attempt)
                if attempt in begun or attempt in self._transactions:
                    wrong = f"attempt {change.attempt} of {change.name} is there already"
                begun.add(attempt)
            if wrong is not None:
                raise LedgerError(f"the ledger {self.url} failed: {wrong}; nothing was kept", url=self.url)

    def _outcome(self, change: OutcomeChange) -> None:
        effect = self._effects.get(change.key)
        if effect is None:
            return
        effect.outcome, effect.result, effect.error = change.outcome, change.result, change.error
        effect.tag, effect.note, effect.settled_at = change.tag, change.note, change.at

    def _state(self, change: StateChange) -> None:
        key = (change.name, change.attempt)
        recorded = self._transactions.get(key)
        if recorded is None:
            return
        recorded.state, recorded.reason, recorded.epoch = change.state, change.reason, change.epoch
        if change.state not in FINISHED:
            return
        recorded.settled_at = change.at
        # Residue is an operator's to resolve: it is never forgotten for want of room.
        for effect in recorded.effects:
            if effect.tag is not None and effect.tag != "clean":
                return
        self._finished[key] = None
        if len(self._finished) > self._retain:
            old, _ = self._finished.popitem(last=False)
            forgotten = self._transactions.pop(old)
            if self._last.get(old[0]) is forgotten:
                del self._last[old[0]]
            for effect in forgotten.effects:
                self._effects.pop(effect.row.key, None)

    def load(self, name: str) -> Future[Any] | RecordedTransaction | None:
        """Return the last attempt of a transaction, or None when it is not kept."""
        return self._last.get(name)

    def unfinished(self, run: str) -> Future[Any] | list[RecordedTransaction]:  # noqa: ARG002 - the contract's
        """Return nothing: what is unfinished here is this process's own."""
        return []

    def transactions(self) -> list[RecordedTransaction]:
        """Return every kept attempt, oldest first."""
        return list(self._transactions.values())

    def close(self) -> None:
        """Do nothing: the record ends with the object."""
