"""Connections: one wire to each kind of store."""

from __future__ import annotations

from settlemark.ledger._sql import wire
from settlemark.ledger._sql.sqlite import writing_engine
from settlemark.ledger._sql.supported import supported
from settlemark.ledger._sql.wire import PostgresWire, SqliteWire, Statement, Wire, saying, watchers, wire_to

__all__ = [
    "PostgresWire",
    "SqliteWire",
    "Statement",
    "Wire",
    "saying",
    "supported",
    "watchers",
    "wire",
    "wire_to",
    "writing_engine",
]
