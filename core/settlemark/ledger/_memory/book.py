"""The rows of a ledger in memory."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import islice

from settlemark._edges.errors import LedgerError
from settlemark._model.effect_class import Outcome
from settlemark._observe.logs import about
from settlemark._protocol.states import FINISHED, State, Tag
from settlemark.ledger._age import BEGINNING, Age, Cursor, Swept, forget_at, is_kept
from settlemark.ledger._budgets import follow
from settlemark.ledger._contract import (
    HAPPENED,
    UNRESOLVED,
    Change,
    EffectRow,
    Fence,
    OutcomeChange,
    Page,
    RecordedEffect,
    RecordedTransaction,
    Said,
    StateChange,
    TransactionRow,
    age_of,
)
from settlemark.ledger._entries import Entry
from settlemark.ledger._memory.attempts import MemoryAttempts
from settlemark.ledger._memory.debts import MemoryDebts
from settlemark.ledger._memory.entries import MemoryEntries
from settlemark.ledger._memory.leases import MemoryLeases
from settlemark.ledger._memory.pages import is_on
from settlemark.ledger._memory.purse import MemoryPurse
from settlemark.ledger._memory.redaction import redacted
from settlemark.ledger._memory.retention import strip
from settlemark.ledger._memory.rollback import attempt_restorer, effect_restorer, value_restorer
from settlemark.ledger._owed import OwedChange, OwedRow
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._storable import storable

_log = logging.getLogger("settlemark")

NAMES = 10
"""How many names are remembered for each transaction that is kept."""


class MemoryBook:
    """The rows of a ledger in memory: every unfinished transaction, and the last `retain` finished ones.

    Args:
        payloads: redacts rows.
        retain: how many finished transactions are kept; the names of others are known for a while.
        url: names the ledger in errors and logs.
    """

    def __init__(self, payloads: Packer, *, retain: int, url: str) -> None:
        self.url = url
        self.payloads = payloads
        self.short_ascii = False  # whether texts are shortened further: the present step has failed without that
        self._retain = retain
        self._transactions = MemoryAttempts()
        self._last: dict[str, RecordedTransaction] = {}
        self._effects: dict[str, RecordedEffect] = {}
        self._finished: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._names: OrderedDict[str, int] = OrderedDict()
        self._told, self.behind = False, 0  # nobody else writes
        self._fences: dict[str, float] = {}
        self._stripped: dict[tuple[str, int], float] = {}
        self._rollbacks: list[Callable[[], object]] = []
        self._doubts: dict[str, None] = {}
        self.entries = MemoryEntries(payloads, self._rollbacks.append, self._transactions, self._effects, retain=retain)
        self.purse = MemoryPurse(self.on_rollback, retain=NAMES * retain)
        self.debts = MemoryDebts(self._transactions, self._rollbacks.append)
        self.leases = MemoryLeases(self.on_rollback)

    # ---- steps

    def keep(self) -> None:
        """Keep what a step has written, and forget the oldest transaction if there is no room."""
        if self.entries.touched:
            self.entries.seal()
        self._rollbacks.clear()
        if self.entries.grown:
            self.entries.make_room()
        if len(self._finished) > self._retain:
            attempt = self._finished.popitem(last=False)[0]
            if not (self.debts and self.debts.stand(attempt)):
                self._let_go(attempt)

    def roll_back(self) -> None:
        """Undo what a step has written."""
        self.entries.touched.clear()
        while self._rollbacks:
            self._rollbacks.pop()()

    # ---- writing

    def write(self, changes: list[Change]) -> None:
        """Record changes.

        Raises:
            LedgerError: an effect's key is taken, its transaction is not recorded, or another store could not hold one
                of them; none of them is recorded.
        """
        changes = storable(changes, short_ascii=self.short_ascii)
        self._check(changes)
        if self.entries.used:
            self.entries.touch(changes)
        on_rollback = self._rollbacks.append
        for change in changes if self.payloads.plain else [redacted(change, self.payloads) for change in changes]:
            kind = type(change)
            if kind is OutcomeChange:
                self._outcome(change)  # type: ignore[arg-type]  # narrowed by the line above
            elif kind is StateChange:
                self._state(change)  # type: ignore[arg-type]
            elif kind is EffectRow:
                effect = RecordedEffect(change, change.outcome)  # type: ignore[arg-type,union-attr]
                effects = self._transactions[change.name, change.attempt].effects  # type: ignore[union-attr]
                effects.append(effect)
                on_rollback(partial(effects.remove, effect))
                if len(effects) > 1 and effects[-2].row.position > effect.row.position:
                    effects.sort(key=lambda e: e.row.position)
                self._effects[change.key] = effect  # type: ignore[union-attr]
                on_rollback(partial(self._effects.pop, change.key))  # type: ignore[union-attr]
            elif kind is TransactionRow and (change.name, change.attempt) not in self._transactions:  # type: ignore[union-attr]
                recorded = RecordedTransaction(change, change.state, change.epoch)  # type: ignore[arg-type,union-attr]
                on_rollback(value_restorer(self._last, change.name, self._last.get(change.name)))  # type: ignore[union-attr]
                on_rollback(partial(self._transactions.forget, (change.name, change.attempt)))  # type: ignore[union-attr]
                self._transactions.begin(recorded)
                self._last[change.name] = recorded  # type: ignore[union-attr]
            elif isinstance(change, Said):
                self._hear(change)
            elif isinstance(change, Fence):
                on_rollback(value_restorer(self._fences, change.run, self._fences.get(change.run)))
                self._fences.setdefault(change.run, change.at)
            elif isinstance(change, OwedRow | OwedChange):
                self.debts.write(change)

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
                begun.add((change.name, change.attempt))
            if wrong is not None:
                raise LedgerError(f"the ledger {self.url} failed: {wrong}; nothing was kept", url=self.url)

    def _outcome(self, change: OutcomeChange) -> None:
        effect = self._effects.get(change.key)
        if effect is None:
            return
        self._rollbacks.append(effect_restorer(effect))
        if change.outcome is Outcome.UNKNOWN:
            self._doubts[change.key] = None
        effect.outcome, effect.result, effect.error = change.outcome, change.result, change.error
        effect.tag, effect.note, effect.settled_at = change.tag, change.note, change.at
        effect.disposition, effect.link = change.disposition, change.link
        effect.question, effect.contradicted = change.question, change.contradicted
        if self.debts:
            self.debts.reopen(change)
        if change.lapse is not None:
            self.debts.lapse(effect.row, change.lapse, change.at)
        effect.dealt_at = None  # news of it: an operator has to look at it again
        if self.purse:
            follow(self.purse, change.key, change.outcome, change.tag, change.spent)

    def _hear(self, change: Said) -> None:
        effect = self._effects.get(change.key)
        if effect is not None:
            self._rollbacks.append(effect_restorer(effect))
            effect.said, effect.said_by, effect.said_at = change.text, change.by, change.at
            effect.verdict, effect.dealt_at = change.verdict, change.at if change.dealt else None

    def _state(self, change: StateChange) -> None:
        key = (change.name, change.attempt)
        recorded = self._transactions.get(key)
        if recorded is None:
            return
        self._rollbacks.append(attempt_restorer(recorded))
        recorded.state, recorded.reason, recorded.epoch = change.state, change.reason, change.epoch
        recorded.link, recorded.waits_for, recorded.waits_on = change.link, change.waits_for, change.waits_on
        recorded.sealed_at = recorded.sealed_at if change.sealed_at is None else change.sealed_at
        recorded.decided_at = recorded.decided_at if change.decided_at is None else change.decided_at
        recorded.cause, recorded.waits = change.cause, change.waits or recorded.waits
        recorded.row = recorded.row._replace(agents=change.agents) if change.agents else recorded.row
        if change.state not in FINISHED:
            return
        recorded.settled_at = change.at
        # Residue is for an operator: it is never forgotten for want of room.
        for effect in recorded.effects:
            if effect.tag is not None and effect.tag != "clean":
                return
        if key not in self._finished:
            self._finished[key] = None
            self._rollbacks.append(partial(self._finished.pop, key))

    def _let_go(self, attempt: tuple[str, int]) -> None:
        """Forget an attempt for want of room, but not its name: a new transaction must not get that."""
        name, number = attempt
        if self._last.get(name) is self._transactions[attempt]:
            self._names[name] = number if self._transactions[attempt].state is State.ABORTED else 0
            self._names.move_to_end(name)
        self._forget(attempt)
        if len(self._names) > NAMES * max(self._retain, 1):
            name, _ = self._names.popitem(last=False)
            if not self._told:
                self._told = True
                _log.warning(
                    "the ledger in memory has no room left for the name of %s, nor for others that settled as long ago:"
                    " a program that enters one again runs it again; raise retain=, or keep the ledger in a file",
                    name,
                    extra=about(ledger=self.url, transaction=name),
                )

    def forgotten(self, name: str) -> int | None:
        """Return the number of a forgotten attempt that was aborted; 0: it has committed."""
        return self._names.get(name)

    def _forget(self, attempt: tuple[str, int]) -> None:
        forgotten = self._transactions.forget(attempt)
        self.debts.forget(attempt)
        self._finished.pop(attempt, None)
        self._stripped.pop(attempt, None)
        name, number = attempt
        if self._last.get(name) is forgotten:
            del self._last[name]
            earlier = filter(None, (self._transactions.get((name, n)) for n in range(number - 1, 0, -1)))
            self._last.update((name, each) for each in islice(earlier, 1))
        self.entries.strip_seals(effect.row.key for effect in forgotten.effects if effect.row.under is not None)
        for effect in forgotten.effects:
            self._effects.pop(effect.row.key, None)
            self.purse.forget(effect.row.key)

    def load(self, name: str) -> RecordedTransaction | None:
        """Return the last attempt of a transaction, or None if it is not kept."""
        return self._last.get(name)

    def find(self, key: str) -> RecordedTransaction | None:
        """Return the attempt that has the effect of this key, or None."""
        effect = self._effects.get(key)
        return None if effect is None else self._transactions.get((effect.row.name, effect.row.attempt))

    def unresolved(self) -> list[RecordedTransaction]:
        """Return attempts with those of their effects that are unresolved or leaked, and happened or may have."""
        found: list[RecordedTransaction] = []
        for recorded in self._transactions.values():
            effects = [e for e in recorded.effects if e.tag in UNRESOLVED and e.outcome in HAPPENED]
            if effects:
                found.append(replace(recorded, effects=effects))
        return found

    def unfinished(self, outcome: Outcome | None = None) -> list[RecordedTransaction]:
        """Return every unfinished attempt; with `outcome`, only its effects with that outcome."""
        found = [recorded for recorded in self._transactions.values() if recorded.state not in FINISHED]
        if outcome is None:
            return found
        some = (replace(r, effects=[e for e in r.effects if e.outcome is outcome]) for r in found)
        return [recorded for recorded in some if recorded.effects]

    # ---- what is old

    def sweep(self, age: Age, *, after: Cursor | None, limit: int) -> Swept:
        """Remove what is old: at most `limit` attempts, from where the last sweep ended."""
        over, old = self._over(age)[:limit], self._old(age, after or BEGINNING)[:limit]
        for attempt in over:
            self._forget(attempt)
        kept = [cursor for cursor in old if self._keeps(cursor)]
        keys = 0
        for cursor in old:
            if cursor in kept:
                continue
            until = self._until(cursor, age)
            if until <= age.now:
                self._forget(cursor[1:])
                keys += 1
            else:
                self._stripped[cursor[1:]] = until
                strip(self._transactions[cursor[1:]])
                self.debts.strip(cursor[1:])
        bodies = self.entries.sweep(age, limit=limit, lasts=self._lasts, lives=self._transactions.has_run)
        more = limit in (len(old), len(over), bodies)
        last = old[-1] if old else after or BEGINNING
        return Swept(len(old) - len(kept) - keys, len(over) + keys, len(kept), last if more else None, bodies)

    def old(self, age: Age) -> Swept:
        """Return what a complete sweep would do now."""
        over, old = self._over(age), self._old(age, BEGINNING)
        going = [cursor for cursor in old if not self._keeps(cursor)]
        keys, bodies = sum(self._until(each, age) <= age.now for each in going), self.entries.old(age, self._lasts)
        return Swept(len(going) - keys, len(over) + keys, len(old) - len(going), entries=bodies)

    def _lasts(self, entry: Entry) -> bool:
        place = (entry.name or "", entry.attempt or 0)
        return place in self._transactions and place not in self._stripped

    def _over(self, age: Age) -> list[tuple[str, int]]:
        over = sorted((until, attempt) for attempt, until in self._stripped.items() if until <= age.now)
        return [attempt for _, attempt in over if not self._keeps((0.0, *attempt))]

    def _old(self, age: Age, after: Cursor) -> list[Cursor]:
        settled = (
            (recorded.settled_at, *attempt)
            for attempt, recorded in self._transactions.items()
            if recorded.settled_at is not None and attempt not in self._stripped
        )
        return sorted(cursor for cursor in settled if cursor[0] < age.before and cursor > after)

    def _keeps(self, cursor: Cursor) -> bool:
        found = self._transactions[cursor[1:]]
        stays = self.debts.stand(cursor[1:]) or self.entries.steers(found.row.run)
        return stays or any(is_kept(None if e.dealt_at else e.tag, e.outcome) for e in found.effects)

    def _until(self, cursor: Cursor, age: Age) -> float:
        windows = [effect.row.window for effect in self._transactions[cursor[1:]].effects]
        longest = max((window for window in windows if window is not None), default=None)
        return forget_at(cursor[0], longest, age.keys, unsaid=None in windows)

    def old_fences(self, before: float, *, limit: int) -> list[str]:
        """Return the runs that were cancelled before this time, the oldest first."""
        return [run for at, run in sorted((at, run) for run, at in self._fences.items()) if at < before][:limit]

    def remove_fences(self, runs: Iterable[str]) -> None:
        """Remove fences from the record."""
        for run in runs:
            self.on_rollback(value_restorer(self._fences, run, self._fences.pop(run, None)))

    # ---- workers

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Call a function if the step fails."""
        self._rollbacks.append(undo)

    def gone(self) -> list[str]:
        """Return nothing: there is no other worker."""
        return []

    def zombies(self) -> frozenset[str]:
        """Return nothing: all senders are in this process."""
        return frozenset()

    def mark_zombie(self, worker: str) -> None:
        """Do nothing."""

    def set_sender(self, keys: Iterable[str], sender: str | None) -> None:
        """Do nothing."""

    def remove_workers(self, workers: Iterable[str]) -> None:
        """Do nothing."""

    def transactions(self) -> list[RecordedTransaction]:
        """Return every kept attempt, oldest first."""
        return list(self._transactions.values())

    def recent(self, page: Page) -> list[RecordedTransaction]:
        """Return the kept attempts of a page, oldest first."""
        found = [recorded for recorded in self._transactions.values() if is_on(page, recorded, recorded.row.at)]
        return found if page.last is None else found[-page.last :]

    def left(self, page: Page, *, dealt: bool = False) -> list[RecordedTransaction]:
        """Return attempts with effects that an operator has to look at, or has dealt with; a page counts these."""
        found: list[tuple[float, str, RecordedTransaction]] = []
        for recorded in self._transactions.values():
            for effect in recorded.effects:
                left = effect.tag not in (None, Tag.CLEAN) and effect.dealt_at is None
                at = effect.dealt_at if dealt else effect.row.at if left else None
                if at is not None and is_on(page, recorded, at):
                    found.append((at, effect.row.key, recorded))
        found.sort(key=lambda each: each[:2])
        keys: dict[tuple[str, int], set[str]] = {}
        for _, key, recorded in found if page.last is None else found[-page.last :]:
            keys.setdefault((recorded.row.name, recorded.row.attempt), set()).add(key)
        pages = [replace(self._transactions[place], listed=frozenset(listed)) for place, listed in keys.items()]
        return sorted(pages, key=age_of)

    def of_run(self, run: str) -> list[RecordedTransaction]:
        """Return every kept attempt of a run, oldest first."""
        return self._transactions.of_run(run)

    def in_doubt(self, run: str) -> list[RecordedEffect]:
        """Return the effects of a run of which nobody knows whether they happened."""
        effects = (self._effects.get(key) for key in self._doubts)
        found = [effect for effect in effects if effect is not None and effect.outcome is Outcome.UNKNOWN]
        self._doubts = dict.fromkeys(effect.row.key for effect in found)
        return [e for e in found if self._transactions[e.row.name, e.row.attempt].row.run == run]

    def since(self, epoch: int) -> list[RecordedTransaction]:
        """Return every kept attempt at this epoch or later, oldest first."""
        return [recorded for recorded in self._transactions.values() if recorded.epoch >= epoch]


__all__ = ["NAMES", "MemoryBook"]
