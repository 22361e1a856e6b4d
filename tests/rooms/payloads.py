"""Payloads: what was redacted, sealed, pruned, or cannot be read."""

from __future__ import annotations

from settlemark.ledger._payloads import payloads, unreadable
from settlemark.ledger._payloads.encryption import DISCARDED
from settlemark.ledger._payloads.payloads import LIMIT, PRUNED, PRUNED_WHY, Packed
from settlemark.ledger._payloads.redaction import Redaction
from settlemark.ledger._payloads.unreadable import Damaged, Outdated, Sealed, Unreadable

__all__ = [
    "DISCARDED",
    "LIMIT",
    "PRUNED",
    "PRUNED_WHY",
    "Damaged",
    "Outdated",
    "Packed",
    "Redaction",
    "Sealed",
    "Unreadable",
    "payloads",
    "unreadable",
]
