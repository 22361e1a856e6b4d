"""What the conformance kit is told of the SQL adapter: a shop in a SQLite file, and one in PostgreSQL behind a wire."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from pathlib import Path

from tests.adapters.sql.shop import NAMES, Shop
from tests.adapters.sql.wire import Wire
from tests.servers import VARIABLE, Postgres, PostgresServer

from settlemark_adapters.sql import Sql, Statement
from settlemark_adapters.testing import Example, Subject

STATEMENTS = [
    Statement(
        "close_books",
        "UPDATE period SET closed = 1 WHERE id = :period AND closed = 0",
        scope="period:/{period}",
        undo="UPDATE period SET closed = 0 WHERE id = :period AND closed = 1",
    ),
    Statement("restock", "UPDATE item SET stock = stock + :more WHERE id = 1", scope="row:/shop/item/1"),
    Statement("cheap_items", "SELECT id FROM item WHERE price < :most", scope="row:/shop/item", kind="read"),
]
LAMP = "INSERT INTO item VALUES (1, 'lamp', 9.50, 3) ON CONFLICT DO NOTHING"


class Place:
    """A shop, and the wire that leads there, if any."""

    def __init__(self, shop, wire=None):
        self.shop, self.wire = shop, wire
        self.url = shop.url if wire is None else wire.url


def make(settlement, place):
    return Sql(place.url, settlement, tables=NAMES, statements=STATEMENTS)


def make_staged(settlement, place):
    return Sql(place.url, settlement, tables=NAMES, statements=STATEMENTS, staged=True)


def _prepared(place):
    sql = make(None, place)
    sql.probe_change()  # the side table is there
    sql.database.close()
    return place


@contextlib.contextmanager
def sqlite_world():
    with tempfile.TemporaryDirectory(prefix="settlemark-sql-") as folder:
        yield _prepared(Place(Shop(f"sqlite:///{Path(folder) / 'shop.db'}").build()))


@functools.cache
def server():
    """The PostgreSQL of this process; its guard ends it with the process."""
    if url := os.environ.get(VARIABLE):
        return Postgres(url)
    return PostgresServer().__enter__()


@contextlib.contextmanager
def postgres_world():
    url = server().create_database()
    wire = Wire(url)
    try:
        yield _prepared(Place(Shop(url).build(), wire))
    finally:
        wire.close()
        server().drop_database(url)


def filled(*statements):
    return lambda place: place.shop.run(*statements)


def meddle(place, example):
    if example.tool == "delete_row":
        place.shop.run("INSERT INTO item VALUES (1, 'theirs', NULL, 40)")
    elif "table" in example.arguments:
        place.shop.run("UPDATE item SET name = 'theirs', stock = 40", "UPDATE seat SET guest = 'theirs'")
    else:
        place.shop.run("UPDATE period SET closed = 2", "UPDATE item SET stock = 40")


def resources(place):
    name = place.url.rpartition("/")[2].partition("?")[0].removesuffix(".db")
    found = {f"row:/{name}/item/{row[0]}": str(row) for row in place.shop.rows("item")}
    found |= {f"row:/{name}/seat/{row[0]}/{row[1]}": str(row) for row in place.shop.rows("seat")}
    return found | {f"period:/{row[0]}": str(row) for row in place.shop.rows("period")}


ROWS = [
    Example("read_row", {"table": "item", "key": 1}, filled(LAMP)),
    Example("insert_row", {"table": "item", "key": 1, "values": {"name": "lamp", "price": "9.5"}}),
    Example("update_row", {"table": "item", "key": 1, "values": {"stock": 2}}, filled(LAMP)),
    Example("delete_row", {"table": "item", "key": 1}, filled(LAMP)),
    Example("upsert_row", {"table": "item", "key": 1, "values": {"name": "lantern"}}, filled(LAMP)),
    Example("upsert_row", {"table": "seat", "key": {"room": "hall", "number": 1}, "values": {"guest": "Ada"}}),
]
CALLS = [
    *ROWS,
    Example("query", {"statement": "cheap_items", "parameters": {"most": 10}}, filled(LAMP)),
    Example("close_books", {"period": 7}, filled("INSERT INTO period VALUES (7, 0) ON CONFLICT DO NOTHING")),
    Example("restock", {"more": 4}, filled(LAMP)),
]


def _subject(make, world, examples, lose=None):
    return Subject(
        make=make,
        world=world,
        look=lambda place: place.shop.everything(),
        examples=examples,
        lose=lose,
        meddle=meddle,
        resources=resources,
    )


SUBJECTS = {
    "sql-sqlite": _subject(make, sqlite_world, CALLS),
    "sql-staged": _subject(make_staged, sqlite_world, CALLS),
    "sql-postgres": _subject(make, postgres_world, CALLS, lambda place: place.wire.lose()),
}
