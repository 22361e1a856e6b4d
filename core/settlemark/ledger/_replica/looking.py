"""What an operator may see of a SQL store beside the record: the protocol's state, the workers, clock, and size.

A look changes nothing, joins nobody, and needs no living worker: it loads the image, replays the log after it, and
drops both. Everything one look finds is of one moment.
"""
# ruff: noqa: SLF001 - it reads a book's internals

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from settlemark._protocol.protocol import Protocol
from settlemark.ledger._contract import Book, Ledger
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._record.book import SqlBook
from settlemark.ledger._replica.image import load
from settlemark.ledger._replica.journal import read, replay
from settlemark.ledger._sql.wire import Row, Statement, Values, saying, wire_to
from settlemark.ledger._workers import is_gone, is_here

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that works on a store.

    Attributes:
        name: its host, process and start.
        lease_left: seconds until its lease should have been renewed, on the store's clock; no decision uses it.
        since: when it began, in seconds since 1970.
        ended: its process surely runs no more: on its own host nobody needs to wait for the lease.
        buried: others have taken its work, and it may still be sending.
        until: the latest end of its quarantine, in seconds since 1970 on the store's clock; None if that is when it
            comes back or its process ends, or if it is not buried.
    """

    name: str
    lease_left: float
    since: float
    ended: bool
    buried: bool = False
    until: float | None = None

    @property
    def alive(self) -> bool:
        """Whether others must leave its transactions alone."""
        return not self.ended and not self.buried and self.lease_left > 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a store beside the record: entries of the log, and characters of the image."""

    log_entries: int
    image_characters: int


class Look:
    """One look at a store; valid while `looking` runs."""

    def __init__(self, book: SqlBook) -> None:
        self.book = book
        self._wire = book._wire
        self._here = {"namespace": book._namespace}

    @property
    def dialect(self) -> str:
        """The kind of store."""
        return self._wire.dialect.name

    def ask(self, text: str, **values: Any) -> list[Row]:
        """Return the rows of a statement, which may use `:namespace`."""
        statement = saying(text)
        _, names = statement.said(self._wire.dialect)
        given = {**self._here, **values}
        return self._wire.query(statement, {name: given[name] for name in names})

    def rows(self, statement: Statement, values: Values) -> list[Row]:
        """Return the rows of a statement that uses `:namespace` and these values."""
        return self._wire.query(statement, {**self._here, **values})

    def replica(self) -> Protocol:
        """Return a copy of the store's protocol, for reading."""
        protocol = Protocol()
        number = 0
        for number, state in self.ask("SELECT n, state FROM settlemark_image WHERE namespace = :namespace"):  # noqa: B007 - at most one
            load(protocol, json.loads(state))
        behind = "SELECT n, steps FROM settlemark_log WHERE namespace = :namespace AND n > :n ORDER BY n"
        for entry, steps in self.ask(behind, n=number):
            replay(protocol, read(steps, entry), entry)
        return protocol

    def clock(self) -> float:
        """Return the store's time, in seconds since 1970."""
        ((now,),) = self.ask("SELECT {clock}")
        return float(now)

    def workers(self) -> list[Worker]:
        """Return the store's workers, zombies included, sorted by name."""
        found = self.ask(
            "SELECT id, lease_until_seconds - {clock}, since_seconds, buried_at_seconds, quarantine_seconds"
            " FROM settlemark_worker WHERE namespace = :namespace ORDER BY id"
        )
        return [
            Worker(
                name,
                left,
                since,
                is_gone(name),
                buried is not None,
                None if buried is None or quarantine is None or is_here(name) else buried + quarantine,
            )
            for name, left, since, buried, quarantine in found
        ]

    def sizes(self) -> Sizes:
        """Return the size of the log and of the image."""
        ((entries,),) = self.ask("SELECT count(*) FROM settlemark_log WHERE namespace = :namespace")
        ((characters,),) = self.ask("SELECT sum(length(state)) FROM settlemark_image WHERE namespace = :namespace")
        return Sizes(entries, characters or 0)


@contextmanager
def open_any_schema(url: str, *, namespace: str = "default") -> Generator[Look]:
    """Open a store for reading whatever its schema: only use what is in every version."""
    from settlemark.ledger._replica.store import engine_to
    from settlemark.ledger._sql.supported import supported

    engine = engine_to(supported(url), readonly=True, create=False)
    wire = wire_to(engine)
    try:
        wire.begin_to_read()
        yield Look(SqlBook(wire, namespace, "", Packer()))
        wire.commit()
    finally:
        wire.close()
        engine.dispose()


_ONE_MOMENT = saying("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def looking(ledger: Ledger, query: Callable[[Look], T]) -> T:
    """Return a query's result in the store of a SQL ledger that was opened for reading.

    Raises:
        LedgerError: the store cannot be read.
    """

    def at_one_moment(book: Book) -> T:
        look = Look(cast("SqlBook", book))
        if look.dialect == "postgresql":
            look._wire.execute(_ONE_MOMENT, {})
        return query(look)

    return ledger.read(at_one_moment)


# ---- the record in batches: an export is never all in memory

_EFFECTS = saying(
    "SELECT name, attempt, position, key, tool, kind, scopes, held, call_id, fingerprint, version, outcome, tag,"
    " intended_at_seconds, settled_at_seconds, disposition, link, question, contradicted FROM settlemark_effect"
    " WHERE namespace = :namespace AND name = :name AND attempt = :attempt AND position > :position ORDER BY position"
    " LIMIT :most"
)


def effects(look: Look, *, name: str, attempt: int, position: int, most: int) -> list[Row]:
    """Return the next effects of an attempt after a position, up to a number; no payloads."""
    values = {"name": name, "attempt": attempt, "position": position, "most": most}
    return look.rows(_EFFECTS, values)


__all__ = ["Look", "Sizes", "Worker", "effects", "looking", "open_any_schema"]
