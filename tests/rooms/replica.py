"""How processes share a store: the shared log, the replica, group commit, and the ledger on them."""

from __future__ import annotations

from settlemark.ledger._replica import replica, store, store_transaction
from settlemark.ledger._replica.batch import Batches
from settlemark.ledger._replica.enrolment import Enrolment
from settlemark.ledger._replica.group_commit import GroupCommit
from settlemark.ledger._replica.image import Own, image, load
from settlemark.ledger._replica.journal import read, replay, written
from settlemark.ledger._replica.looking import Look, Worker, effects, looking
from settlemark.ledger._replica.membership import EPOCHS, Member
from settlemark.ledger._replica.replica import NEVER, UNREADABLE, Replica
from settlemark.ledger._replica.shared_log import SharedLog
from settlemark.ledger._replica.step_queue import QueuedStep, StepQueue
from settlemark.ledger._replica.store import SqlLedger, engine_to
from settlemark.ledger._replica.store_transaction import SpoiltError, StoreTransaction, Taken
from settlemark.ledger._sql.connection import Connection
from settlemark.ledger._sql.other_workers import LOOK_OFTEN_SECONDS, LOOK_SECONDS, Others

__all__ = [
    "EPOCHS",
    "LOOK_OFTEN_SECONDS",
    "LOOK_SECONDS",
    "NEVER",
    "UNREADABLE",
    "Batches",
    "Connection",
    "Enrolment",
    "GroupCommit",
    "Look",
    "Member",
    "Others",
    "Own",
    "QueuedStep",
    "Replica",
    "SharedLog",
    "SpoiltError",
    "SqlLedger",
    "StepQueue",
    "StoreTransaction",
    "Taken",
    "Worker",
    "effects",
    "engine_to",
    "image",
    "load",
    "looking",
    "read",
    "replay",
    "replica",
    "store",
    "store_transaction",
    "written",
]
