"""A shop in a SQLite file and in PostgreSQL, and settlements that do not pause."""

from __future__ import annotations

import pytest
from tests.adapters.sql.shop import NAMES, Shop

from settlemark import Retries, Settlement
from settlemark_adapters.sql import Sql

QUICK = Retries(first=0, most=0)


@pytest.fixture(scope="module")
def postgres_shop(postgres):
    """A database takes a while to make: one for a module, emptied for each test."""
    url = postgres.create_database()
    yield Shop(url).build()
    postgres.drop_database(url)


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path):
    if request.param == "postgres":
        shop = request.getfixturevalue("postgres_shop")
        shop.empty()
        return shop
    return Shop(f"sqlite:///{tmp_path / 'shop.db'}").build()


@pytest.fixture
def file_shop(tmp_path):
    """For what does not depend on the database."""
    return Shop(f"sqlite:///{tmp_path / 'shop.db'}").build()


@pytest.fixture
def settlement():
    with Settlement("memory:", retries=QUICK) as opened:
        yield opened


@pytest.fixture
def open_sql(request):
    """Open adapters of a shop, and give back their connections at the end."""
    opened = []

    def open_(shop, settlement=None, **options):
        sql = Sql(shop.url, settlement, **{"tables": NAMES, **options})
        opened.append(sql)
        return sql

    yield open_
    for sql in opened:
        sql.database.close()


@pytest.fixture
def sql(shop, settlement, open_sql):
    return open_sql(shop, settlement)
