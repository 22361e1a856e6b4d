"""A LangGraph store on disk, as the conformance kit and the scope fuzzer are told of it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from pathlib import Path

from langgraph.store.sqlite import SqliteStore

from settlemark_adapters.store import Store
from settlemark_adapters.testing import Example, Subject, scope_of


def opened(folder):
    """A `SqliteStore` of this process on the folder's file."""
    connection = sqlite3.connect(Path(folder) / "memory.db", check_same_thread=False, isolation_level=None)
    store = SqliteStore(connection)
    store.setup()
    return store


def world():
    @contextlib.contextmanager
    def begun():
        with tempfile.TemporaryDirectory() as folder:
            store = opened(folder)
            store.put(("team",), "plan", {"text": "book the room"})
            store.conn.close()
            yield folder

    return begun()


def resources(folder):
    """What stands in the file by its scope, without anybody's marks."""
    with contextlib.closing(sqlite3.connect(Path(folder) / "memory.db")) as connection:
        rows = connection.execute("SELECT prefix, key, value FROM store ORDER BY prefix, key").fetchall()
    return {
        scope_of("memory", *prefix.split("."), key): {
            field: part for field, part in json.loads(value).items() if field != "$settlemark"
        }
        for prefix, key, value in rows
        if not prefix.startswith("settlemark")
    }


look = resources


def meddle(folder, example):
    """Write past every settlement what the example has just written, deleted, or found there."""
    store = opened(folder)
    store.put((*example.arguments["namespace"].split("/"),), example.arguments["name"], {"text": "burn it down"})
    store.conn.close()


PLAN = {"namespace": "team", "name": "plan"}
SUBJECTS = {
    "store": Subject(
        make=lambda settlement, folder: Store(opened(folder), settlement),
        world=world,
        look=look,
        meddle=meddle,
        resources=resources,
        examples=[
            Example("get_memory", PLAN),
            Example("search_memory", {"namespace": "team"}),
            Example("put_memory", {"namespace": "users/ada", "name": "taste", "value": {"text": "tea", "cups": 2}}),
            Example("append_memory", {**PLAN, "text": "and a projector"}),
            Example("replace_in_memory", {**PLAN, "old": "room", "new": "hall"}),
            Example("delete_memory", PLAN),
        ],
    )
}
