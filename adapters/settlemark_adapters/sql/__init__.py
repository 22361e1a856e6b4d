"""Rows and statements of a SQLite or PostgreSQL database, undone from a snapshot while nobody else changed them.

A call's change, and the row before and after it, are written in one database transaction under the call's key, into a
side table `settlemark_effects`. So whether it happened is looked up and never guessed, a repeat under its key returns
the first result, and an undo in any process compares the row with the recorded one before it restores it. Sources:
Atomix table 4 (snapshot undo of rows), orchestrator.txt section VI (verify, then compensate).
"""

from __future__ import annotations

from settlemark_adapters._database import DatabaseRefused, DatabaseUnavailable, OutcomeLost
from settlemark_adapters.sql._adapter import Sql
from settlemark_adapters.sql._effects import KeyReused
from settlemark_adapters.sql._rows import RowChanged
from settlemark_adapters.sql._statements import Invariant, Statement

__all__ = [
    "DatabaseRefused",
    "DatabaseUnavailable",
    "Invariant",
    "KeyReused",
    "OutcomeLost",
    "RowChanged",
    "Sql",
    "Statement",
]
