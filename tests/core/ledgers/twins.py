"""Two namespaces of one store that have the same names, keys, fences and workers: nothing of one is the other's."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from tests.rooms.ledger import Change, Draft, Said
from tests.rooms.record import SqlBook, prepare
from tests.rooms.record import tables as t
from tests.rooms.replica import Member, engine_to, replica
from tests.rooms.sql import supported, wire_to

from settlemark import EffectClass, Outcome, State, Tag
from settlemark.hosting import Reason
from settlemark.ledger import (
    EffectRow,
    Fence,
    OutcomeChange,
    Packer,
    RecordedTransaction,
    StateChange,
    TransactionRow,
)
from settlemark.testing import VirtualClock

T = TypeVar("T")
NAMESPACES = ("ours", "other")
SPACED = tuple(table for table in t.metadata.tables.values() if "namespace" in table.c)
PATIENCE = 60.0


class Store:
    """A store with two namespaces, emptied for each test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = self.connected()
        with self.engine.connect() as connection, connection.begin():
            for namespace in NAMESPACES:
                prepare(connection, url, namespace=namespace)
        self.wire = wire_to(self.engine)

    def connected(self) -> sa.Engine:
        return engine_to(supported(self.url), readonly=False, create=True)

    def asked(self, text: str) -> list[Any]:
        """Return what is in the store, by a way of its own: no statement of the ledger."""
        return list(self.wire._driver.execute(text).fetchall())

    def rows(self, namespace: str) -> dict[str, list[Any]]:
        """Return everything that the store has of a namespace."""
        return {
            table.name: sorted(self.asked(f"SELECT * FROM {table.name} WHERE namespace = '{namespace}'"), key=repr)
            for table in SPACED
        }

    def empty(self) -> None:
        self.wire.rollback()
        for table in reversed(t.metadata.sorted_tables):
            if table in SPACED:
                self.wire._driver.execute(f"DELETE FROM {table.name}")
        for namespace in NAMESPACES:
            self.wire._driver.execute(f"INSERT INTO settlemark_head (namespace, n) VALUES ('{namespace}', 0)")

    def close(self) -> None:
        self.wire.close()
        self.engine.dispose()


class Side:
    """One of the two namespaces: whatever is done in it, the other's rows stay as they are."""

    def __init__(self, store: Store, namespace: str, other: str) -> None:
        self.store, self.namespace, self._other = store, namespace, other
        self.workers: list[Member] = []

    @contextmanager
    def alone(self) -> Generator[None]:
        """See that nothing of the other moves meanwhile."""
        before = self.store.rows(self._other)
        yield
        assert self.store.rows(self._other) == before

    def book(self, ask: Callable[[SqlBook], T], *, worker: str = "me") -> T:
        """Return what is asked of the record, in a transaction of its own."""
        wire = self.store.wire
        with self.alone():
            wire.begin(durable=False)
            try:
                book = SqlBook(wire, self.namespace, worker, Packer(salt="salt"))
                found = ask(book)
                book.flush()
                wire.commit()
            except BaseException:
                wire.rollback()
                raise
        return found

    def write(self, *changes: Change) -> None:
        self.book(lambda book: book.write(changes))

    def rows(self, table: str) -> list[Any]:
        return self.store.rows(self.namespace)[f"settlemark_{table}"]

    def worker(self, name: str | None = None, *, lease: float = 1_000.0, clock: VirtualClock | None = None) -> Member:
        """Return a worker of this namespace that has joined, without a thread of its own."""
        told = clock or VirtualClock()
        member = Member(
            self.store.connected(),
            url=self.store.url,
            namespace=self.namespace,
            lease=lease,
            wait=PATIENCE,
            monotonic=told.monotonic,
        )
        member.transaction.payloads = Packer(salt="salt")
        member.lease.worker = name or member.worker
        self.workers.append(member)
        with self.alone():
            member.join()
        return member

    def takes(self, member: Member, step: Callable[[Any, Any], T] = lambda _protocol, _book: None) -> T:  # type: ignore[assignment]
        """Return what a step of a worker returns."""
        with self.alone():
            answer = member.submit(step, durable=True)
            answer.lead()
        found: T = answer.result()
        return found

    def close(self) -> None:
        for member in self.workers:
            member.connection.let_go()
            member.connection.engine.dispose()


class Twins:
    """Both namespaces; what is written to both is told apart by what it says, and by nothing that it is found by."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.empty()
        self.ours, self.other = Side(store, "ours", "other"), Side(store, "other", "ours")

    def write(self, *changes: Change) -> None:
        """Write changes to one, and to the other as its own: the same names, a little later, with other values."""
        self.other.write(*map(_theirs, changes))
        self.ours.write(*changes)

    @contextmanager
    def images_every(self, entries: int) -> Generator[None]:
        before, replica.IMAGE_EVERY = replica.IMAGE_EVERY, entries
        try:
            yield
        finally:
            replica.IMAGE_EVERY = before

    def close(self) -> None:
        self.ours.close()
        self.other.close()


def _theirs(change: Change) -> Change:
    if isinstance(change, TransactionRow):
        return change._replace(owner="theirs", at=change.at + 0.25)
    if isinstance(change, EffectRow):
        return change._replace(tool="theirs", at=change.at + 0.25)
    if isinstance(change, OutcomeChange):
        return change._replace(result='"theirs"')
    return change._replace(text='"theirs"') if isinstance(change, Said) else change


# ---- rows


def opened(
    name: str = "trip", attempt: int = 1, *, run: str = "run", at: float = 1.0, epoch: int = 1
) -> TransactionRow:
    return TransactionRow(name, attempt, run, State.OPEN, epoch, "", "mine", at)


def intent(
    name: str = "trip",
    attempt: int = 1,
    position: int = 0,
    *,
    at: float = 1.0,
    window: float | None = None,
    **parts: Any,
) -> EffectRow:
    key = f"{name}#{attempt}/{position}"
    kind, told = EffectClass.REVERSIBLE, Outcome.INTENDED
    row = EffectRow(
        key, name, attempt, position, "book", kind, '["room:/a"]', False, None, '{"room":"a"}', None, "{}", "1", told,
        at, window=window,
    )  # fmt: skip # a table of values
    return row._replace(**parts)


def told(
    key: str = "trip#1/0", what: Outcome = Outcome.CONFIRMED, *, tag: Tag | None = None, at: float = 2.0, **parts: Any
) -> OutcomeChange:
    return OutcomeChange(key, what, '{"id":7}', None, tag, None, at)._replace(**parts)


def ended(
    name: str = "trip",
    attempt: int = 1,
    state: State = State.COMMITTED,
    *,
    at: float = 3.0,
    epoch: int = 1,
    reason: Reason | None = None,
) -> StateChange:
    return StateChange(name, attempt, state, epoch, reason, at)


def fenced(run: str, at: float) -> Fence:
    return Fence(run, at)


def shown(found: list[RecordedTransaction]) -> list[tuple[str, list[str]]]:
    """Return what was found in one line each: whose it is, and each effect's tool and position, in their order."""
    return [
        (f"{r.row.name}#{r.row.attempt} {r.row.owner}", [f"{e.row.tool} {e.row.position}" for e in r.effects])
        for r in found
    ]


def draft(id_: str = "d1", *, run: str = "run", at: float = 1.0, kind: str = "decision", **parts: Any) -> Draft:
    """Return an entry's first version."""
    return Draft(kind, id_, run, "made", at)._replace(**parts)


__all__ = ["Side", "Store", "Twins", "draft", "ended", "fenced", "intent", "opened", "shown", "told"]
