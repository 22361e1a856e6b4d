"""How a SQLite file is opened under a ledger: by its one writer, or by somebody who only looks."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy import event

from settlemark._errors import LedgerError
from settlemark._private import make_private
from settlemark.ledger._failures import shown

BUSY_SECONDS = 30
BESIDE = ("-wal", "-shm", "-journal")
"""What the names of the files end in that SQLite puts beside one."""
BASE_CODE = 0xFF  # SQLite's extended error codes have the plain one in their last byte
_NO_ROOM = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def writing_engine(url: sa.URL) -> sa.Engine:
    """Return an engine that creates the file when it is missing, in WAL mode with full sync.

    Nobody but its owner may read a file that is made here, nor what SQLite puts beside it: that has the file's mode.

    Raises:
        OSError: it cannot be made.
    """
    path = file_of(url)
    if path is not None:
        make_private(path)
    # One thread at a time leads.
    engine = sa.create_engine(url, connect_args={"check_same_thread": False}, hide_parameters=True)
    _begin_with(engine, "BEGIN IMMEDIATE")

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    return engine


def file_of(url: sa.URL) -> Path | None:
    """Return the file that a URL of SQLite names; None for a database in memory.

    >>> str(file_of(sa.make_url("sqlite:///trip.db"))), file_of(sa.make_url("sqlite://"))
    ('trip.db', None)
    """
    named = url.database or ""
    if named.startswith("file:") and url.query.get("uri"):
        if "memory" in url.query.get("mode", ""):
            return None
        named = unquote(urlsplit(named).path)
    return None if named in ("", ":memory:") else Path(named)


def reading_engine(url: sa.URL) -> sa.Engine:
    """Return an engine that reads a file which is there already, also where nobody may write.

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
    """Return the path of a file that is there.

    Raises:
        LedgerError: there is none.
    """
    path = Path(url.database or "")
    if not path.is_file():
        raise LedgerError(
            f"there is no ledger at {shown(str(path))}: name its file or URL, or set $SETTLEMARK_URL",
            url=f"sqlite:///{shown(str(path))}",
        )
    return path


def _begin_with(engine: sa.Engine, statement: str) -> None:
    # pysqlite's own transaction handling begins neither on SELECT nor on DDL: take it over.
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql(statement)


def _connect_to_read(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
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
    # SQLite found no room for its files beside this one. Nobody has it open, or they would be there: it needs none.
    return sqlite3.connect(f"{uri}&immutable=1", uri=True)


__all__ = ["BASE_CODE", "BESIDE", "BUSY_SECONDS", "check_file", "file_of", "reading_engine", "writing_engine"]
