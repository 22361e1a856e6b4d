"""Upgrades a store of an earlier release, in one transaction: all of it or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from settlemark._edges.errors import LedgerError
from settlemark.ledger._contract import SCHEMA_VERSION
from settlemark.ledger._failures import explain
from settlemark.ledger._limits import within
from settlemark.ledger._record.schema import advise, check, described, lock, version_of
from settlemark.ledger._sql.postgres import bound
from settlemark.ledger._sql.sqlite import reading_engine, writing_engine
from settlemark.ledger._sql.supported import supported
from settlemark.ledger._urls import discreet, shown

PATIENCE_SECONDS = 60.0
_FOLDER = Path(__file__).parents[1] / "migrations"


class Migrated(NamedTuple):
    """The versions before and after a migration; with `dry_run` it was only tried."""

    ledger: str
    before: int
    after: int
    dry_run: bool


def migrate(url: str, *, dry_run: bool = False) -> Migrated:
    """Bring a store's tables to this version, and return what was done; nothing, if they are up to date.

    Nobody may use the store meanwhile. With `dry_run` everything is done and rolled back.

    Args:
        url: the store's URL.
        dry_run: change nothing.

    Raises:
        LedgerError: it is no ledger, one from before the first release, or a newer one; nothing was changed.
    """
    try:
        with within(PATIENCE_SECONDS), _closing(_engine(url)) as engine, engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                # A changed table is made anew: foreign keys are broken for a moment.
                connection.connection.driver_connection.execute("PRAGMA foreign_keys=OFF")  # type: ignore[union-attr]
            with connection.begin() as transaction:
                before = _upgrade(connection, url)
                if dry_run:
                    transaction.rollback()
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise explain(url, error) from error
    except LedgerError as error:
        error.data.setdefault("url", shown(url))
        raise
    return Migrated(shown(url), before, SCHEMA_VERSION, dry_run)


@contextmanager
def _closing(engine: sa.Engine) -> Generator[sa.Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def _engine(url: str) -> sa.Engine:
    parsed = supported(url)
    if parsed.get_backend_name() != "sqlite":
        return discreet(bound(sa.create_engine(parsed, hide_parameters=True)))
    # To open a file for writing changes it: its journal is another one then, also where it is no ledger.
    with _closing(reading_engine(parsed)) as engine, engine.connect() as connection:
        check(described(connection), url)
    return writing_engine(parsed)


def _upgrade(connection: sa.Connection, url: str) -> int:
    lock(connection)
    found = described(connection)
    check(found, url)
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    command.upgrade(config, "head")
    advise(connection)
    return version_of(found, url)


__all__ = ["Migrated", "migrate"]
