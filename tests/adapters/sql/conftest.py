"""A shop in a SQLite file and in PostgreSQL, and settlements that do not pause."""

from __future__ import annotations

import shutil

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


@pytest.fixture(scope="session")
def new_file(tmp_path_factory):
    """A shop that is built takes a while too: one for all, copied for each test."""
    folder = tmp_path_factory.mktemp("shop")
    Shop(f"sqlite:///{folder / 'shop.db'}").build()

    def copied(tmp_path):
        return Shop(f"sqlite:///{shutil.copy(folder / 'shop.db', tmp_path)}")

    return copied


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request, tmp_path, new_file):
    if request.param == "postgres":
        shop = request.getfixturevalue("postgres_shop")
        shop.empty()
        return shop
    return new_file(tmp_path)


@pytest.fixture
def file_shop(tmp_path, new_file):
    """For what does not depend on the database."""
    return new_file(tmp_path)


@pytest.fixture
def settlement():
    with Settlement("memory:", retries=QUICK) as opened:
        yield opened


@pytest.fixture(scope="module")
def looked_at():
    """To look at the tables of PostgreSQL takes a while as well: what was found, by the database."""
    return {}


@pytest.fixture
def open_sql(looked_at):
    """Open adapters of a shop, and give back their connections at the end."""
    opened = []

    def open_(shop, settlement=None, **options):
        sql = Sql(shop.url, settlement, **{"tables": NAMES, **options})
        if not shop.is_sqlite:
            sql.rows._tables = looked_at.setdefault(shop.url, {})
        opened.append(sql)
        return sql

    yield open_
    for sql in opened:
        sql.database.close()


@pytest.fixture
def sql(shop, settlement, open_sql):
    return open_sql(shop, settlement)
