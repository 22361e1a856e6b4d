"""The record's rows in a SQL store, as seen by one open transaction."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from settlemark._edges.errors import LedgerError
from settlemark._edges.wording import in_words
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._protocol.states import Tag
from settlemark.ledger._age import Age, Cursor, Swept
from settlemark.ledger._budgets import follow
from settlemark.ledger._contract import (
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
from settlemark.ledger._lease import NOTED_SECONDS, Watch
from settlemark.ledger._lease import Row as Worker
from settlemark.ledger._leased.sql import SqlLeases
from settlemark.ledger._owed import OwedChange, OwedRow
from settlemark.ledger._payloads.payloads import Blob, Field, Packer
from settlemark.ledger._record import statements
from settlemark.ledger._record.blobs import Blobs
from settlemark.ledger._record.debts import SqlDebts
from settlemark.ledger._record.entries import SqlEntries
from settlemark.ledger._record.pages import DEALT, LEFT, left_of, newest
from settlemark.ledger._record.purse import SqlPurse
from settlemark.ledger._record.rows import (
    effect_values,
    outcome_values,
    state_values,
    transaction_in,
    transaction_values,
)
from settlemark.ledger._record.sweeping import Sweeping
from settlemark.ledger._sql.wire import Row, Statement, Values, Wire
from settlemark.ledger._storable import storable
from settlemark.ledger._workers import is_gone

_TOLD: tuple[Field, ...] = ("result", "error", "note")
"""The payloads of an outcome, in the order in which they are packed: texts are scrubbed of secrets of the result."""


class SqlBook:
    """Reads and writes rows of one namespace, in the open transaction of a wire.

    Every change is made storable here, and `payloads` packs and unpacks every payload.

    Attributes:
        rollbacks: functions that undo the steps' changes to this process, called if the store's transaction fails.
        worker: the owner's name for what is taken over.
    """

    __slots__ = (
        "__weakref__", "_connection", "_namespace", "_payloads", "_queued", "_rows", "_watch", "behind",
        "debts", "entries", "looked", "named", "purse", "rollbacks", "short_ascii", "worker",
    )  # fmt: skip # a list of names

    def __init__(self, wire: Wire, namespace: str, worker: str, payloads: Packer, watch: Watch | None = None) -> None:
        self._connection = wire
        self._rows: defaultdict[Statement, list[Values]] = defaultdict(list)
        self._namespace = namespace
        self._payloads = payloads
        self.purse = SqlPurse(wire, namespace, used=False)
        self._watch = watch or Watch(time.monotonic)
        self.worker = worker
        self.behind = 0
        self.short_ascii = False  # the store has refused these changes without shortening
        self._queued = 0
        self.named: dict[str, None] = {}  # the effects that the present step has written about
        self.looked: list[Worker] | None = None  # the other workers; counts once this transaction is committed
        self.rollbacks: list[Callable[[], object]] = []
        self.entries, self.debts = SqlEntries(self), SqlDebts(self)

    # ---- undoing a step's changes to this process

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Call a function if the store's transaction is not committed."""
        self.rollbacks.append(undo)

    def roll_back(self) -> None:
        """Call the rollbacks, last first."""
        while self.rollbacks:
            self.rollbacks.pop()()

    # ---- writing

    @property
    def written(self) -> int:
        """How much was recorded, in whatever part of the book: more than before means that a step has written."""
        return self._queued + self._connection.writes

    @property
    def _wire(self) -> Wire:
        """The wire, once everything written before has been sent."""
        self.flush()
        return self._connection

    @property
    def _blobs(self) -> Blobs:
        """The payloads that are too long for a row."""
        return Blobs(self._connection, self._namespace)

    @property
    def leases(self) -> SqlLeases:
        """The rows of agents' leases."""
        return SqlLeases(self._wire, self._namespace)

    def flush(self) -> None:
        """Send what was written: one statement for all rows of a kind, since each statement lets other threads in.

        New rows come before all changes, since no change concerns them; the changes of a row keep their order.
        """
        for statement in statements.IN_ORDER if self._rows else ():
            rows = self._rows.get(statement)
            if rows:
                self._connection.execute_all(statement, rows)
                del self._rows[statement]  # the store has them

    def write(self, changes: Sequence[Change]) -> None:
        """Record changes.

        Raises:
            LedgerError: one of them could not be stored; none is recorded.
        """
        for change in changes:
            if isinstance(change, OutcomeChange | EffectRow | Said):
                self.named[change.key] = None
        changes = storable(changes, short_ascii=self.short_ascii)
        self._queued += len(changes)
        try:
            self._keep(changes)
        except (AttributeError, TypeError, ValueError) as error:  # a value of a wrong type
            raise LedgerError(f"a change cannot be written: {in_words(error)}; nothing was recorded") from error

    def _keep(self, changes: Iterable[Change]) -> None:
        namespace = self._namespace
        for change in changes:
            kind = type(change)
            if kind is EffectRow:
                self._intend(change)  # type: ignore[arg-type]  # as its type says
            elif kind is OutcomeChange:
                self._tell(change)  # type: ignore[arg-type]
            elif kind is TransactionRow:
                self._rows[statements.INSERT_TRANSACTION].append(transaction_values(namespace, change))  # type: ignore[arg-type]
            elif kind is StateChange:
                self._rows[statements.UPDATE_TRANSACTION].append(state_values(namespace, change))  # type: ignore[arg-type]
            elif isinstance(change, Said):
                self._hear(change)
            elif isinstance(change, Fence):
                self._rows[statements.INSERT_FENCE].append(
                    {"namespace": namespace, "run": change.run, "at_seconds": change.at}
                )
            elif isinstance(change, OwedRow | OwedChange):
                self.debts.write(change)

    def _intend(self, row: EffectRow) -> None:
        blobs: list[Blob] = []
        values = effect_values(self._namespace, row)
        pack, key, tool = self._payloads.pack, row.key, row.tool
        values["arguments"] = pack(row.arguments, effect_key=key, tool=tool, field="arguments", blobs=blobs)
        if row.rationale is not None:
            values["rationale"] = pack(row.rationale, effect_key=key, tool=tool, field="rationale", blobs=blobs)
        self._rows[statements.INSERT_EFFECT].append(values)
        if blobs:
            self.flush()  # the blobs' references need the effect's row
            self._blobs.store(blobs, key)

    def _tell(self, change: OutcomeChange) -> None:
        blobs: list[Blob] = []
        values = outcome_values(self._namespace, change)
        pack, key, tool = self._payloads.pack, change.key, change.tool
        for field in _TOLD:
            if values[f"b_{field}"] is not None:
                values[f"b_{field}"] = pack(values[f"b_{field}"], effect_key=key, tool=tool, field=field, blobs=blobs)
        self._rows[statements.UPDATE_EFFECT].append(values)
        if self.debts.used:
            self.debts.reopen(change)
        if change.lapse is not None:
            self.debts.lapse(key, change.lapse, change.at)
        if blobs:
            self.flush()
            self._blobs.store(blobs, key)
        if self.purse:
            follow(self.purse, key, change.outcome, change.tag, change.spent)

    def _hear(self, change: Said) -> None:
        blobs: list[Blob] = []
        said = self._payloads.pack(change.text, effect_key=change.key, tool=change.tool, field="said", blobs=blobs)
        dealt = change.at if change.dealt else None
        told = {"said": said, "verdict": change.verdict, "by": change.by, "at": change.at, "dealt": dealt}
        self.flush()  # its outcome goes before, later news after
        self._connection.execute_all(statements.SAY, [{"namespace": self._namespace, "key": change.key, **told}])
        if blobs:
            self._blobs.store(blobs, change.key)

    # ---- reading

    def load(self, name: str) -> RecordedTransaction | None:
        """Return the last attempt of a transaction, or None."""
        here = {"b_namespace": self._namespace, "b_name": name}
        row = next(iter(self._wire.query(statements.LAST, here)), None)
        if row is None:
            return None
        recorded = transaction_in(row)
        found = self._wire.query(statements.EFFECTS, {**here, "b_attempt": recorded.row.attempt})
        recorded.effects = [self._effect(row) for row in found]
        return recorded

    def forgotten(self, name: str) -> int | None:  # noqa: ARG002 - a store has room
        """Return None: a store forgets no name."""
        return None

    def find(self, key: str) -> RecordedTransaction | None:
        """Return the attempt that has the effect of this key, or None."""
        here = {"b_namespace": self._namespace, "b_key": key}
        row = next(iter(self._wire.query(statements.BY_KEY, here)), None)
        if row is None:
            return None
        recorded = transaction_in(row)
        theirs = {**here, "b_name": recorded.row.name, "b_attempt": recorded.row.attempt}
        recorded.effects = [self._effect(row) for row in self._wire.query(statements.EFFECTS, theirs)]
        return recorded

    def unresolved(self) -> list[RecordedTransaction]:
        """Return attempts with those of their effects that are unresolved or leaked, and happened or may have."""
        return self._gather(statements.ALL_UNRESOLVED, statements.UNRESOLVED_EFFECTS)

    def unfinished(self, outcome: Outcome | None = None) -> list[RecordedTransaction]:
        """Return every unfinished attempt; with `outcome`, only its effects with that outcome."""
        if outcome is None:
            return self._gather(statements.UNFINISHED, statements.UNFINISHED_EFFECTS)
        return self._gather(statements.OPEN_WITH, statements.EFFECTS_OPEN_WITH, b_outcome=outcome.value)

    def transactions(self) -> list[RecordedTransaction]:
        """Return every recorded attempt, oldest first."""
        return self._gather(statements.ALL, statements.ALL_EFFECTS)

    def recent(self, page: Page) -> list[RecordedTransaction]:
        """Return the recorded attempts of a page, oldest first; nothing else is read from the store."""
        found = [transaction_in(row) for row in reversed(newest(self._ask, page))]
        for recorded in found:
            recorded.effects = self._effects_of(recorded.row.name, recorded.row.attempt)
        return found

    def left(self, page: Page, *, dealt: bool = False) -> list[RecordedTransaction]:
        """Return attempts with effects that an operator has to look at, or has dealt with; a page counts these."""
        keys: dict[tuple[str, int], set[str]] = {}
        for key, name, attempt in self._ask(*left_of(page, DEALT if dealt else LEFT)):
            keys.setdefault((name, attempt), set()).add(key)
        found: list[RecordedTransaction] = []
        for (name, attempt), listed in keys.items():
            here = {"b_namespace": self._namespace, "b_name": name, "b_attempt": attempt}
            (row,) = self._wire.query(statements.ATTEMPT, here)
            recorded = transaction_in(row)
            recorded.effects, recorded.listed = self._effects_of(name, attempt), frozenset(listed)
            found.append(recorded)
        return sorted(found, key=age_of)

    def _ask(self, statement: Statement, values: Values) -> list[Row]:
        return self._wire.query(statement, {"namespace": self._namespace, **values})

    def _effects_of(self, name: str, attempt: int) -> list[RecordedEffect]:
        here = {"b_namespace": self._namespace, "b_name": name, "b_attempt": attempt}
        return [self._effect(row) for row in self._wire.query(statements.EFFECTS, here)]

    def of_run(self, run: str) -> list[RecordedTransaction]:
        """Return every recorded attempt of a run, oldest first."""
        return self._gather(statements.OF_RUN, statements.EFFECTS_OF_RUN, b_run=run)

    def in_doubt(self, run: str) -> list[RecordedEffect]:
        """Return the effects of a run of which nobody knows whether they happened."""
        keys = dict.fromkeys(
            key for (key, *_) in self._wire.query(statements.IN_DOUBT, {"b_namespace": self._namespace, "b_run": run})
        )
        found: dict[str, RecordedEffect] = {}
        for key in keys:
            recorded = None if key in found else self.find(key)  # an attempt is read once, however many it has
            found |= {} if recorded is None else {e.row.key: e for e in recorded.effects if e.row.key in keys}
        return list(found.values())

    def since(self, epoch: int) -> list[RecordedTransaction]:
        """Return every recorded attempt at this epoch or later, oldest first."""
        return self._gather(statements.SINCE, statements.EFFECTS_SINCE, b_epoch=epoch)

    def _gather(self, transactions: Statement, effects: Statement, **which: str | int) -> list[RecordedTransaction]:
        here = {"b_namespace": self._namespace, **which}
        found: dict[tuple[str, int], RecordedTransaction] = {}
        for row in self._wire.query(transactions, here):
            recorded = transaction_in(row)
            found[recorded.row.name, recorded.row.attempt] = recorded
        for row in self._wire.query(effects, here):
            effect = self._effect(row)
            found[effect.row.name, effect.row.attempt].effects.append(effect)
        return list(found.values())

    def _effect(self, row: Row) -> RecordedEffect:
        (
            _, key, name, attempt, position, tool, kind, scopes, held, call_id, arguments, fingerprint, rationale,
            handlers, version, intended, outcome, result, error, tag, note, settled, window, leaves, path, sender,
            said, said_by, said_at, dealt_at, _, disposition, link, question, contradicted, under, verdict,
        ) = row  # fmt: skip # a row, unpacked in the order of its columns

        def read(text: str | None, field: Field) -> str | None:
            return self._payloads.read(text, effect_key=key, field=field, fetch=self._blobs.fetch)

        intent = EffectRow(
            key, name, attempt, position, tool, EffectClass(kind), scopes, bool(held), call_id,
            read(arguments, "arguments") or "", read(rationale, "rationale"), handlers, version, Outcome(outcome),
            intended, fingerprint, window, leaves, path, under,
        )  # fmt: skip # in the order of the row's fields
        told = read(result, "result"), read(error, "error"), Tag(tag) if tag else None, read(note, "note")
        heard = sender, read(said, "said"), said_by, said_at, dealt_at
        decided = Disposition(disposition) if disposition else None, link, question, bool(contradicted)
        return RecordedEffect(intent, intent.outcome, *told, settled, *heard, *decided, verdict)

    # ---- what is old

    def sweep(self, age: Age, *, after: Cursor | None, limit: int) -> Swept:
        """Remove what is old: at most `limit` attempts, from where the last sweep ended."""
        return Sweeping(self._wire, self._namespace, age).sweep(after, limit)

    def old(self, age: Age) -> Swept:
        """Return what a complete sweep would do now."""
        return Sweeping(self._wire, self._namespace, age).count()

    def old_fences(self, before: float, *, limit: int) -> list[str]:
        """Return the runs that were cancelled before this time, the oldest first."""
        here = {"namespace": self._namespace, "before": before, "limit": limit}
        return [run for (run,) in self._wire.query(statements.OLD_FENCES, here)]

    def remove_fences(self, runs: Iterable[str]) -> None:
        """Remove fences from the record."""
        for run in runs:
            self._wire.execute(statements.REMOVE_FENCE, {"namespace": self._namespace, "run": run})

    # ---- workers

    def gone(self) -> list[str]:
        """Return the workers that are gone: one whose process ended is removed, a silent one becomes a zombie."""
        gone: list[str] = []
        for row in self.workers():
            if self._watch.is_to_bury(row):
                gone.append(row.worker)
                if is_gone(row.worker) or not self._watch.may_send(row.worker):
                    self.remove_workers([row.worker])
                else:
                    self.mark_zombie(row.worker)
            elif self._watch.cannot_send(row):
                self.remove_workers([row.worker])
            elif (watched := self._watch.watched(row)) >= row.watched + NOTED_SECONDS:
                self.watched(row.worker, watched)
        return gone

    def workers(self) -> list[Worker]:
        """Return the other workers, zombies included."""
        rows = self._wire.query(statements.OTHER_WORKERS, {"namespace": self._namespace, "worker": self.worker})
        self.looked = [Worker(w, beat, lease, bool(buried), seen or 0.0) for w, beat, lease, buried, seen in rows]
        return self.looked

    def zombies(self) -> frozenset[str]:
        """Return the zombies: buried workers that may still be sending."""
        return frozenset(name for (name,) in self._wire.query(statements.ZOMBIES, {"namespace": self._namespace}))

    def mark_zombie(self, worker: str) -> None:
        """Record that a worker lost its lease, and may still be sending."""
        values = {"namespace": self._namespace, "worker": worker, "quarantine": self._watch.quarantine}
        self._wire.execute(statements.MARK_ZOMBIE, values)

    def watched(self, worker: str, seconds: float) -> None:
        """Record for how many seconds a buried worker was seen to do nothing."""
        values = {"namespace": self._namespace, "worker": worker, "watched": seconds}
        self._wire.execute(statements.WATCHED, values)

    def set_sender(self, keys: Iterable[str], sender: str | None) -> None:
        """Record the worker that may still be sending these effects."""
        for key in keys:
            self._wire.execute(statements.SET_SENDER, {"namespace": self._namespace, "key": key, "sender": sender})

    def remove_workers(self, workers: Iterable[str]) -> None:
        """Remove workers from the list."""
        for worker in workers:
            self._wire.execute(statements.REMOVE_WORKER, {"namespace": self._namespace, "worker": worker})


__all__ = ["SqlBook"]
