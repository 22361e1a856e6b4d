"""A shop's database, as the shop itself looks at it: past the adapter, on a connection of its own."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager

import pytest
from sqlalchemy import make_url

TABLES = (
    "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(10, 2), stock INTEGER DEFAULT 1)",
    "CREATE TABLE seat (room VARCHAR(20), number INTEGER, guest TEXT, PRIMARY KEY (room, number))",
    "CREATE TABLE entry (id INTEGER PRIMARY KEY, memo TEXT, period INTEGER)",
    (
        "CREATE TABLE line (entry INTEGER, number INTEGER, account TEXT, debit INTEGER DEFAULT 0,"
        " credit INTEGER DEFAULT 0, PRIMARY KEY (entry, number))"
    ),
    "CREATE TABLE period (id INTEGER PRIMARY KEY, closed INTEGER DEFAULT 0)",
    "CREATE TABLE parent (id INTEGER PRIMARY KEY, code INTEGER UNIQUE)",
    (
        "CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES Parent (ID) ON DELETE CASCADE,"
        " code INTEGER REFERENCES parent (code) ON UPDATE CASCADE)"
    ),
    "CREATE TABLE nameless (word TEXT)",
)
NAMES = ("item", "seat", "entry", "line", "period", "parent", "child")


on_file = pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
"""For what does not depend on the database."""


class Shop:
    """Fill it with `run`, look at it with `rows`."""

    def __init__(self, url):
        self.url = url

    def build(self):
        self.run(*TABLES)
        return self

    def empty(self):
        deleted = "".join(f"DELETE FROM {name}; " for name in ("child", *NAMES))
        self.run(
            f"DO $$ BEGIN {deleted} IF to_regclass('settlemark_effects') IS NOT NULL"
            " THEN DELETE FROM settlemark_effects; END IF; END $$"
        )

    @property
    def is_sqlite(self):
        return self.url.startswith("sqlite")

    @contextmanager
    def connection(self):
        if self.is_sqlite:
            connection = sqlite3.connect(make_url(self.url).database, timeout=30)
            connection.isolation_level = None
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("BEGIN")
        else:
            import psycopg

            connection = psycopg.connect(make_url(self.url).set(drivername="postgresql").render_as_string(False))
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    def run(self, *statements):
        with self.connection() as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, table, order="1, 2"):
        with self.connection() as connection:
            return connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()

    def everything(self):
        return {table: [tuple(map(str, row)) for row in self.rows(table, "1")] for table in NAMES}

    def effects(self):
        """The side table: (tool, undone) in the order of the keys."""
        with self.connection() as connection:
            found = connection.execute("SELECT tool, undone FROM settlemark_effects ORDER BY key").fetchall()
        return [(tool, bool(undone)) for tool, undone in found]
