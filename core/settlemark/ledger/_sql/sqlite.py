"""Opens a SQLite file for a ledger: for its one writer, or for reading."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy import event

from settlemark._edges.errors import LedgerError
from settlemark._edges.private import make_private
from settlemark._edges.wording import is_a
from settlemark.ledger._forking import is_inherited
from settlemark.ledger._sql.patience import BASE_CODE, patiently
from settlemark.ledger._urls import shown

BESIDE = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite puts beside a database."""
_NO_ROOM = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class LedgerFile:
    """The file of a ledger, and those that SQLite keeps beside it: are they still the open ones?

    A write into a file that was deleted or replaced is lost, and SQLite reports nothing. The names are checked after
    each commit, which costs some microseconds.

    Args:
        path: the file; None for a database without one.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.identity: tuple[int, int] | None = None
        self._told = [] if path is None else [os.fspath(path) + suffix for suffix in ("", *BESIDE[:2])]

    def expect(self) -> None:
        """Check that the file to be opened is the one that was open before, if any.

        Raises:
            LedgerError: it is not.
        """
        if not self._told:
            return
        found = _identity(self._told[0])
        if self.identity is not None and found != self.identity:
            raise self._gone(self._told[0], found)
        if found is not None and is_inherited(found):
            raise LedgerError(
                f"the ledger {self.path} was in use by this process's parent at the moment of the fork, and SQLite"
                " cannot open it safely here: start this process anew (spawn or exec), or fork before the ledger is"
                " opened",
                url=f"sqlite:///{self.path}",
                forked=True,
            )

    def opened(self) -> dict[str, tuple[int, int]]:
        """Return the files that a connection has open, once a transaction has begun.

        Raises:
            LedgerError: another file is there than was open before.
        """
        if not self._told:
            return {}
        found = {name: _identity(name) for name in self._told}
        self.identity = self.identity or found[self._told[0]]
        if found[self._told[0]] != self.identity:
            raise self._gone(self._told[0], found[self._told[0]])
        return {name: identity for name, identity in found.items() if identity is not None}

    def check(self, opened: dict[str, tuple[int, int]]) -> None:
        """Check that what was just written is in the files that are there.

        Raises:
            LedgerError: one of them was deleted or replaced.
        """
        for name, identity in opened.items():
            found = _identity(name)
            if found != identity:
                raise self._gone(name, found)

    def behind(self, error: Exception) -> Exception:
        """Return the cause of a SQLite error: the file is gone, or the error itself."""
        if self.identity is None or not is_a(error, sqlite3.Error):
            return error
        found = _identity(self._told[0])
        return error if found == self.identity else self._gone(self._told[0], found)

    def is_replaced(self) -> bool:
        """Whether another file has the open file's name."""
        return self.identity is not None and _identity(self._told[0]) not in (None, self.identity)

    def _gone(self, name: str, found: tuple[int, int] | None) -> LedgerError:
        what = "deleted or moved away" if found is None else "replaced by another"
        if name == self._told[0]:
            fix = f"put the very file back to {name}"
        else:
            fix = f"stop what uses {self.path}, since what others commit is not seen any more"
        return LedgerError(
            f"the ledger {self.path} failed: {name} was {what} while it was open, so nothing is acknowledged any more;"
            f" {fix}, or see that the right one is there, and make a new Settlement",
            url=f"sqlite:///{self.path}",
            path=name,
            gone=True,
        )


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - on the path of every commit
    except OSError:
        return None
    return found.st_dev, found.st_ino


def opened_file(engine: sa.Engine) -> LedgerFile:
    """Return the file of a writing engine."""
    found: LedgerFile = getattr(engine, "settlemark_file", None) or LedgerFile(None)
    return found


