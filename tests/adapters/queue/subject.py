"""What the conformance kit is told of the queue: an outbox in a SQLite file, and one in PostgreSQL behind a wire."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from tests.adapters.queue.depot import Depot
from tests.adapters.sql.subject import server
from tests.adapters.sql.wire import Wire

from settlemark_adapters.queue import Outbox
from settlemark_adapters.testing import Example, Subject, scope_of


class Place:
    """A depot, and the wire that leads there, if any."""

    def __init__(self, depot, wire=None):
        self.depot, self.wire = depot, wire
        self.url = depot.url if wire is None else wire.url


def make(settlement, place):
    return Outbox(place.url, settlement)


def _prepared(place):
    outbox = make(None, place)
    outbox.consume("orders", print)  # its tables are there
    outbox.database.close()
    return place


@contextlib.contextmanager
def sqlite_world():
    with tempfile.TemporaryDirectory(prefix="settlemark-queue-") as folder:
        yield _prepared(Place(Depot(f"sqlite:///{Path(folder) / 'depot.db'}")))


@contextlib.contextmanager
def postgres_world():
    url = server().create_database()
    wire = Wire(url)
    try:
        yield _prepared(Place(Depot(url), wire))
    finally:
        wire.close()
        server().drop_database(url)


def resources(place):
    name = place.url.rpartition("/")[2].partition("?")[0].removesuffix(".db")
    found = {}
    for topic, number, message in place.depot.messages():
        scope = scope_of("queue", name, topic)
        found[scope] = f"{found.get(scope, '')} {number}: {message}"
    return found


EXAMPLES = [
    Example("publish", {"topic": "orders", "message": {"order": 7}}),
    Example("publish", {"topic": "invoices", "message": "paid"}),
]


def _subject(world, lose=None):
    return Subject(
        make=make,
        world=world,
        look=lambda place: place.depot.messages(),
        examples=EXAMPLES,
        lose=lose,
        resources=resources,
    )


SUBJECTS = {
    "queue-sqlite": _subject(sqlite_world),
    "queue-postgres": _subject(postgres_world, lambda place: place.wire.lose()),
}
