"""The record: what its contract passes about, leases, workers, limits."""

from __future__ import annotations

from settlemark.ledger import _failures as failures
from settlemark.ledger import _limits, _workers
from settlemark.ledger._age import Age
from settlemark.ledger._contract import SCHEMA_VERSION, Change, Page, Said, Step, T
from settlemark.ledger._failures import explain
from settlemark.ledger._gate import gated
from settlemark.ledger._lease import QUARANTINE_SECONDS, Watch, bury
from settlemark.ledger._urls import withhold, without_secrets
from settlemark.ledger._workers import process

__all__ = [
    "QUARANTINE_SECONDS",
    "SCHEMA_VERSION",
    "Age",
    "Change",
    "Page",
    "Said",
    "Step",
    "T",
    "Watch",
    "_limits",
    "_workers",
    "bury",
    "explain",
    "failures",
    "gated",
    "process",
    "withhold",
    "without_secrets",
]
