"""A settlement layer for the effects of agent tools.

An agent framework decides what to call; settlemark decides when the call's effect may become
permanent, and what happens to it when the step fails, is retried, or races another agent.
"""

from __future__ import annotations

from settlemark._acting import Retries
from settlemark._current import CurrentCall, current_call
from settlemark._effect import UNKNOWN, Declaration, Effect, EffectClass, Outcome, effect, inverse
from settlemark._errors import (
    Cancelled,
    Cascaded,
    ContractViolation,
    DeclarationError,
    Entangled,
    Forgotten,
    InDoubt,
    InternalError,
    KeyConflict,
    LateAppend,
    LeaseLost,
    LedgerError,
    OutsideDeclared,
    Overdue,
    PartialCommit,
    PayloadError,
    Refused,
    Rejected,
    Revoked,
    Rewound,
    ScopeError,
    SettlemarkError,
    Stale,
    StateError,
    UsageError,
    Vetoed,
    WaitTimeout,
    WouldBlock,
    Wounded,
)
from settlemark._failing import Failure
from settlemark._gates import Gate
from settlemark._holding import Hold
from settlemark._level import Level
from settlemark._logs import json_logs
from settlemark._parking import Parked
from settlemark._resolving import Doubt
from settlemark._retention import Pruned
from settlemark._rewind import Affected, Rewind
from settlemark._scope import Scope, ScopeTemplate
from settlemark._settlement import Residue, Settlement
from settlemark._settling import Footprint
from settlemark._states import State, Tag
from settlemark._transaction import AsyncTransaction, Opening, PlannedCall, Queued, Transaction, TurnFace
from settlemark.ledger._encryption import Encryption, new_key
from settlemark.ledger._unreadable import Erased

__all__ = [
    "UNKNOWN",
    "Affected",
    "AsyncTransaction",
    "Cancelled",
    "Cascaded",
    "ContractViolation",
    "CurrentCall",
    "Declaration",
    "DeclarationError",
    "Doubt",
    "Effect",
    "EffectClass",
    "Encryption",
    "Entangled",
    "Erased",
    "Failure",
    "Footprint",
    "Forgotten",
    "Gate",
    "Hold",
    "InDoubt",
    "InternalError",
    "KeyConflict",
    "LateAppend",
    "LeaseLost",
    "LedgerError",
    "Level",
    "Opening",
    "Outcome",
    "OutsideDeclared",
    "Overdue",
    "Parked",
    "PartialCommit",
    "PayloadError",
    "PlannedCall",
    "Pruned",
    "Queued",
    "Refused",
    "Rejected",
    "Residue",
    "Retries",
    "Revoked",
    "Rewind",
    "Rewound",
    "Scope",
    "ScopeError",
    "ScopeTemplate",
    "SettlemarkError",
    "Settlement",
    "Stale",
    "State",
    "StateError",
    "Tag",
    "Transaction",
    "TurnFace",
    "UsageError",
    "Vetoed",
    "WaitTimeout",
    "WouldBlock",
    "Wounded",
    "current_call",
    "effect",
    "inverse",
    "json_logs",
    "new_key",
]
