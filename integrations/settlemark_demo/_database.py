"""A real SQLite file that an agent sets up in five steps, with its own append-only log inside."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

_BUSY_SECONDS = 10.0
_WORDS = ("anchor", "beacon", "compass", "drift", "ebb")
_SETUP = """
CREATE TABLE log (n INTEGER PRIMARY KEY, at REAL NOT NULL, step TEXT NOT NULL, event TEXT NOT NULL, detail TEXT);
CREATE TABLE traffic (live INTEGER NOT NULL);
"""


class Database:
    """A database server's file: its `log` table has what was done to it, in order.

    Every step but the last needs the one before: SQLite itself refuses it otherwise. Switching live traffic on needs
    nothing, like a real switch, and so can come too early.

    Raises (from the steps): sqlite3.Error: the step was refused and changed nothing but the log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(_SETUP)

    def create(self) -> str:
        """Make the application's database."""
        return self._step("create_database", _create)

    def migrate(self) -> str:
        """Bring its schema to version 1."""
        return self._step("run_migrations", _migrate)

    def seed(self) -> str:
        """Fill in the reference data."""
        return self._step("seed_reference_data", _seed)

    def index(self) -> str:
        """Build the search index from the data."""
        return self._step("build_search_index", _index)

    def go_live(self) -> str:
        """Let users in, whatever they find."""
        return self._step("enable_live_traffic", _go_live)

    def revert(self, step: str, *statements: str) -> None:
        """Take a step back, and log it."""

        def act(connection: sqlite3.Connection) -> str:
            for statement in statements:
                connection.execute(statement)
            return "reverted"

        self._step(step, act, event="reverted")

    def log(self) -> list[dict[str, Any]]:
        """Return what happened, oldest first: `at`, `step`, `event` (done, refused, reverted), `detail`."""
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as connection:
            rows = connection.execute("SELECT at, step, event, detail FROM log ORDER BY n").fetchall()
        return [dict(zip(("at", "step", "event", "detail"), row, strict=True)) for row in rows]

    def _step(self, step: str, act: Callable[[sqlite3.Connection], str], *, event: str = "done") -> str:
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                detail = act(connection)
            except sqlite3.Error as error:
                connection.execute("ROLLBACK")
                _note(connection, step, "refused", str(error))
                raise
            _note(connection, step, event, detail)
            connection.execute("COMMIT")
        return detail


def _note(connection: sqlite3.Connection, step: str, event: str, detail: str) -> None:
    row = (time.time(), step, event, detail)
    connection.execute("INSERT INTO log (at, step, event, detail) VALUES (?, ?, ?, ?)", row)


def _create(connection: sqlite3.Connection) -> str:
    connection.execute("CREATE TABLE meta (version INTEGER NOT NULL)")
    connection.execute("INSERT INTO meta VALUES (0)")
    return "empty"


def _migrate(connection: sqlite3.Connection) -> str:
    connection.execute("UPDATE meta SET version = 1")
    connection.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    return "schema version 1"


def _seed(connection: sqlite3.Connection) -> str:
    connection.executemany("INSERT INTO products (name) VALUES (?)", [(word,) for word in _WORDS])
    return f"{len(_WORDS)} products"


def _index(connection: sqlite3.Connection) -> str:
    connection.execute("CREATE TABLE search AS SELECT lower(name) AS word, id FROM products")
    (rows,) = connection.execute("SELECT count(*) FROM search").fetchone()
    if not rows:
        raise sqlite3.OperationalError("there are no products to index")
    return f"{rows} words"


def _go_live(connection: sqlite3.Connection) -> str:
    connection.execute("INSERT INTO traffic VALUES (1)")
    (indexed,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'search'").fetchone()
    return "live, with a search index" if indexed else "live, without a search index"
