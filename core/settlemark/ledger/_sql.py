"""A ledger in a SQL store, written by one thread that serves synchronous and async callers.

The thread takes all that waits for it and commits it together (group commit), in the order given.
SQLite runs in WAL mode with full sync: what was acknowledged survives a loss of power.
"""

from __future__ import annotations

import atexit
import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from settlemark._effect import EffectClass, Outcome
from settlemark._errors import LedgerError
from settlemark._states import State, Tag
from settlemark.ledger import _tables as t
from settlemark.ledger._contract import (
    SCHEMA_VERSION,
    Change,
    EffectRow,
    Fence,
    OutcomeChange,
    RecordedEffect,
    RecordedTransaction,
    StateChange,
    TransactionRow,
)
from settlemark.ledger._sqlite import reading_engine, writing_engine

_BATCH = 512

_Work = tuple[Callable[[sa.Connection], Any], "Future[Any]"]


def _explain(url: str, error: BaseException) -> LedgerError:
    cause = getattr(error, "orig", None) or error
    text = str(cause)
    advice = "see the cause below"
    if "readonly" in text or "read-only" in text:
        advice = "make the file and its folder writable, or name another file"
    elif "unable to open" in text:
        advice = "create its folder, or name another file"
    elif "full" in text:
        advice = "free some space: nothing was run that could not be recorded"
    elif "locked" in text:
        advice = "another process holds it for long: give each process its own file, or use PostgreSQL"
    elif "not a database" in text:
        advice = "this file is something else: name another one"
    return LedgerError(f"the ledger {url} failed: {text}; {advice}", url=url)


def _engine(url: str, *, readonly: bool) -> sa.Engine:
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return sa.create_engine(parsed)
    return reading_engine(parsed) if readonly else writing_engine(parsed)


class _Writer:
    """The ledger thread's work: it owns the engine and holds no reference to the ledger."""

    def __init__(self, url: str, *, readonly: bool) -> None:
        self.url = url
        self.work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._engine = _engine(url, readonly=readonly)
        # One connection for good: taking one from a pool for every commit costs more than the commit's work.
        self._held: sa.Connection | None = None

    def run(self) -> None:
        stopping = False
        while not stopping:
            batch: list[_Work] = []
            item = self.work.get()
            while True:
                if item is None:
                    stopping = True
                    break
                batch.append(item)
                if len(batch) >= _BATCH or self.work.empty():
                    break
                item = self.work.get()
            if batch:
                self._commit(batch)
        self._let_go()
        self._engine.dispose()

    def _commit(self, batch: list[_Work]) -> None:
        try:
            connection = self._held
            if connection is None:
                connection = self._held = self._engine.connect()
            with connection.begin():
                results = [task(connection) for task, _ in batch]
        except Exception as error:  # every caller is told, the thread goes on
            self._let_go()
            if len(batch) > 1:
                # One bad change must not fail its neighbours: give each its own commit.
                for item in batch:
                    self._commit([item])
                return
            failed = error if isinstance(error, LedgerError) else _explain(self.url, error)
            failed.__cause__ = None if failed is error else error
            batch[0][1].set_exception(failed)
            return
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)

    def _let_go(self) -> None:
        """Close the connection: after an error nobody knows what state it is in."""
        held, self._held = self._held, None
        if held is not None:
            with suppress(SQLAlchemyError):
                held.close()


