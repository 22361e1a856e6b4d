"""Rows and tables, and how an old schema becomes a new one."""

from __future__ import annotations

from settlemark.ledger._record import blobs, book, entries, migrating, pages, statements, sweeping, tables
from settlemark.ledger._record.blobs import Blobs
from settlemark.ledger._record.book import SqlBook
from settlemark.ledger._record.migrating import migrate
from settlemark.ledger._record.pages import oldest
from settlemark.ledger._record.rows import transaction_in
from settlemark.ledger._record.schema import REVISION, prepare
from settlemark.ledger._record.statements import IN_ORDER
from settlemark.ledger._record.tables import metadata

__all__ = [
    "IN_ORDER",
    "REVISION",
    "Blobs",
    "SqlBook",
    "blobs",
    "book",
    "entries",
    "metadata",
    "migrate",
    "migrating",
    "oldest",
    "pages",
    "prepare",
    "statements",
    "sweeping",
    "tables",
    "transaction_in",
]
