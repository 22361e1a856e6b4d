"""The supported stores: those that the tests run on, and none that only look like one of them.

A ledger's promises depend on how its store locks and what a commit waits for. An untested store is refused before a
table is created, rather than found out by a lost effect.
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from settlemark._edges.errors import LedgerError
from settlemark._edges.text import Most, wrong_with
from settlemark.ledger._sql.options import check_name, check_options
from settlemark.ledger._urls import shown, withhold

_DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg"}
_ALIASES = {"postgres": "postgresql", "sqlite3": "sqlite"}
_ALIKE = re.compile(r"-YB-|CockroachDB|Redshift|Greenplum|Materialize|RisingWave|QuestDB|DuckDB", re.IGNORECASE)
_LONGEST = Most(8_192, 16_384)
_FORMS = "memory:, sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"


def supported(url: str) -> sa.URL:
    """Return a URL's parts, with the store's driver.

    Raises:
        LedgerError: it is no URL, or names an untested store or driver.

    >>> supported("postgresql://ada@localhost/agents").drivername
    'postgresql+psycopg'
    """
    if (wrong := wrong_with(url, _LONGEST)) is not None:
        raise LedgerError(f"the URL of a ledger {wrong}; use {_FORMS}")
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError) as error:
        raise _malformed(url, error) from error
    store, _, driver = parsed.drivername.partition("+")
    known = _DRIVERS.get(store)
    if known is None:
        meant = _ALIASES.get(store.lower(), store.lower())
        if meant in _DRIVERS:
            raise LedgerError(
                f"{shown(url)!r} begins with {store}, which names no store: write {meant}:// in its place, and nothing"
                " else need change",
                url=shown(url),
            )
        raise LedgerError(
            f"{shown(url)!r} names {store}, on which a ledger's promises were never tested, so no ledger is made"
            f" there: use {_FORMS}",
            url=shown(url),
        )
    if driver not in ("", known):
        raise LedgerError(
            f"{shown(url)!r} names the driver {driver}; a ledger uses only {known} for {store}: write"
            f" {store}+{known}:// in its place, and nothing else need change",
            url=shown(url),
        )
    found = parsed.set(drivername=f"{store}+{known}")
    check_options(found, url)
    try:
        given, options = found.get_dialect()().create_connect_args(found)
    except (ArgumentError, ValueError) as error:  # a part of the query is no number, say, where one has to be
        raise _malformed(url, error) from error
    if options.get("uri") and "?" in given[0] and not given[0].startswith("file:"):
        raise LedgerError(
            f"{shown(url)!r} has uri=true, and its file does not begin with file:, so SQLite would take the query for a"
            " part of the file's name: write sqlite:///file:FILE?…&uri=true",
            url=shown(url),
        )
    check_name(found, url, is_uri=bool(options.get("uri")))
    return found


def _malformed(url: str, error: Exception) -> LedgerError:
    withhold(url, error)
    return LedgerError(f"{shown(url)!r} is no ledger: use {_FORMS}", url=shown(url))


def refuse_alike(connection: sa.Connection, url: str) -> None:
    """Check that a server which speaks PostgreSQL's protocol is PostgreSQL, and that its database keeps every text.

    Raises:
        LedgerError: it is another, whose locks and isolation were never tested, or the database has an encoding in
            which not every text can be written; nothing was created there.
    """
    if connection.dialect.name == "postgresql":
        asked = "SELECT pg_catalog.version(), pg_catalog.current_setting('server_encoding')"
        version, encoding = connection.execute(sa.text(asked)).one()
        refuse_version(str(version), url)
        if encoding != "UTF8":
            raise LedgerError(
                f"the database at {shown(url)} has the encoding {encoding}, in which not every text can be written:"
                " name one that was made with CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'",
                url=shown(url),
            )


def refuse_version(version: str, url: str) -> None:
    """Check a server's own description; see `refuse_alike`."""
    found = _ALIKE.search(version)
    if found is not None or not version.startswith(("PostgreSQL", "EnterpriseDB")):
        told = version.split(" on ", maxsplit=1)[0]
        raise LedgerError(
            f"the server at {shown(url)} says that it is {told!r}: its locks and isolation are not PostgreSQL's, and"
            " a ledger's promises were never tested on it; name a PostgreSQL server",
            url=shown(url),
        )


__all__ = ["refuse_alike", "refuse_version", "supported"]
