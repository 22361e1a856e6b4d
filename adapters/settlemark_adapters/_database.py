"""A database that tools act on: one transaction a call, whose outcome is certain or reported as unknown.

A failure before COMMIT is sent has done nothing, and says so. A connection lost during COMMIT leaves the outcome
unknown: `OutcomeLost` is a `ConnectionError`, so settlemark asks the probe.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.util import asbool

from settlemark.hosting import discreet, shown

LOCK_SECONDS = 30
CONNECT_SECONDS = 10
_INSERTS: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
_KNOWN = ("sqlite", "postgresql")
_DOWN = (exc.OperationalError, exc.InterfaceError, exc.TimeoutError)


class DatabaseUnavailable(RuntimeError):
    """The database cannot be reached, or another has it locked for too long: nothing was done."""


class DatabaseLocked(DatabaseUnavailable):
    """Another program is writing to the SQLite file just now: nothing was done."""


class DatabaseRefused(ValueError):
    """The database refused, by its constraints: nothing was changed."""


class OutcomeLost(ConnectionError):
    """The connection was lost during COMMIT: whether it happened is unknown here."""


class Database:
    """A SQLite file or a PostgreSQL database, and transactions on it that write at once or not at all.

    Args:
        url: a SQLAlchemy URL, or an engine, which is used unchanged and remains its owner's to dispose of.
        create: create a missing SQLite file; else it is refused.

    Laws: `begin` is serial with every other writer of a SQLite file from its first statement on (BEGIN IMMEDIATE), and
    READ COMMITTED on PostgreSQL, whatever the engine's isolation level. Every wait for a lock is bounded.

    Raises:
        ValueError: another kind of database, or SQLite in memory, which a second connection does not see.
    """

    def __init__(self, url: str | sa.URL | sa.Engine, *, create: bool = False) -> None:
        given = url.url if isinstance(url, sa.Engine) else sa.make_url(url)
        self.dialect = given.get_backend_name()
        if self.dialect not in _KNOWN:
            raise ValueError(f"{self.dialect} is no database known here: give a URL of {' or '.join(_KNOWN)}")
        self._file = _file_of(given) if self.dialect == "sqlite" else None
        if isinstance(url, sa.Engine):
            self.engine = url
        elif self.dialect == "postgresql":
            self.engine = _postgres(given)
            weakref.finalize(self, self.engine.dispose)
        elif self._file is None:
            raise ValueError("a SQLite database in memory ends with its connection: name a file, or give an engine")
        else:
            self.engine = _sqlite(given)
        self._create = create or isinstance(url, sa.Engine)
        self._prepared: set[int] = set()
        self._lock = threading.Lock()
        self.name = self._file.stem if self._file else given.database or given.username or "default"

    def __repr__(self) -> str:
        return f"Database({self.name!r})"

    @property
    def shown(self) -> str:
        """The address for people: without its password."""
        return str(self._file) if self._file else shown(self.engine.url.render_as_string(hide_password=False))

    def prepare(self, tables: sa.MetaData) -> None:
        """Create these tables unless they exist.

        Raises:
            DatabaseUnavailable, DatabaseRefused: it cannot.
        """
        with self._lock:
            if id(tables) in self._prepared:
                return
            with self._told("make settlemark's own tables"), self._connected() as connection:
                try:
                    tables.create_all(connection)
                    connection.commit()
                except exc.DBAPIError:
                    # Two that begin at once create the same table; a user who may not create it may find it.
                    connection.rollback()
                    found = sa.inspect(connection).get_table_names()
                    if not set(tables.tables) <= set(found):
                        raise
            self._prepared.add(id(tables))

    @contextmanager
    def begin(
        self, doing: str, *, keep: bool = True, reads: bool = False, waits: bool = True
    ) -> Generator[sa.Connection, None, None]:
        """Yield a connection within a transaction, which is committed at the end of the block, or rolled back.

        Args:
            doing: its purpose, for errors: "insert_row".
            keep: False rolls back at the end.
            reads: it only reads, so no writer of a SQLite file is kept out meanwhile.
            waits: False raises at once while another writes to the SQLite file: an event loop that waited would keep
                that one from ever ending.

        Raises:
            DatabaseUnavailable, DatabaseRefused: nothing was done.
            DatabaseLocked: another is writing now.
            OutcomeLost: nobody knows.
        """
        with self._told(doing), self._connected() as connection:
            self._start(connection, reads=reads, waits=waits)
            try:
                yield connection
            except BaseException:
                with suppress(exc.SQLAlchemyError):
                    self._roll_back(connection)
                raise
            if keep:
                self._commit(connection, doing)
            else:
                self._roll_back(connection)

    @contextmanager
    def looking(self, doing: str) -> Generator[sa.Connection, None, None]:
        """Yield a connection for reading, which locks nothing.

        Raises:
            DatabaseUnavailable, DatabaseRefused: as `begin`.
        """
        with self._told(doing), self._connected() as connection:
            yield connection

    def close(self) -> None:
        """Close the connections of an engine of its own."""
        self.engine.dispose()

    # ---- one connection

    @contextmanager
    def _connected(self) -> Generator[sa.Connection, None, None]:
        if not self._create and self._file is not None and not self._file.is_file():
            raise DatabaseUnavailable(
                f"there is no database at {self._file}, and nothing was done: name one that is there"
            )
        level = "AUTOCOMMIT" if self.dialect == "sqlite" else "READ COMMITTED"
        # With AUTOCOMMIT pysqlite leaves BEGIN to us: by itself it begins neither on SELECT nor before DDL.
        with self.engine.connect().execution_options(isolation_level=level) as connection:
            yield connection

    def _start(self, connection: sa.Connection, *, reads: bool, waits: bool) -> None:
        connection.begin()
        if self.dialect != "sqlite":
            connection.execute(sa.text("SELECT set_config('lock_timeout', :most, true)"), {"most": f"{LOCK_SECONDS}s"})
        elif not getattr(connection.connection.dbapi_connection, "in_transaction", False):
            # Unless the engine's owner makes it begin automatically.
            patience = 0 if waits else connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
            try:
                if patience:
                    connection.exec_driver_sql("PRAGMA busy_timeout=0")
                connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
            finally:
                if patience:  # the engine's owner uses the connection again
                    connection.exec_driver_sql(f"PRAGMA busy_timeout={patience}")

    def _commit(self, connection: sa.Connection, doing: str) -> None:
        try:
            if self.dialect == "sqlite":
                connection.exec_driver_sql("COMMIT")
            connection.commit()
        except exc.DBAPIError as error:
            if error.connection_invalidated:
                raise OutcomeLost(
                    f"the connection to {self.shown} was lost while {doing} was committed: whether it happened is"
                    f" unknown; ask before you repeat it ({_said(error)})"
                ) from error
            with suppress(exc.SQLAlchemyError):
                self._roll_back(connection)
            raise

    def _roll_back(self, connection: sa.Connection) -> None:
        if self.dialect == "sqlite":
            connection.exec_driver_sql("ROLLBACK")
        connection.rollback()

    @contextmanager
    def _told(self, doing: str) -> Generator[None, None, None]:
        """Turn an error of the database into one that says that nothing was done, and what to do."""
        try:
            yield
        except exc.SQLAlchemyError as error:
            if (isinstance(error, _DOWN) and not _is_mistake(error)) or getattr(error, "connection_invalidated", False):
                kind = DatabaseLocked if _sqlite_code(error) == sqlite3.SQLITE_BUSY else DatabaseUnavailable
                raise kind(
                    f"{doing} on {self.shown} did nothing: {_said(error)}; see that the database can be reached, and"
                    " that nobody holds it locked, then call again"
                ) from error
            raise DatabaseRefused(
                f"{doing} on {self.shown} was refused, and nothing was changed: {_said(error)}"
            ) from error


def insert_unless_there(connection: sa.Connection, table: sa.Table, line: Mapping[str, Any]) -> bool:
    """Insert a row unless its key exists, and return whether it was inserted; waits for a concurrent insert."""
    statement = _INSERTS[connection.dialect.name](table).values(dict(line)).on_conflict_do_nothing()
    # Without the option the count of an INSERT is not the database's own.
    return bool(connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount)


def _file_of(url: sa.URL) -> Path | None:
    """Return the file that a SQLite URL names, also as `file:…?uri=true`; None for one in memory."""
    name, in_memory = url.database or "", url.query.get("mode") == "memory"
    if name.startswith("file:") and asbool(url.query.get("uri", False)):
        name = unquote(urlsplit(name).path)
    return None if in_memory or name in ("", ":memory:") else Path(name).resolve()


def _sqlite_code(error: BaseException) -> int:
    return int(getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)) & 0xFF


def _is_mistake(error: BaseException) -> bool:
    """Whether the statement is at fault: SQLite calls a wrong name, and a write to a read-only file, operational."""
    return _sqlite_code(error) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY)


def _said(error: BaseException) -> str:
    """The database's own words: not the statement and its parameters, which may be secret."""
    text = str(getattr(error, "orig", None) or error)
    return " ".join(text.split()) or type(error).__name__


def _postgres(url: sa.URL) -> sa.Engine:
    asked = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_SECONDS}
    return discreet(sa.create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=asked))


def _sqlite(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, poolclass=sa.NullPool, hide_parameters=True, connect_args={"timeout": LOCK_SECONDS})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


__all__ = ["Database", "DatabaseLocked", "DatabaseRefused", "DatabaseUnavailable", "OutcomeLost", "insert_unless_there"]
