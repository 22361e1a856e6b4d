"""The shared log: images, the journal, and the ledger on it."""

from __future__ import annotations

from settlemark.ledger._replica import replica, store
from settlemark.ledger._replica.image import Own, image, load
from settlemark.ledger._replica.journal import read, replay, written
from settlemark.ledger._replica.looking import Look, effects, looking
from settlemark.ledger._replica.replica import EPOCHS, UNREADABLE, Shared
from settlemark.ledger._replica.store import SqlLedger, engine_to

__all__ = [
    "EPOCHS",
    "UNREADABLE",
    "Look",
    "Own",
    "Shared",
    "SqlLedger",
    "effects",
    "engine_to",
    "image",
    "load",
    "looking",
    "read",
    "replay",
    "replica",
    "store",
    "written",
]
