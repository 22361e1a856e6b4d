"""The schema of a store: created if missing, refused if older or newer."""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from settlemark._edges.errors import LedgerError
from settlemark._model.identity import new_ledger_id
from settlemark.ledger._contract import SCHEMA_VERSION
from settlemark.ledger._record import tables as t
from settlemark.ledger._urls import shown

REVISION = "0001"
"""The migration that leads to these tables; a fresh store begins there."""

# Table, index, how many rows, and how many of them have one value in the first column, the first two, and so on.
_STATISTICS = (
    ("settlemark_effect", "settlemark_effect", "1000000 1000000 1"),
    ("settlemark_effect", "settlemark_effect_transaction", "1000000 1000000 4 4"),
    ("settlemark_effect", "settlemark_effect_tag", "10000 10000 3000"),
    ("settlemark_transaction", "sqlite_autoindex_settlemark_transaction_1", "500000 500000 2 1"),
    ("settlemark_transaction", "settlemark_transaction_age", "500000 500000 100000 2"),
    ("settlemark_transaction", "settlemark_transaction_run", "500000 500000 5 4 1 1 1"),
    ("settlemark_transaction", "settlemark_transaction_state", "500000 500000 100000 1 1 1"),
    ("settlemark_effect", "settlemark_effect_left", "100 100 1 1"),
    ("settlemark_effect", "settlemark_effect_dealt", "100 100 1 1"),
    ("settlemark_effect", "settlemark_effect_run_left", "100 100 10 1 1"),
    ("settlemark_effect", "settlemark_effect_run_dealt", "100 100 10 1 1"),
    ("settlemark_entry", "settlemark_entry", "100000 100000 4 1"),
    ("settlemark_entry", "settlemark_entry_version", "100000 100000 20000 2 1"),
    ("settlemark_entry", "settlemark_entry_state", "100000 100000 20000 1000 2"),
    ("settlemark_entry", "settlemark_entry_key", "100000 100000 2"),
    ("settlemark_entry", "settlemark_entry_age", "100000 100000 2"),
    ("settlemark_chain", "settlemark_chain", "25000 25000 1"),
    ("settlemark_chain", "settlemark_chain_age", "25000 25000 2"),
    ("settlemark_blob", "sqlite_autoindex_settlemark_blob_1", "10000 10000 1"),
    ("settlemark_blob_use", "sqlite_autoindex_settlemark_blob_use_1", "10000 10000 2 2 1"),
    ("settlemark_blob_use", "settlemark_blob_use_digest", "10000 10000 2"),
)


def prepare(
    connection: sa.Connection, url: str, *, namespace: str, readonly: bool = False, create: bool = True
) -> dict[str, str]:
    """Create the tables if missing, check that they are ours, and return the store's own description.

    An existing store is read and not written to.

    Raises:
        LedgerError: it is no ledger, or one of another schema; the message names the command to run.
    """
    found = described(connection)
    if not found and create and not readonly:
        lock(connection)
        found = described(connection) or _made(connection)
    check(found, url)
    if not readonly:
        _begin(connection, namespace)
    return found


def described(connection: sa.Connection) -> dict[str, str]:
    """Return a store's own description; empty if it is no ledger."""
    if not sa.inspect(connection).has_table(t.meta.name):
        return {}
    rows = connection.execute(sa.select(t.meta.c.key, t.meta.c.value))
    return {row[0]: row[1] for row in rows}


def check(found: dict[str, str], url: str) -> None:
    """Check that a store with this description has our tables.

    Raises:
        LedgerError: it has not.
    """
    version = version_of(found, url)
    if version < SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger {shown(url)} has schema version {version}, of before the first release; this settlemark needs"
            f" {SCHEMA_VERSION}, and has changed nothing: end what is unfinished with the settlemark that wrote it,"
            f" print its record with that (`settlemark export {shown(url)}`), move it away, and begin a new ledger",
            url=shown(url),
        )
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger {shown(url)} has schema version {version}, this settlemark knows {SCHEMA_VERSION}: install a"
            " newer settlemark",
            url=shown(url),
        )


def version_of(found: dict[str, str], url: str) -> int:
    """Return the version in a store's description.

    Raises:
        LedgerError: it is no ledger.
    """
    version = found.get("schema", "")
    if not version.isdigit():
        raise LedgerError(f"{shown(url)} is a database, but no ledger of settlemark: name another one", url=shown(url))
    return int(version)


def lock(connection: sa.Connection) -> None:
    """Keep others from creating or changing the tables until the transaction ends."""
    if connection.dialect.name == "postgresql":
        # Two that create the same table at once meet an error; SQLite's write lock is held already.
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('settlemark'))"))


def _made(connection: sa.Connection) -> dict[str, str]:
    t.metadata.create_all(connection)
    found = {"schema": str(SCHEMA_VERSION), "salt": secrets.token_hex(32), "ledger": new_ledger_id()}
    connection.execute(sa.insert(t.meta), [{"key": key, "value": value} for key, value in found.items()])
    connection.execute(sa.insert(t.migrations), {"version_num": REVISION})
    advise(connection)
    return found


def advise(connection: sa.Connection) -> None:
    """Tell SQLite how large its tables will be: it would guess that a namespace has ten rows, and read them all."""
    if connection.dialect.name != "sqlite":
        return
    connection.exec_driver_sql("ANALYZE")  # creates the table of statistics
    for table in dict.fromkeys(table for table, *_ in _STATISTICS):
        connection.exec_driver_sql("DELETE FROM sqlite_stat1 WHERE tbl = ?", (table,))
    for known in _STATISTICS:
        connection.exec_driver_sql("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", known)
    # Else this connection would not use the statistics until the file is opened again.
    connection.exec_driver_sql("ANALYZE sqlite_schema")


def _begin(connection: sa.Connection, namespace: str) -> None:
    head = sa.select(t.heads.c.n).where(t.heads.c.namespace == namespace)
    if connection.execute(head).scalar() is None:
        connection.execute(
            sa.text("INSERT INTO settlemark_head (namespace, n) VALUES (:namespace, 0) ON CONFLICT DO NOTHING"),
            {"namespace": namespace},
        )


__all__ = ["REVISION", "advise", "check", "described", "lock", "prepare", "version_of"]
