"""A store's connection: its transactions, and the statements that SQLAlchemy Core composed.

Core composes each statement once for the store's dialect; the driver's own cursor executes it, because a durable step
is five statements, and Core's execution of each costs more than SQLite's. To PostgreSQL the statements after a decision
travel together (one round trip, pipeline mode).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.sql.compiler import SQLCompiler

from settlemark.ledger._forking import never_close
from settlemark.ledger._sql.clocks import CLOCKS
from settlemark.ledger._sql.patience import patiently
from settlemark.ledger._sql.sqlite import opened_file

Values = Mapping[str, Any]
Row = Any
Moment = str
watchers: list[Callable[[Moment, str], None]] = []
"""Called with ("before" | "after", statement) around every statement: tests kill a process here."""


class Unsent(Exception):
    """A row written earlier could not be sent: it may belong to another caller than the present statement's.

    Attributes:
        orig: why.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.orig = error


class Statement:
    """A statement of Core, or a text with `:named` values, in each dialect's words.

    In a text, `{clock}` is the database's clock, in seconds since 1970: leases are compared on one clock alone.
    """

    def __init__(self, clause: Any) -> None:
        self.clause = clause
        self._said: dict[str, tuple[str, tuple[str, ...]]] = {}

    def said(self, dialect: sa.Dialect) -> tuple[str, tuple[str, ...]]:
        """Return its text, and the names of its values in order."""
        found = self._said.get(dialect.name)
        if found is None:
            clause = self.clause
            if isinstance(clause, str):
                clause = sa.text(clause.replace("{clock}", CLOCKS[dialect.name]))
            compiled = cast("SQLCompiler", clause.compile(dialect=dialect))
            names = compiled.positiontup or list(compiled.params)
            found = self._said[dialect.name] = (compiled.string, tuple(names))
        return found


class Wire:
    """A connection that runs statements in transactions which its user begins and ends.

    Args:
        engine: makes the connection; no pool takes it back, since an interrupted connection is unusable.

    Attributes:
        writes: how many statements `execute` has run or queued.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.dialect = engine.dialect
        self._connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._driver: Any = self._connection.connection.driver_connection
        self.version = self.writes = 0
        self.held: threading.Lock | None = None

    @contextmanager
    def holding(self, lock: threading.Lock) -> Generator[None]:
        """Hold a lock, except while waiting for the server: readers of the replica wait for no network."""
        with lock:
            self.held = lock
            try:
                yield
            finally:
                self.held = None

    def forget(self) -> None:
        """Never touch the connection again: a forked child has inherited it."""

    def close(self) -> None:
        """Close the connection, whatever state it is in."""
        with suppress(Exception):
            self._connection.invalidate()
        with suppress(Exception):
            self._connection.close()
        with suppress(Exception):
            self._driver.close()

    def begin(self, *, durable: bool) -> None:
        """Begin a transaction that writes; with `durable` its commit waits for the disk."""
        raise NotImplementedError

    def begin_to_read(self) -> None:
        """Begin a transaction that only reads."""
        raise NotImplementedError

    def query(self, statement: Statement, values: Values) -> list[Row]:
        """Return the rows of a statement, immediately."""
        raise NotImplementedError

    def execute(self, statement: Statement, values: Values) -> None:
        """Run a statement, at the latest at the next query or commit."""
        raise NotImplementedError

    def execute_all(self, statement: Statement, rows: Iterable[Values]) -> None:
        """Run a statement for each of several rows, at the latest at the next query or commit."""
        raise NotImplementedError

    def commit(self) -> None:
        """Commit the transaction."""
        raise NotImplementedError

    def rollback(self) -> None:
        """Roll back; never raises: a connection that cannot is unusable anyway."""
        with suppress(Exception):
            self._driver.execute("ROLLBACK")

    def changed(self) -> bool:
        """Whether another connection may have written since the last call; a cheap check."""
        return True


class SqliteWire(Wire):
    """A connection to a SQLite file."""

    _synchronous: bool | None = None

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._driver.execute("PRAGMA busy_timeout=0")
        self._file = opened_file(engine)
        self._opened: dict[str, tuple[int, int]] = {}

    def forget(self) -> None:
        """Never touch the connection again: a forked child has inherited it."""
        never_close(self._driver, self._file.identity)
        never_close(self._connection, None)

    def close(self) -> None:
        """Close the connection; to a replaced file it stays open: SQLite would remove its successor's log."""
        if self._file.is_replaced():
            self.forget()
        else:
            super().close()

    def begin(self, *, durable: bool) -> None:
        """Begin with the write lock, so that what is read is current when written."""
        if self._synchronous is not durable:
            # Without it a power cut, not a crash, loses the last commits; the next durable one brings them to the disk
            # as well.
            self._driver.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._synchronous = durable
        patiently(lambda: self._run("BEGIN IMMEDIATE", ()))
        if not self._opened:
            self._opened = self._file.opened()

    def begin_to_read(self) -> None:
        """Begin a transaction that only reads."""
        self._run("BEGIN", ())

    def query(self, statement: Statement, values: Values) -> list[Row]:
        """Return the rows of a statement."""
        text, names = statement.said(self.dialect)
        return list(self._run(text, [values[name] for name in names]).fetchall())

    def execute(self, statement: Statement, values: Values) -> None:
        """Run a statement."""
        self.writes += 1
        text, names = statement.said(self.dialect)
        self._run(text, [values[name] for name in names])

    def execute_all(self, statement: Statement, rows: Iterable[Values]) -> None:
        """Run a statement for each of several rows, in one call of the driver: each call lets other threads in."""
        text, names = statement.said(self.dialect)
        bound = [[values[name] for name in names] for values in rows]
        try:
            if watchers:
                watched(text, lambda: self._driver.executemany(text, bound))
            else:
                self._driver.executemany(text, bound)
        except sqlite3.Error:
            raise
        except Exception as error:  # a value that the driver cannot write
            raise Unsent(error) from error

    def commit(self) -> None:
        """Commit, and check that the commit is in the file that others will open."""
        self._run("COMMIT", ())
        self._file.check(self._opened)

    def changed(self) -> bool:
        """Whether another connection wrote since the last call."""
        version = self._driver.execute("PRAGMA data_version").fetchone()[0]
        before, self.version = self.version, version
        return bool(before != version)

    def _run(self, text: str, values: Sequence[Any]) -> Any:
        if not watchers:
            return self._driver.execute(text, values)
        return watched(text, lambda: self._driver.execute(text, values))


