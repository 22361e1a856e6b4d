"""The record: what its contract passes about, leases, workers, limits."""

from __future__ import annotations

from settlemark.ledger import _failures as failures
from settlemark.ledger import _limits, _workers
from settlemark.ledger._acts import Acts
from settlemark.ledger._age import Age
from settlemark.ledger._contract import SCHEMA_VERSION, Change, Page, Said, Step, T, Waited
from settlemark.ledger._failures import explain
from settlemark.ledger._lease import QUARANTINE_SECONDS, Lease, Watch, bury
from settlemark.ledger._limits import LateError, Limit
from settlemark.ledger._storable import storable
from settlemark.ledger._urls import withhold, without_secrets
from settlemark.ledger._workers import is_gone, process

__all__ = [
    "QUARANTINE_SECONDS",
    "SCHEMA_VERSION",
    "Acts",
    "Age",
    "Change",
    "LateError",
    "Lease",
    "Limit",
    "Page",
    "Said",
    "Step",
    "T",
    "Waited",
    "Watch",
    "_limits",
    "_workers",
    "bury",
    "explain",
    "failures",
    "is_gone",
    "process",
    "storable",
    "withhold",
    "without_secrets",
]
