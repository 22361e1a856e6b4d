"""A settlement layer for the effects of agent tools.

An agent framework decides what to call; settlemark decides when the call's effect may become
permanent, and what happens to it when the step fails, is retried, or races another agent.
"""

from __future__ import annotations

from settlemark._acts.current import CurrentCall, current_call
from settlemark._acts.effect import Effect
from settlemark._acts.failure import Failure
from settlemark._acts.gate import Gate
from settlemark._acts.perform import Retries
from settlemark._api.hold import Hold
from settlemark._api.opening import Opening
from settlemark._api.records import Residue
from settlemark._api.settings import Injected, Payloads
from settlemark._api.settlement import Settlement
from settlemark._api.transaction import AsyncTransaction, PlannedCall, Queued, Transaction, TurnFace
from settlemark._edges.errors import (
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
from settlemark._engine.commit import Footprint
from settlemark._lifecycle.parking import Parked
from settlemark._lifecycle.resolution import Doubt
from settlemark._lifecycle.rewind.plan import Affected, Rewind
from settlemark._model.declaration import Declaration
from settlemark._model.declare import effect, inverse
from settlemark._model.effect_class import UNKNOWN, EffectClass, Outcome
from settlemark._model.level import Level
from settlemark._model.scope import Scope, ScopeTemplate
from settlemark._observe.logs import json_logs
from settlemark._protocol.states import State, Tag
from settlemark._runtime.retention import Pruned
from settlemark.ledger._payloads.encryption import Encryption, new_key
from settlemark.ledger._payloads.unreadable import Erased

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
    "Injected",
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
    "Payloads",
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
