"""What an operator may see of a SQL store beside the record: the protocol's state, the workers, its clock, its size.

A look changes nothing, joins nobody, and needs no worker alive: it loads the image, replays the log behind
it, and throws both away. All that one look finds is of one moment.
"""
# ruff: noqa: SLF001 - it reads what a book is made of

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import sqlalchemy as sa

from settlemark._image import load
from settlemark._journal import replay
from settlemark._protocol import Protocol
from settlemark.ledger import _tables as t
from settlemark.ledger._book import SqlBook
from settlemark.ledger._contract import Book, Ledger
from settlemark.ledger._payloads import Payloads
from settlemark.ledger._wire import Row, Statement, saying, wire_to
from settlemark.ledger._workers import is_gone

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that works on a store.

    Attributes:
        name: which host, process and start it is.
        lease_left: seconds until its lease should have been renewed, on the store's clock; nothing goes by it.
        since: since when it is there, in seconds since 1970.
        ended: its process surely runs no more: on its own host one need not wait for the lease.
        buried: others have taken its work, and it may still be sending.
    """

    name: str
    lease_left: float
    since: float
    ended: bool
    buried: bool = False

    @property
    def alive(self) -> bool:
        """Whether others must leave alone what it has begun."""
        return not self.ended and not self.buried and self.lease_left > 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a store has beside the record: entries of the log, and characters of the image."""

    log_entries: int
    image_characters: int


class Look:
    """What one look at a store finds; valid while `looking` runs."""

    def __init__(self, book: SqlBook) -> None:
        self.book = book
        self._wire = book._wire
        self._here = {"namespace": book._namespace}

    @property
    def dialect(self) -> str:
        """Which kind of store it is."""
        return self._wire.dialect.name

    def ask(self, text: str, **values: Any) -> list[Row]:
        """Return the rows of a statement, which may name `:namespace`."""
        statement = saying(text)
        _, names = statement.said(self._wire.dialect)
        given = {**self._here, **values}
        return self._wire.query(statement, {name: given[name] for name in names})

    def replica(self) -> Protocol:
        """Return the protocol as the store has it: a copy, to be looked at."""
        protocol = Protocol()
        number = 0
        for number, state in self.ask("SELECT n, state FROM settlemark_image WHERE namespace = :namespace"):  # noqa: B007 - at most one
            load(protocol, json.loads(state))
        behind = "SELECT steps FROM settlemark_log WHERE namespace = :namespace AND n > :n ORDER BY n"
        for (steps,) in self.ask(behind, n=number):
            replay(protocol, json.loads(steps))
        return protocol

    def clock(self) -> float:
        """Return what time it is for the store, in seconds since 1970."""
        return float(self.ask("SELECT {clock}")[0][0])

    def workers(self) -> list[Worker]:
        """Return who works on the store, or did and was not struck off, in the order of their names."""
        found = self.ask(
            "SELECT id, lease_until_seconds - {clock}, since_seconds, buried_at_seconds IS NOT NULL"
            " FROM settlemark_worker WHERE namespace = :namespace ORDER BY id"
        )
        return [Worker(name, left, since, is_gone(name), bool(buried)) for name, left, since, buried in found]

    def sizes(self) -> Sizes:
        """Return the size of the log and of the image."""
        ((entries,),) = self.ask("SELECT count(*) FROM settlemark_log WHERE namespace = :namespace")
        ((characters,),) = self.ask("SELECT sum(length(state)) FROM settlemark_image WHERE namespace = :namespace")
        return Sizes(entries, characters or 0)


@contextmanager
def look_anyhow(url: str, *, namespace: str = "default") -> Generator[Look]:
    """Open a store to be looked at whatever its schema: only what is in every version may be asked of it."""
    from settlemark.ledger._sql import engine_to
    from settlemark.ledger._supported import supported

    engine = engine_to(supported(url), readonly=True, create=False)
    wire = wire_to(engine)
    try:
        wire.begin_to_read()
        yield Look(SqlBook(wire, namespace, "", Payloads()))
        wire.commit()
    finally:
        wire.close()
        engine.dispose()