class PostgresWire(Wire):
    """A connection to a PostgreSQL server, through psycopg in autocommit mode: BEGIN and COMMIT are explicit."""

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._errors: type[Exception] = cast("Any", engine.dialect.loaded_dbapi).Error
        self._durable = True

    def begin(self, *, durable: bool) -> None:
        """Begin at READ COMMITTED, whatever the server's default is: see `Shared`."""
        self._waiting = [("BEGIN ISOLATION LEVEL READ COMMITTED", {})]
        if not durable:
            self._waiting.append(("SET LOCAL synchronous_commit = off", {}))

    def begin_to_read(self) -> None:
        """Begin a transaction that only reads."""
        self._waiting = [("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", {})]

    def query(self, statement: Statement, values: Values) -> list[Row]:
        """Return the rows of a statement; queued statements go before it, in the same round trip."""
        text, names = statement.said(self.dialect)
        bound = {name: values[name] for name in names}
        held = self.held
        if held is None:
            return list(self._send(text, bound).fetchall())
        held.release()
        try:
            return list(self._send(text, bound).fetchall())
        finally:
            held.acquire()

    def execute(self, statement: Statement, values: Values) -> None:
        """Queue a statement."""
        self.writes += 1
        text, names = statement.said(self.dialect)
        self._waiting.append((text, {name: values[name] for name in names}))

    def execute_all(self, statement: Statement, rows: Iterable[Values]) -> None:
        """Queue a statement for each of several rows."""
        text, names = statement.said(self.dialect)
        self._waiting += [(text, {name: values[name] for name in names}) for values in rows]

    def commit(self) -> None:
        """Send the queued statements, and commit."""
        self._send("COMMIT", {})

    def rollback(self) -> None:
        """Drop the queued statements, and roll back."""
        self._waiting = []
        super().rollback()

    def _send(self, text: str, values: dict[str, Any]) -> Any:
        waiting, self._waiting = self._waiting, []
        if watchers:
            for before, bound in waiting:
                watched(before, lambda before=before, bound=bound: self._before(before, bound))  # type: ignore[misc]
            return watched(text, lambda: self._driver.execute(text, values))
        if not waiting:
            return self._driver.execute(text, values)
        with self._driver.pipeline():
            for before, bound in waiting:
                self._before(before, bound)
            return self._driver.execute(text, values)

    def _before(self, text: str, values: dict[str, Any]) -> None:
        try:
            self._driver.execute(text, values)
        except self._errors:
            raise
        except Exception as error:  # a value that the driver cannot write
            raise Unsent(error) from error


def watched(text: str, run: Callable[[], Any]) -> Any:
    """Run a statement with the watchers called before and after."""
    for told in watchers:
        told("before", text)
    answer = run()
    for told in watchers:
        told("after", text)
    return answer


def wire_to(engine: sa.Engine) -> Wire:
    """Return a connection to a store."""
    return SqliteWire(engine) if engine.dialect.name == "sqlite" else PostgresWire(engine)


@lru_cache(maxsize=256)
def saying(text: str) -> Statement:
    """Return the statement for a text, cached."""
    return Statement(text)


__all__ = ["Row", "Statement", "Unsent", "Values", "Wire", "saying", "watchers", "wire_to"]
