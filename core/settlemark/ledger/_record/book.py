"""The record's rows in a SQL store, as one open transaction of it sees them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from settlemark._edges.errors import LedgerError
from settlemark._edges.wording import in_words
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._protocol.states import FINISHED, Reason, State, Tag
from settlemark.ledger._age import Age, Cursor, Swept
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
    Waited,
    age_of,
)
from settlemark.ledger._gate import gated
from settlemark.ledger._lease import NOTED_SECONDS, Watch
from settlemark.ledger._lease import Row as Worker
from settlemark.ledger._payloads.payloads import Blob, Field, Packer
from settlemark.ledger._record import tables as t
from settlemark.ledger._record.blobs import Blobs
from settlemark.ledger._record.pages import COLUMNS, DEALT, LEFT, left_of, newest
from settlemark.ledger._record.sweeping import Sweeping
from settlemark.ledger._sql.wire import Row, Statement, Values, Wire
from settlemark.ledger._workers import is_gone


class SqlBook:
    """Reads and writes rows of one namespace, in the open transaction of a wire.

    Every change passes the gate here, and every payload on its way in and out: nothing is stored but what `payloads`
    makes of it.

    Attributes:
        worker: by whose name what is taken over is owned.
        written: how many changes were kept.
    """

    __slots__ = (
        "_blobs", "_connection", "_namespace", "_otherwise", "_payloads", "_rows", "_watch", "looked", "named",
        "plainly", "worker", "written",
    )  # fmt: skip

    def __init__(self, wire: Wire, namespace: str, worker: str, payloads: Packer, watch: Watch | None = None) -> None:
        self._connection = wire
        self._rows: dict[Statement, list[Values]] = {}
        self._namespace = namespace
        self._payloads = payloads
        self._blobs = Blobs(wire, namespace)
        self._watch = watch or Watch(time.monotonic)
        self.worker = worker
        self.plainly = False  # the store has refused these changes as they were
        self.written = 0
        self.named: dict[str, None] = {}  # the effects of which the present step has said something
        self.looked: list[Worker] | None = None
        """What was seen of the other workers: it counts when this transaction is committed."""
        self._otherwise: list[Callable[[], object]] = []

    # ---- what a step does to what is its process's own

    def otherwise(self, undo: Callable[[], object]) -> None:
        """Have this done when the transaction turns out not to be committed."""
        self._otherwise.append(undo)

    def undo(self) -> None:
        """Do what was to be done then, the last first."""
        while self._otherwise:
            self._otherwise.pop()()

    @property
    def regrets(self) -> int:
        """How much would be done then."""
        return len(self._otherwise)

    def regretted(self, regrets: int) -> list[Callable[[], object]]:
        """Return what was added to that since there was so much."""
        return self._otherwise[regrets:]

    # ---- writing

    @property
    def _wire(self) -> Wire:
        """The way to a store in which all is that was written before."""
        self.flush()
        return self._connection

    def flush(self) -> None:
        """Send what was written: one statement for all rows of a kind, since each lets other threads in.

        A new row comes before all changes, since it is no change's; the changes of a row keep their order.
        """
        for statement in _IN_ORDER if self._rows else ():
            rows = self._rows.get(statement)
            if rows:
                self._connection.execute_all(statement, rows)
                del self._rows[statement]  # the store has them

    def _put(self, statement: Statement, values: Values) -> None:
        self._rows.setdefault(statement, []).append(values)

    def write(self, changes: Sequence[Change]) -> None:
        """Keep changes.

        Raises:
            LedgerError: one of them could not be stored for its own sake; none is kept.
        """
        for change in changes:
            if isinstance(change, OutcomeChange | EffectRow):
                self.named[change.key] = None
        changes = gated(changes, plainly=self.plainly)
        self.written += len(changes)
        try:
            self._keep(changes)
        except (AttributeError, TypeError, ValueError) as error:  # of a value that is none of what a row has
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
                self._put(_INSERT_TRANSACTION, _transaction_values(namespace, change))  # type: ignore[arg-type]
            elif kind is StateChange:
                self._put(_UPDATE_TRANSACTION, _state_values(namespace, change))  # type: ignore[arg-type]
            elif isinstance(change, Said):
                self._hear(change)
            elif isinstance(change, Fence):
                values = {"namespace": namespace, "run": change.run, "at_seconds": change.at}
                self._put(_INSERT_FENCE, values)

    def _intend(self, row: EffectRow) -> None:
        blobs: list[Blob] = []
        values = _effect_values(self._namespace, row)
        pack, key, tool = self._payloads.pack, row.key, row.tool
        values["arguments"] = pack(row.arguments, effect_key=key, tool=tool, field="arguments", blobs=blobs)
        values["rationale"] = pack(row.rationale, effect_key=key, tool=tool, field="rationale", blobs=blobs)
        self._put(_INSERT_EFFECT, values)
        if blobs:
            self.flush()  # the blobs' uses name it
            self._blobs.store(blobs, key)

    def _tell(self, change: OutcomeChange) -> None:
        blobs: list[Blob] = []
        values = _outcome_values(self._namespace, change)
        pack, key, tool = self._payloads.pack, change.key, change.tool
        values["b_result"] = pack(change.result, effect_key=key, tool=tool, field="result", blobs=blobs)
        values["b_error"] = pack(change.error, effect_key=key, tool=tool, field="error", blobs=blobs)
        values["b_note"] = pack(change.note, effect_key=key, tool=tool, field="note", blobs=blobs)
        self._put(_UPDATE_EFFECT, values)
        if blobs:
            self.flush()
            self._blobs.store(blobs, key)

    def _hear(self, change: Said) -> None:
        blobs: list[Blob] = []
        said = self._payloads.pack(change.text, effect_key=change.key, tool=change.tool, field="said", blobs=blobs)
        values = {
            "namespace": self._namespace, "key": change.key, "said": said, "by": change.by, "at": change.at,
            "dealt": change.at if change.dealt else None,
        }  # fmt: skip
        self.flush()  # what became of it goes before, and later news behind
        self._connection.execute_all(_SAY, [values])
        if blobs:
            self._blobs.store(blobs, change.key)

    # ---- reading

    def load(self, name: str) -> RecordedTransaction | None:
        """Return the last attempt of a transaction, or None."""
        here = {"b_namespace": self._namespace, "b_name": name}
        rows = self._wire.query(_LAST, here)
        if not rows:
            return None
        recorded = transaction_in(rows[0])
        found = self._wire.query(_EFFECTS, {**here, "b_attempt": recorded.row.attempt})
        recorded.effects = [self._effect(row) for row in found]
        return recorded

    def forgotten(self, name: str) -> int | None:  # noqa: ARG002 - a store has room
        """Return None: keys stay for as long as was told."""
        return None

    def find(self, key: str) -> RecordedTransaction | None:
        """Return the attempt that has the effect of this key, or None."""
        here = {"b_namespace": self._namespace, "b_key": key}
        rows = self._wire.query(_BY_KEY, here)
        if not rows:
            return None
        recorded = transaction_in(rows[0])
        theirs = {**here, "b_name": recorded.row.name, "b_attempt": recorded.row.attempt}
        recorded.effects = [self._effect(row) for row in self._wire.query(_EFFECTS, theirs)]
        return recorded

    def unresolved(self) -> list[RecordedTransaction]:
        """Return attempts with those of their effects that are unresolved or leaked, and happened or may have."""
        return self._gather(_UNRESOLVED, _UNRESOLVED_EFFECTS)

    def unfinished(self, outcome: Outcome | None = None) -> list[RecordedTransaction]:
        """Return every attempt that has not come to its end; with `outcome` its effects that have it, if any."""
        if outcome is None:
            return self._gather(_UNFINISHED, _UNFINISHED_EFFECTS)
        return self._gather(_OPEN_WITH, _EFFECTS_OPEN_WITH, b_outcome=outcome.value)

    def transactions(self) -> list[RecordedTransaction]:
        """Return every recorded attempt, oldest first."""
        return self._gather(_ALL, _ALL_EFFECTS)

    def recent(self, page: Page) -> list[RecordedTransaction]:
        """Return the recorded attempts of a page, oldest first; no more of the store is read than that."""
        found = [transaction_in(row) for row in reversed(newest(self._ask, page))]
        for recorded in found:
            recorded.effects = self._effects_of(recorded.row.name, recorded.row.attempt)
        return found

    def left(self, page: Page, *, dealt: bool = False) -> list[RecordedTransaction]:
        """Return attempts with effects that somebody has to look at, or has dealt with; a page counts these."""
        keys: dict[tuple[str, int], set[str]] = {}
        for key, name, attempt in self._ask(*left_of(page, DEALT if dealt else LEFT)):
            keys.setdefault((name, attempt), set()).add(key)
        found: list[RecordedTransaction] = []
        for (name, attempt), listed in keys.items():
            here = {"b_namespace": self._namespace, "b_name": name, "b_attempt": attempt}
            recorded = transaction_in(self._wire.query(_ATTEMPT, here)[0])
            recorded.effects, recorded.listed = self._effects_of(name, attempt), frozenset(listed)
            found.append(recorded)
        return sorted(found, key=age_of)

    def _ask(self, statement: Statement, values: Values) -> list[Row]:
        return self._wire.query(statement, {"namespace": self._namespace, **values})

    def _effects_of(self, name: str, attempt: int) -> list[RecordedEffect]:
        here = {"b_namespace": self._namespace, "b_name": name, "b_attempt": attempt}
        return [self._effect(row) for row in self._wire.query(_EFFECTS, here)]

    def of_run(self, run: str) -> list[RecordedTransaction]:
        """Return every recorded attempt of a run, oldest first."""
        return self._gather(_OF_RUN, _EFFECTS_OF_RUN, b_run=run)

    def since(self, epoch: int) -> list[RecordedTransaction]:
        """Return every recorded attempt that is at this epoch or a later one, oldest first."""
        return self._gather(_SINCE, _EFFECTS_SINCE, b_epoch=epoch)

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
            said, said_by, said_at, dealt_at, _, disposition, link, question, contradicted,
        ) = row  # fmt: skip

        def read(text: str | None, field: Field) -> str | None:
            return self._payloads.read(text, effect_key=key, field=field, fetch=self._blobs.fetch)

        intent = EffectRow(
            key, name, attempt, position, tool, EffectClass(kind), scopes, bool(held), call_id,
            read(arguments, "arguments") or "", read(rationale, "rationale"), handlers, version, Outcome(outcome),
            intended, fingerprint, window, leaves, path,
        )  # fmt: skip
        told = read(result, "result"), read(error, "error"), Tag(tag) if tag else None, read(note, "note")
        heard = sender, read(said, "said"), said_by, said_at, dealt_at
        decided = Disposition(disposition) if disposition else None, link, question, bool(contradicted)
        return RecordedEffect(intent, intent.outcome, *told, settled, *heard, *decided)

    # ---- what is old

    def sweep(self, age: Age, *, after: Cursor | None, limit: int) -> Swept:
        """Let go of what is old: at most `limit` attempts, from where the last sweep ended."""
        return Sweeping(self._wire, self._namespace, age).sweep(after, limit)

    def old(self, age: Age) -> Swept:
        """Return what sweeping all would do now."""
        return Sweeping(self._wire, self._namespace, age).count()

    def old_fences(self, before: float, *, limit: int) -> list[str]:
        """Return the runs that were cancelled before this time, the oldest first."""
        here = {"namespace": self._namespace, "before": before, "limit": limit}
        return [run for (run,) in self._wire.query(_OLD_FENCES, here)]

    def strike_fences(self, runs: Iterable[str]) -> None:
        """Take fences off the record."""
        for run in runs:
            self._wire.execute(_STRIKE_FENCE, {"namespace": self._namespace, "run": run})

    # ---- workers

    def gone(self) -> list[str]:
        """Return the workers that are gone: one whose process ended is struck off, one that is silent a ghost now."""
        gone: list[str] = []
        for row in self.workers():
            if self._watch.is_to_bury(row):
                gone.append(row.worker)
                if is_gone(row.worker) or not self._watch.may_send(row.worker):
                    self.strike_off([row.worker])
                else:
                    self.haunt(row.worker)
            elif self._watch.is_laid(row):
                self.strike_off([row.worker])
            elif (watched := self._watch.watched(row)) >= row.watched + NOTED_SECONDS:
                self.watched(row.worker, watched)
        return gone

    def workers(self) -> list[Worker]:
        """Return the others that work here, or were buried and may still be sending."""
        rows = self._wire.query(_COLLEAGUES, {"namespace": self._namespace, "worker": self.worker})
        self.looked = [Worker(w, beat, lease, bool(buried), seen or 0.0) for w, beat, lease, buried, seen in rows]
        return self.looked

    def ghosts(self) -> frozenset[str]:
        """Return the workers that were buried and may still be sending."""
        return frozenset(name for (name,) in self._wire.query(_GHOSTS, {"namespace": self._namespace}))

    def haunt(self, worker: str) -> None:
        """Have it that a worker has no lease any more, and may still be sending."""
        values = {"namespace": self._namespace, "worker": worker, "quarantine": self._watch.quarantine}
        self._wire.execute(_HAUNT, values)

    def watched(self, worker: str, seconds: float) -> None:
        """Have it on record for how long one that was buried was seen to do nothing since."""
        values = {"namespace": self._namespace, "worker": worker, "watched": seconds}
        self._wire.execute(_WATCHED, values)

    def may_come(self, keys: Iterable[str], sender: str | None) -> None:
        """Have it on record who may still be sending these effects."""
        for key in keys:
            self._wire.execute(_MAY_COME, {"namespace": self._namespace, "key": key, "sender": sender})

    def strike_off(self, workers: Iterable[str]) -> None:
        """Take workers off the list."""
        for worker in workers:
            self._wire.execute(_STRIKE_OFF, {"namespace": self._namespace, "worker": worker})


def _ignoring(table: sa.Table) -> Statement:
    """Return an insert that leaves a row that is there as it is: the same words in every store we support."""
    names = [column.name for column in table.columns]
    columns, values = ", ".join(names), ", ".join(f":{name}" for name in names)
    return Statement(f"INSERT INTO {table.name} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING")  # noqa: S608


_INSERT_TRANSACTION = _ignoring(t.transactions)
_INSERT_FENCE = _ignoring(t.fences)
_INSERT_EFFECT = Statement(sa.insert(t.effects))
_OLD_FENCES = Statement(
    "SELECT run FROM settlemark_fence WHERE namespace = :namespace AND at_seconds < :before"
    " ORDER BY at_seconds, run LIMIT :limit"
)
_STRIKE_FENCE = Statement("DELETE FROM settlemark_fence WHERE namespace = :namespace AND run = :run")
_COLLEAGUES = Statement(
    "SELECT id, beat, lease_seconds, buried_at_seconds IS NOT NULL, watched_seconds FROM settlemark_worker"
    " WHERE namespace = :namespace AND id <> :worker ORDER BY id"
)
_GHOSTS = Statement("SELECT id FROM settlemark_worker WHERE namespace = :namespace AND buried_at_seconds IS NOT NULL")
_HAUNT = Statement(
    "UPDATE settlemark_worker SET buried_at_seconds = {clock}, quarantine_seconds = :quarantine"
    " WHERE namespace = :namespace AND id = :worker"
)
_WATCHED = Statement(
    "UPDATE settlemark_worker SET watched_seconds = :watched WHERE namespace = :namespace AND id = :worker"
)
_MAY_COME = Statement("UPDATE settlemark_effect SET sender = :sender WHERE namespace = :namespace AND key = :key")
_STRIKE_OFF = Statement("DELETE FROM settlemark_worker WHERE namespace = :namespace AND id = :worker")
_UPDATE_TRANSACTION = Statement(
    sa.update(t.transactions)
    .where(
        t.transactions.c.namespace == sa.bindparam("b_namespace"),
        t.transactions.c.name == sa.bindparam("b_name"),
        t.transactions.c.attempt == sa.bindparam("b_attempt"),
    )
    .values(
        state=sa.bindparam("b_state"),
        epoch=sa.bindparam("b_epoch"),
        reason=sa.bindparam("b_reason"),
        cause=sa.bindparam("b_cause"),
        link=sa.bindparam("b_link"),
        waits_for=sa.bindparam("b_waits_for"),
        waits_on=sa.bindparam("b_waits_on"),
        settled_at_seconds=sa.bindparam("b_at"),
        sealed_at_seconds=sa.func.coalesce(
            sa.bindparam("b_sealed", type_=sa.Float()), t.transactions.c.sealed_at_seconds
        ),
        decided_at_seconds=sa.func.coalesce(
            sa.bindparam("b_decided", type_=sa.Float()), t.transactions.c.decided_at_seconds
        ),
        waits=sa.func.coalesce(sa.bindparam("b_waits", type_=sa.Text()), t.transactions.c.waits),
    )
)
_run_of_it = (
    sa.select(t.transactions.c.run)
    .where(
        t.transactions.c.namespace == t.effects.c.namespace,
        t.transactions.c.name == t.effects.c.name,
        t.transactions.c.attempt == t.effects.c.attempt,
    )
    .scalar_subquery()
)
_UPDATE_EFFECT = Statement(
    sa.update(t.effects)
    .where(t.effects.c.namespace == sa.bindparam("b_namespace"), t.effects.c.key == sa.bindparam("b_key"))
    .values(
        outcome=sa.bindparam("b_outcome"),
        result=sa.bindparam("b_result"),
        error=sa.bindparam("b_error"),
        tag=sa.bindparam("b_tag"),
        note=sa.bindparam("b_note"),
        disposition=sa.bindparam("b_disposition"),
        link=sa.bindparam("b_link"),
        question=sa.bindparam("b_question"),
        contradicted=sa.bindparam("b_contradicted"),
        settled_at_seconds=sa.bindparam("b_at"),
        dealt_at_seconds=sa.null(),  # news of it: somebody has to look at it anew
        run=sa.case((sa.bindparam("b_left") == sa.literal_column("1"), _run_of_it), else_=t.effects.c.run),
    )
)
_SAY = Statement(
    "UPDATE settlemark_effect SET said = :said, said_by = :by, said_at_seconds = :at, dealt_at_seconds = :dealt"
    " WHERE namespace = :namespace AND key = :key"
)
_IN_ORDER = (_INSERT_TRANSACTION, _INSERT_EFFECT, _INSERT_FENCE, _UPDATE_EFFECT, _UPDATE_TRANSACTION)
_LAST = Statement(
    f"SELECT {COLUMNS} FROM settlemark_transaction"  # noqa: S608 - our names
    " WHERE namespace = :b_namespace AND name = :b_name ORDER BY attempt DESC LIMIT 1"
)
_ATTEMPT = Statement(
    f"SELECT {COLUMNS} FROM settlemark_transaction"  # noqa: S608 - our names
    " WHERE namespace = :b_namespace AND name = :b_name AND attempt = :b_attempt"
)
_EFFECTS = Statement(
    sa.select(t.effects)
    .where(
        t.effects.c.namespace == sa.bindparam("b_namespace"),
        t.effects.c.name == sa.bindparam("b_name"),
        t.effects.c.attempt == sa.bindparam("b_attempt"),
    )
    .order_by(t.effects.c.position)
)


_c, _e = t.transactions.c, t.effects.c
_open = sa.and_(_c.forget_at_seconds.is_(None), _c.settled_at_seconds.is_(None))  # a range of an index
_left = sa.and_(
    _e.tag.in_([sa.literal_column(f"'{tag.value}'") for tag in UNRESOLVED]),
    _e.outcome.in_([sa.literal_column(f"'{outcome.value}'") for outcome in HAPPENED]),
)
_theirs = sa.and_(_e.namespace == _c.namespace, _e.name == _c.name, _e.attempt == _c.attempt)
_here = _c.namespace == sa.bindparam("b_namespace")
_age = (_c.opened_at_seconds, _c.epoch, _c.attempt)
_ALL = Statement(sa.select(t.transactions).where(_here).order_by(*_age))
_UNFINISHED = Statement(sa.select(t.transactions).where(_here, _open).order_by(*_age))
_ALL_EFFECTS = Statement(
    sa.select(t.effects).where(_e.namespace == sa.bindparam("b_namespace")).order_by(_e.name, _e.attempt, _e.position)
)
_BY_KEY = Statement(
    sa.select(t.transactions)
    .join(t.effects, _theirs)
    .where(_e.namespace == sa.bindparam("b_namespace"), _e.key == sa.bindparam("b_key"))
)
_UNRESOLVED = Statement(sa.select(t.transactions).join(t.effects, _theirs).where(_here, _left).order_by(*_age))
_UNRESOLVED_EFFECTS = Statement(
    sa.select(t.effects)
    .where(_e.namespace == sa.bindparam("b_namespace"), _left)
    .order_by(_e.name, _e.attempt, _e.position)
)
_of_run = _c.run == sa.bindparam("b_run")
_OF_RUN = Statement(sa.select(t.transactions).where(_here, _of_run).order_by(*_age))
_EFFECTS_OF_RUN = Statement(
    sa.select(t.effects).join(t.transactions, _theirs).where(_here, _of_run).order_by(_e.name, _e.attempt, _e.position)
)
_since = _c.epoch >= sa.bindparam("b_epoch")
_SINCE = Statement(sa.select(t.transactions).where(_here, _since).order_by(*_age))
_EFFECTS_SINCE = Statement(
    sa.select(t.effects).join(t.transactions, _theirs).where(_here, _since).order_by(_e.name, _e.attempt, _e.position)
)
_UNFINISHED_EFFECTS = Statement(
    sa.select(t.effects).join(t.transactions, _theirs).where(_here, _open).order_by(_e.name, _e.attempt, _e.position)
)
_has_outcome = _e.outcome == sa.bindparam("b_outcome")
_OPEN_WITH = Statement(
    sa.select(t.transactions).join(t.effects, _theirs).where(_here, _open, _has_outcome).order_by(*_age)
)
_EFFECTS_OPEN_WITH = Statement(
    sa.select(t.effects)
    .join(t.transactions, _theirs)
    .where(_here, _open, _has_outcome)
    .order_by(_e.name, _e.attempt, _e.position)
)


def _transaction_values(namespace: str, row: TransactionRow) -> dict[str, Any]:
    return {
        "namespace": namespace, "name": row.name, "attempt": row.attempt, "run": row.run, "state": row.state.value,
        "epoch": row.epoch, "ordinal": row.ordinal, "owner": row.owner, "reason": None,
        "opened_at_seconds": row.at, "settled_at_seconds": None, "forget_at_seconds": None,
        "sealed_at_seconds": None, "decided_at_seconds": None, "waits": None, "cause": None, "link": None,
        "waits_for": None, "waits_on": None,
    }  # fmt: skip


def _state_values(namespace: str, change: StateChange) -> dict[str, Any]:
    finished = change.state in FINISHED
    return {
        "b_namespace": namespace, "b_name": change.name, "b_attempt": change.attempt, "b_state": change.state.value,
        "b_epoch": change.epoch, "b_reason": change.reason and change.reason.value, "b_cause": change.cause,
        "b_link": change.link, "b_waits_for": change.waits_for, "b_waits_on": change.waits_on,
        "b_at": change.at if finished else None,
        "b_sealed": change.sealed_at, "b_decided": change.decided_at,
        "b_waits": json.dumps(change.waits) if change.waits else None,
    }  # fmt: skip


def _effect_values(namespace: str, row: EffectRow) -> dict[str, Any]:
    return {
        "namespace": namespace, "key": row.key, "name": row.name, "attempt": row.attempt, "position": row.position,
        "tool": row.tool, "kind": row.kind.value, "scopes": row.scopes, "held": row.held, "call_id": row.call_id,
        "arguments": row.arguments, "fingerprint": row.fingerprint, "rationale": row.rationale,
        "handlers": row.handlers, "version": row.version, "outcome": row.outcome.value, "intended_at_seconds": row.at,
        "result": None, "error": None, "tag": None, "note": None, "settled_at_seconds": None,
        "window_seconds": row.window, "leaves": int(row.leaves), "path": row.path, "sender": None,
        "said": None, "said_by": None, "said_at_seconds": None, "dealt_at_seconds": None, "run": None,
        "disposition": None, "link": None, "question": None, "contradicted": False,
    }  # fmt: skip


def _outcome_values(namespace: str, change: OutcomeChange) -> dict[str, Any]:
    return {
        "b_namespace": namespace, "b_key": change.key, "b_outcome": change.outcome.value, "b_result": change.result,
        "b_error": change.error, "b_tag": change.tag and change.tag.value, "b_note": change.note, "b_at": change.at,
        "b_left": int(change.tag not in (None, Tag.CLEAN)),
        "b_disposition": change.disposition and change.disposition.value, "b_link": change.link,
        "b_question": change.question, "b_contradicted": change.contradicted,
    }  # fmt: skip


def transaction_in(row: Row) -> RecordedTransaction:
    """Return what a row of all columns says of a transaction: without its effects."""
    _, name, attempt, run, state, epoch, ordinal, owner, reason, opened, settled, _, sealed, decided, waits, *rest = row
    begun = TransactionRow(name, attempt, run, State(state), epoch, ordinal, owner, opened)
    cause, link, waits_for, waits_on = rest
    return RecordedTransaction(
        begun, begun.state, epoch, Reason(reason) if reason else None, settled, sealed_at=sealed, decided_at=decided,
        waits=_waits_in(waits), cause=cause, link=link, waits_for=waits_for, waits_on=waits_on,
    )  # fmt: skip


def _waits_in(text: str | None) -> tuple[Waited, ...]:
    """Return the waits that a column has."""
    return () if text is None else tuple(Waited(*each) for each in json.loads(text))


__all__ = ["SqlBook", "transaction_in"]