def writing_engine(url: sa.URL) -> sa.Engine:
    """Return an engine that creates a missing file, in WAL mode with full sync.

    Only its owner may read a new file, and the files SQLite puts beside it, which get the file's mode. A file that was
    open once is not created again: where it was deleted, an empty one would be no ledger.

    Raises:
        OSError: the file cannot be created.
    """
    path = file_of(url)
    if path is not None:
        if url.query.get("mode", "rwc") == "rwc":  # any other opens only what is there
            make_private(path)
        path = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays a link
        if not _is_uri(url):
            url = url.set(database=os.fspath(path))  # independent of the process's later working directory
    # One thread at a time uses it.
    engine = sa.create_engine(url, connect_args={"check_same_thread": False}, hide_parameters=True)
    file = LedgerFile(path)
    engine.settlemark_file = file  # type: ignore[attr-defined]
    _begin_with(engine, "BEGIN IMMEDIATE")

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, _arguments: Any, _options: Any) -> None:
        file.expect()

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=0")
        patiently(lambda: cursor.execute("PRAGMA journal_mode=WAL"))
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    return engine


def file_of(url: sa.URL) -> Path | None:
    """Return the file that SQLite opens for a URL; None for a database in memory.

    >>> str(file_of(sa.make_url("sqlite:///trip.db"))), file_of(sa.make_url("sqlite://"))
    ('trip.db', None)
    >>> str(file_of(sa.make_url("sqlite:///file:trip.db?uri=true"))), str(file_of(sa.make_url("sqlite:///file:trip.db")))
    ('trip.db', 'file:trip.db')
    """
    named = url.database or ""
    if _is_uri(url):
        if url.query.get("mode") == "memory":
            return None
        named = unquote(urlsplit(named).path)
    return None if named in ("", ":memory:") else Path(named)


def _is_uri(url: sa.URL) -> bool:
    """Whether SQLite is given a URI of its own, which begins with `file:`, and not a file's name."""
    _, options = url.get_dialect()().create_connect_args(url)
    return bool(options.get("uri")) and (url.database or "").startswith("file:")


def reading_engine(url: sa.URL) -> sa.Engine:
    """Return an engine that reads an existing file, also where nobody may write.

    Raises:
        LedgerError: there is no such file, or it may not be read.
    """
    path = check_file(url)
    if not os.access(path, os.R_OK):
        raise LedgerError(
            f"the ledger {path} may not be read by this user: change its permissions, or name another file",
            url=f"sqlite:///{path}",
        )
    engine = sa.create_engine("sqlite://", creator=partial(_connect_to_read, path), poolclass=sa.NullPool)
    _begin_with(engine, "BEGIN")
    return engine


def check_file(url: sa.URL) -> Path:
    """Return the path of an existing file.

    Raises:
        LedgerError: there is none.
    """
    path = file_of(url) or Path(url.database or "")
    if not path.is_file():
        raise LedgerError(
            f"there is no ledger at {shown(str(path))}: name its file or URL, or set $SETTLEMARK_URL",
            url=f"sqlite:///{shown(str(path))}",
        )
    return path


def _begin_with(engine: sa.Engine, statement: str) -> None:
    # pysqlite's own transaction handling begins neither on SELECT nor on DDL: replace it.
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        driver: Any = connection.connection.driver_connection
        patiently(lambda: driver.execute(statement))


def _connect_to_read(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=0)
    try:
        patiently(lambda: connection.execute("SELECT count(*) FROM sqlite_master"))
    except sqlite3.Error as error:
        connection.close()
        if error.sqlite_errorcode & BASE_CODE not in _NO_ROOM:
            raise
        log = path.with_name(f"{path.name}-wal")
        if log.is_file() and log.stat().st_size:
            raise LedgerError(
                f"the ledger {path} was not closed, and {log.name} beside it cannot be read in a folder that cannot"
                " be written: copy both files to one that can, and name the copy",
                url=f"sqlite:///{path}",
            ) from error
    else:
        return connection
    # SQLite could not create its files beside this one. Nobody has it open, or they would exist: none are needed.
    return sqlite3.connect(f"{uri}&immutable=1", uri=True)


__all__ = [
    "BESIDE",
    "LedgerFile",
    "check_file",
    "file_of",
    "opened_file",
    "reading_engine",
    "writing_engine",
]
