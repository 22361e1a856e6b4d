"""The record in memory."""

from __future__ import annotations

from settlemark.ledger._memory import book, ledger

__all__ = ["book", "ledger"]
