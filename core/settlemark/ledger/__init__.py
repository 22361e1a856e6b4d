"""The durable record under a settlement: one contract, several stores."""

from __future__ import annotations

from settlemark.ledger._contract import (
    EffectRow,
    Fence,
    Ledger,
    OutcomeChange,
    RecordedEffect,
    RecordedTransaction,
    StateChange,
    TransactionRow,
)
from settlemark.ledger._memory import MemoryLedger


def open_ledger(url: str, *, namespace: str = "default", retain: int = 10_000, readonly: bool = False) -> Ledger:
    """Return the ledger at a URL: `memory:`, or any store SQLAlchemy knows, loaded when asked for.

    With `readonly`, one that is there already, to be looked at: nothing is created or changed.

    Raises:
        LedgerError: it cannot be opened; the message says what to do.

    >>> open_ledger("memory:").url
    'memory:'
    """
    if url == "memory:":
        return MemoryLedger(retain=retain)
    from settlemark.ledger._sql import SqlLedger

    return SqlLedger(url, namespace=namespace, readonly=readonly)


__all__ = [
    "EffectRow",
    "Fence",
    "Ledger",
    "MemoryLedger",
    "OutcomeChange",
    "RecordedEffect",
    "RecordedTransaction",
    "StateChange",
    "TransactionRow",
    "open_ledger",
]