class SqlLedger:
    """A ledger at a SQLAlchemy URL, such as `sqlite:///trip.db`.

    Args:
        url: where it lives; tables are made when missing.
        namespace: keeps several users of one store apart: scopes, epochs, names and keys.
        readonly: only look at one that is there: nothing is created or changed, and `write` is refused.

    Raises:
        LedgerError: it cannot be opened, or was written by another schema version.
    """

    def __init__(self, url: str, *, namespace: str = "default", readonly: bool = False) -> None:
        self.url = url
        self._namespace = namespace
        self._readonly = readonly
        try:
            self._writer = _Writer(url, readonly=readonly)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
            raise LedgerError(
                f"{url!r} is no ledger: use memory: or sqlite:///FILE",
                url=url,
            ) from error
        self._thread = threading.Thread(target=self._writer.run, name="settlemark-ledger", daemon=True)
        self._thread.start()
        self._closed = weakref.finalize(self, _stop, self._writer, self._thread)
        atexit.register(self._closed)
        try:
            self._wait(self._open)
        except LedgerError:
            self.close()
            raise

    def _open(self, connection: sa.Connection) -> None:
        if not self._readonly:
            t.metadata.create_all(connection)
        elif not sa.inspect(connection).has_table(t.meta.name):
            raise LedgerError(f"{self.url} is a database, but no ledger of settlemark: name another one", url=self.url)
        found = connection.execute(sa.select(t.meta.c.value).where(t.meta.c.key == "schema")).scalar()
        if found is None and not self._readonly:
            connection.execute(sa.insert(t.meta).values(key="schema", value=str(SCHEMA_VERSION)))
        elif found != str(SCHEMA_VERSION):
            raise LedgerError(
                f"the ledger {self.url} has schema version {found}, this settlemark writes {SCHEMA_VERSION}:"
                " install the settlemark that wrote it, or name another ledger",
                url=self.url,
            )

    def _submit(self, task: Callable[[sa.Connection], Any]) -> Future[Any]:
        if not self._closed.alive:
            raise LedgerError(f"the ledger {self.url} is closed: make a new Settlement", url=self.url)
        future: Future[Any] = Future()
        self._writer.work.put((task, future))
        return future

    def _wait(self, task: Callable[[sa.Connection], Any]) -> Any:
        return self._submit(task).result()

    def _refuse_to_write(self) -> None:
        if self._readonly:
            raise LedgerError(f"the ledger {self.url} was opened to be read: nothing was written", url=self.url)

    def reserve_epochs(self, count: int) -> int:
        """Return the first of `count` epochs that no process was ever given before."""
        self._refuse_to_write()

        def reserve(connection: sa.Connection) -> int:
            here = t.epochs.c.namespace == self._namespace
            first = connection.execute(sa.select(t.epochs.c.next).where(here).with_for_update()).scalar()
            if first is None:
                connection.execute(sa.insert(t.epochs).values(namespace=self._namespace, next=1 + count))
                return 1
            connection.execute(sa.update(t.epochs).where(here).values(next=first + count))
            return int(first)

        return int(self._wait(reserve))

    def fences(self) -> list[str]:
        """Return the runs that were cancelled."""
        query = sa.select(t.fences.c.run).where(t.fences.c.namespace == self._namespace)
        return list(self._wait(lambda connection: connection.execute(query).scalars().all()))

    def write(self, changes: list[Change]) -> Future[Any]:
        """Queue changes; the future is done when they, and all before them, are on disk."""
        self._refuse_to_write()
        return self._submit(lambda connection: self._apply(connection, changes))

    def _apply(self, connection: sa.Connection, changes: list[Change]) -> None:
        for change in changes:
            match change:
                case EffectRow():
                    connection.execute(_INSERT_EFFECT, _effect_values(self._namespace, change))
                case OutcomeChange():
                    connection.execute(_UPDATE_EFFECT, _outcome_values(self._namespace, change))
                case TransactionRow():
                    connection.execute(_INSERT_TRANSACTION, _transaction_values(self._namespace, change))
                case StateChange():
                    connection.execute(_UPDATE_TRANSACTION, _state_values(self._namespace, change))
                case Fence():
                    try:
                        with connection.begin_nested():
                            values = {
                                "namespace": self._namespace,
                                "run": change.run,
                                "at_seconds": change.at,
                            }
                            connection.execute(sa.insert(t.fences), values)
                    except IntegrityError:
                        continue  # the run has its fence already

    def load(self, name: str) -> Future[Any]:
        """Return a future of the last attempt of a transaction, or of None."""

        def last(connection: sa.Connection) -> RecordedTransaction | None:
            row = connection.execute(_LAST, {"b_namespace": self._namespace, "b_name": name}).mappings().first()
            if row is None:
                return None
            recorded = _transaction(row)
            e = t.effects.c
            found = sa.select(t.effects).where(
                e.namespace == self._namespace, e.name == name, e.attempt == recorded.row.attempt
            )
            recorded.effects = [_effect(r) for r in connection.execute(found.order_by(e.position)).mappings()]
            return recorded

        return self._submit(last)

    def unfinished(self, run: str) -> Future[Any]:
        """Return a future of the attempts of a run that no process has brought to an end."""
        c = t.transactions.c
        open_ones = c.state.not_in([State.COMMITTED, State.ABORTED])
        return self._submit(lambda connection: self._read(connection, c.run == run, open_ones))

    def transactions(self) -> list[RecordedTransaction]:
        """Return every recorded attempt, oldest first."""
        return list(self._wait(self._read))

    def _read(self, connection: sa.Connection, *conditions: Any) -> list[RecordedTransaction]:
        c, e = t.transactions.c, t.effects.c
        here = sa.and_(c.namespace == self._namespace, *conditions)
        query = sa.select(t.transactions).where(here).order_by(c.opened_at_seconds, c.epoch, c.attempt)
        found: dict[tuple[str, int], RecordedTransaction] = {}
        for row in connection.execute(query).mappings():
            found[row["name"], row["attempt"]] = _transaction(row)
        theirs = sa.and_(e.namespace == c.namespace, e.name == c.name, e.attempt == c.attempt)
        effects = sa.select(t.effects).join(t.transactions, theirs).where(here)
        for row in connection.execute(effects.order_by(e.name, e.attempt, e.position)).mappings():
            found[row["name"], row["attempt"]].effects.append(_effect(row))
        return list(found.values())

    def close(self) -> None:
        """Write what is queued and let go of the store; safe to call twice."""
        self._closed()


