"""The durable record under a settlement: one contract, several stores."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from settlemark.ledger._contract import (
    Book,
    EffectRow,
    Fence,
    Ledger,
    OutcomeChange,
    RecordedEffect,
    RecordedTransaction,
    StateChange,
    TransactionRow,
    Waited,
)
from settlemark.ledger._lease import QUARANTINE_SECONDS
from settlemark.ledger._memory.ledger import MemoryLedger
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._payloads.redaction import Redaction

if TYPE_CHECKING:
    from settlemark.ledger._payloads.encryption import Encryption


def open_ledger(
    url: str,
    *,
    namespace: str = "default",
    retain: int = 10_000,
    readonly: bool = False,
    create: bool = True,
    lease: float = 30.0,
    wait: float = 30.0,
    redaction: Redaction | None = None,
    encryption: Encryption | None = None,
    quarantine: float = QUARANTINE_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
    store_clock: Callable[[], float] | None = None,
) -> Ledger:
    """Return the ledger at a URL: `memory:`, or a store SQLAlchemy supports, loaded on demand.

    With `readonly`, an existing ledger is opened for reading: nothing is created or changed. Without `create`, the
    ledger must exist. In memory nothing is encrypted, since nothing of it stays.

    Raises:
        LedgerError: it cannot be opened; the message says what to do.

    >>> open_ledger("memory:").url
    'memory:'
    """
    if url == "memory:":
        return MemoryLedger(retain=retain, redaction=redaction, clock=store_clock or time.time)
    from settlemark.ledger._replica.store import SqlLedger

    return SqlLedger(
        url,
        namespace=namespace,
        readonly=readonly,
        create=create,
        lease=lease,
        wait=wait,
        redaction=redaction,
        encryption=encryption,
        quarantine=quarantine,
        monotonic=monotonic,
        store_clock=store_clock,
    )


__all__ = [
    "Book",
    "EffectRow",
    "Fence",
    "Ledger",
    "MemoryLedger",
    "OutcomeChange",
    "Packer",
    "RecordedEffect",
    "RecordedTransaction",
    "StateChange",
    "TransactionRow",
    "Waited",
    "open_ledger",
]
