"""An outbox in a SQLite file and in PostgreSQL."""

from __future__ import annotations

import pytest
from tests.adapters.queue.depot import Depot

from settlemark import Retries, Settlement
from settlemark.testing import VirtualClock
from settlemark_adapters.queue import Inbox, Outbox


@pytest.fixture(scope="module")
def postgres_depot(postgres):
    url = postgres.create_database()
    yield Depot(url)
    postgres.drop_database(url)


@pytest.fixture(params=["sqlite", "postgres"])
def depot(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_depot").empty()
    return Depot(f"sqlite:///{tmp_path / 'depot.db'}").open_books()


@pytest.fixture
def settlement():
    with Settlement("memory:", retries=Retries(first=0, most=0)) as opened:
        yield opened


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def opened():
    """Gives back the connections of what a test opens, at its end."""
    found = []
    yield lambda made: found.append(made) or made
    for each in found:
        each.database.close()


@pytest.fixture
def outbox(depot, settlement, clock, opened):
    return opened(Outbox(depot.url, settlement, clock=clock))


@pytest.fixture
def inbox(depot, opened):
    return opened(Inbox(depot.url))