def _stop(writer: _Writer, thread: threading.Thread) -> None:
    writer.work.put(None)
    if thread is not threading.current_thread():
        thread.join()


_INSERT_TRANSACTION = sa.insert(t.transactions)
_INSERT_EFFECT = sa.insert(t.effects)
_UPDATE_TRANSACTION = (
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
        settled_at_seconds=sa.bindparam("b_at"),
    )
)
_UPDATE_EFFECT = (
    sa.update(t.effects)
    .where(t.effects.c.namespace == sa.bindparam("b_namespace"), t.effects.c.key == sa.bindparam("b_key"))
    .values(
        outcome=sa.bindparam("b_outcome"),
        result=sa.bindparam("b_result"),
        error=sa.bindparam("b_error"),
        tag=sa.bindparam("b_tag"),
        note=sa.bindparam("b_note"),
        settled_at_seconds=sa.bindparam("b_at"),
    )
)


_LAST = (
    sa.select(t.transactions)
    .where(t.transactions.c.namespace == sa.bindparam("b_namespace"), t.transactions.c.name == sa.bindparam("b_name"))
    .order_by(t.transactions.c.attempt.desc())
    .limit(1)
)


def _transaction_values(namespace: str, row: TransactionRow) -> dict[str, Any]:
    return {
        "namespace": namespace, "name": row.name, "attempt": row.attempt, "run": row.run, "state": row.state,
        "epoch": row.epoch, "ordinal": row.ordinal, "owner": row.owner, "fence": row.fence,
        "opened_at_seconds": row.at,
    }  # fmt: skip


def _state_values(namespace: str, change: StateChange) -> dict[str, Any]:
    finished = change.state in (State.COMMITTED, State.ABORTED)
    return {
        "b_namespace": namespace, "b_name": change.name, "b_attempt": change.attempt, "b_state": change.state,
        "b_epoch": change.epoch, "b_reason": change.reason, "b_at": change.at if finished else None,
    }  # fmt: skip


def _effect_values(namespace: str, row: EffectRow) -> dict[str, Any]:
    return {
        "namespace": namespace, "key": row.key, "name": row.name, "attempt": row.attempt, "position": row.position,
        "tool": row.tool, "kind": row.kind, "scopes": row.scopes, "held": row.held, "call_id": row.call_id,
        "arguments": row.arguments, "fingerprint": row.fingerprint, "rationale": row.rationale,
        "handlers": row.handlers, "version": row.version, "outcome": row.outcome, "intended_at_seconds": row.at,
    }  # fmt: skip


def _outcome_values(namespace: str, change: OutcomeChange) -> dict[str, Any]:
    return {
        "b_namespace": namespace, "b_key": change.key, "b_outcome": change.outcome, "b_result": change.result,
        "b_error": change.error, "b_tag": change.tag, "b_note": change.note, "b_at": change.at,
    }  # fmt: skip


def _transaction(row: Any) -> RecordedTransaction:
    opened = TransactionRow(
        name=row["name"], attempt=row["attempt"], run=row["run"], state=State(row["state"]), epoch=row["epoch"],
        ordinal=row["ordinal"], owner=row["owner"], fence=row["fence"], at=row["opened_at_seconds"],
    )  # fmt: skip
    return RecordedTransaction(opened, opened.state, opened.epoch, row["reason"], row["settled_at_seconds"])


def _effect(row: Any) -> RecordedEffect:
    intent = EffectRow(
        key=row["key"], name=row["name"], attempt=row["attempt"], position=row["position"], tool=row["tool"],
        kind=EffectClass(row["kind"]), scopes=row["scopes"], held=row["held"], call_id=row["call_id"],
        arguments=row["arguments"],  rationale=row["rationale"],
        handlers=row["handlers"], version=row["version"], outcome=Outcome(row["outcome"]),
        at=row["intended_at_seconds"],
    )  # fmt: skip
    return RecordedEffect(
        intent, intent.outcome, row["result"], row["error"], Tag(row["tag"]) if row["tag"] else None, row["note"],
        row["settled_at_seconds"],
    )  # fmt: skip


__all__ = ["SqlLedger"]