_ONE_MOMENT = saying("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def looking(ledger: Ledger, query: Callable[[Look], T]) -> T:
    """Return what a query finds in the store of a SQL ledger that was opened to be read.

    Raises:
        LedgerError: the store cannot be read.
    """

    def at_one_moment(book: Book) -> T:
        look = Look(cast("SqlBook", book))
        if look.dialect == "postgresql":
            look._wire.execute(_ONE_MOMENT, {})
        return query(look)

    return ledger.read(at_one_moment)


# ---- the record in batches, in the order of its primary key: what is exported is never all in memory

Place = tuple[Any, ...]
_d, _e = t.transactions.c, t.effects.c
_HERE = _d.namespace == sa.bindparam("namespace")
_ALL_RUNS = sa.or_(sa.cast(sa.bindparam("run"), sa.Text).is_(None), _d.run == sa.bindparam("run"))
_theirs = sa.and_(_e.namespace == _d.namespace, _e.name == _d.name, _e.attempt == _d.attempt)
_LATER = sa.or_(
    _d.opened_at_seconds >= sa.bindparam("since"),
    _d.settled_at_seconds >= sa.bindparam("since"),
    sa.exists().where(_theirs, _e.settled_at_seconds >= sa.bindparam("since")),  # resolved since, by somebody
)
_DECISIONS = Statement(
    sa.select(
        _d.name, _d.attempt, _d.run, _d.state, _d.reason, _d.epoch, _d.ordinal, _d.owner, _d.opened_at_seconds,
        _d.settled_at_seconds,
    )
    .where(
        _HERE, _ALL_RUNS, _LATER,
        sa.tuple_(_d.name, _d.attempt) > sa.tuple_(sa.bindparam("name"), sa.bindparam("attempt")),
    )
    .order_by(_d.name, _d.attempt)
    .suffix_with(sa.text("LIMIT :most"))
)  # fmt: skip
_EFFECTS = Statement(
    sa.select(
        _e.name, _e.attempt, _e.position, _e.key, _e.tool, _e.kind, _e.scopes, _e.held, _e.call_id, _e.fingerprint,
        _e.version, _e.outcome, _e.tag, _e.intended_at_seconds, _e.settled_at_seconds,
    )
    .join(t.transactions, _theirs)
    .where(
        _e.namespace == sa.bindparam("namespace"), _ALL_RUNS,
        sa.tuple_(_e.name, _e.attempt, _e.position)
        > sa.tuple_(sa.bindparam("name"), sa.bindparam("attempt"), sa.bindparam("position")),
        sa.tuple_(_e.name, _e.attempt) <= sa.tuple_(sa.bindparam("last_name"), sa.bindparam("last_attempt")),
    )
    .order_by(_e.name, _e.attempt, _e.position)
    .suffix_with(sa.text("LIMIT :most"))
)  # fmt: skip


def decisions(look: Look, *, after: Place, run: str | None, since: float, most: int) -> list[Row]:
    """Return the next transactions behind (name, attempt): of one run, begun or settled since then."""
    name, attempt = after
    values = {**look._here, "name": name, "attempt": attempt, "run": run, "since": since, "most": most}
    return look._wire.query(_DECISIONS, values)


def effects(look: Look, *, after: Place, to: Place, run: str | None, most: int) -> list[Row]:
    """Return the next effects behind (name, attempt, position), up to those of (name, attempt); no payloads."""
    values = dict(zip(("name", "attempt", "position", "last_name", "last_attempt"), (*after, *to), strict=True))
    return look._wire.query(_EFFECTS, {**look._here, **values, "run": run, "most": most})


__all__ = ["Look", "Place", "Sizes", "Worker", "decisions", "effects", "look_anyhow", "looking"]
