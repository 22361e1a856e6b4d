"""The record: what its contract passes about, leases, workers, limits."""

from __future__ import annotations

from settlemark._model.budget import Ask
from settlemark.ledger import _budgets, _limits, _workers
from settlemark.ledger import _failures as failures
from settlemark.ledger import _links as links
from settlemark.ledger import _notices as notices
from settlemark.ledger._acts import Acts
from settlemark.ledger._age import Age
from settlemark.ledger._approvals import digest_of
from settlemark.ledger._budgets import Bucket, Spend, became, charge, follow, reserve
from settlemark.ledger._contract import SCHEMA_VERSION, Change, Page, Said, Step, T, Waited
from settlemark.ledger._entries import BEGINNING, Chain, Draft, Standing, Which, made
from settlemark.ledger._failures import explain
from settlemark.ledger._lease import QUARANTINE_SECONDS, Lease, Watch, bury
from settlemark.ledger._leased.rows import LeaseRow
from settlemark.ledger._leased.sql import SqlLeases
from settlemark.ledger._limits import LateError, Limit
from settlemark.ledger._memory.leases import MemoryLeases
from settlemark.ledger._memory.purse import MemoryPurse
from settlemark.ledger._owed import (
    Lapse,
    OwedChange,
    OwedPage,
    OwedRow,
    OwedState,
    RecordedOwed,
    Told,
    is_on,
    lapse_id,
    stands,
)
from settlemark.ledger._storable import storable
from settlemark.ledger._urls import withhold, without_secrets
from settlemark.ledger._workers import is_gone, process, worker_name

__all__ = [
    "BEGINNING",
    "QUARANTINE_SECONDS",
    "SCHEMA_VERSION",
    "Acts",
    "Age",
    "Ask",
    "Bucket",
    "Chain",
    "Change",
    "Draft",
    "Lapse",
    "LateError",
    "Lease",
    "LeaseRow",
    "Limit",
    "MemoryLeases",
    "MemoryPurse",
    "OwedChange",
    "OwedPage",
    "OwedRow",
    "OwedState",
    "Page",
    "RecordedOwed",
    "Said",
    "Spend",
    "SqlLeases",
    "Standing",
    "Step",
    "T",
    "Told",
    "Waited",
    "Watch",
    "Which",
    "_budgets",
    "_limits",
    "_workers",
    "became",
    "bury",
    "charge",
    "digest_of",
    "explain",
    "failures",
    "follow",
    "is_gone",
    "is_on",
    "lapse_id",
    "links",
    "made",
    "notices",
    "process",
    "reserve",
    "stands",
    "storable",
    "withhold",
    "without_secrets",
    "worker_name",
]
