"""A settlement layer for the effects of agent tools.

An agent framework decides what to call; settlemark decides when the call's effect may become
permanent, and what happens to it when the step fails, is retried, or races another agent.
"""

from __future__ import annotations

from settlemark._acts.current import CurrentCall, current_call
from settlemark._acts.decision import Decision
from settlemark._acts.effect import Effect
from settlemark._acts.failure import Failure
from settlemark._acts.gate import Gate
from settlemark._acts.perform import Retries
from settlemark._api.hold import Hold
from settlemark._api.opening import Opening
from settlemark._api.records import Residue
from settlemark._api.saying.claims import ClaimCheck
from settlemark._api.saying.promises import Promise, PromiseCheck
from settlemark._api.settings import Injected, Payloads
from settlemark._api.settlement import Settlement
from settlemark._api.steered.run import SteeredRun
from settlemark._api.subjects.entities import Entity, Settled
from settlemark._api.subjects.leases import Lease
from settlemark._api.subjects.owes import aowe, owe
from settlemark._api.transaction import AsyncTransaction, PlannedCall, Queued, Transaction, TurnFace
from settlemark._approvals.answers import ApprovalRecord, ApprovalState, Vote
from settlemark._approvals.terms import Approval, Escalation
from settlemark._claims.claim import Claim, HeldClaim
from settlemark._claims.words import Primer
from settlemark._edges.errors import (
    Cancelled,
    Cascaded,
    ContractViolation,
    DeclarationError,
    Denied,
    Entangled,
    Fenced,
    Forgotten,
    Halted,
    InDoubt,
    InternalError,
    KeyConflict,
    LateAppend,
    LeaseHeld,
    LeaseLost,
    LedgerError,
    MovedOn,
    OutsideDeclared,
    OverBudget,
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
    Unfounded,
    Unowed,
    UsageError,
    Vetoed,
    WaitTimeout,
    WouldBlock,
    Wounded,
)
from settlemark._engine.commit import Footprint
from settlemark._lifecycle.fences import Standstill
from settlemark._lifecycle.parking import Parked
from settlemark._lifecycle.resolution import Doubt
from settlemark._lifecycle.rewind.plan import Affected, Rewind
from settlemark._mending.remedy import Remedy, RemedyState
from settlemark._mending.stuck import Stuck, StuckEffect
from settlemark._model.budget import Budget
from settlemark._model.declaration import Declaration
from settlemark._model.declare import effect, inverse
from settlemark._model.effect_class import UNKNOWN, EffectClass, Outcome
from settlemark._model.level import Level
from settlemark._model.scope import Scope, ScopeTemplate
from settlemark._observe.logs import json_logs
from settlemark._owing.obligation import Obligation
from settlemark._policy.policy import Policy, PolicyCall, PolicyRule
from settlemark._protocol.holdings import Halt
from settlemark._protocol.states import State, Tag
from settlemark._report.judged import PolicyVerdict
from settlemark._report.stuck import StuckCause
from settlemark._report.why import Why
from settlemark._runtime.retention import Pruned
from settlemark._steering.message import Steering
from settlemark._steering.pause import Pause, Paused
from settlemark.ledger._audit import Audit
from settlemark.ledger._budgets import Bucket
from settlemark.ledger._leased.rows import LeaseRow
from settlemark.ledger._owed import OwedState
from settlemark.ledger._payloads.encryption import Encryption, new_key
from settlemark.ledger._payloads.unreadable import Erased

__all__ = [
    "UNKNOWN",
    "Affected",
    "Approval",
    "ApprovalRecord",
    "ApprovalState",
    "AsyncTransaction",
    "Audit",
    "Bucket",
    "Budget",
    "Cancelled",
    "Cascaded",
    "Claim",
    "ClaimCheck",
    "ContractViolation",
    "CurrentCall",
    "Decision",
    "Declaration",
    "DeclarationError",
    "Denied",
    "Doubt",
    "Effect",
    "EffectClass",
    "Encryption",
    "Entangled",
    "Entity",
    "Erased",
    "Escalation",
    "Failure",
    "Fenced",
    "Footprint",
    "Forgotten",
    "Gate",
    "Halt",
    "Halted",
    "HeldClaim",
    "Hold",
    "InDoubt",
    "Injected",
    "InternalError",
    "KeyConflict",
    "LateAppend",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "LeaseRow",
    "LedgerError",
    "Level",
    "MovedOn",
    "Obligation",
    "Opening",
    "Outcome",
    "OutsideDeclared",
    "OverBudget",
    "Overdue",
    "OwedState",
    "Parked",
    "PartialCommit",
    "Pause",
    "Paused",
    "PayloadError",
    "Payloads",
    "PlannedCall",
    "Policy",
    "PolicyCall",
    "PolicyRule",
    "PolicyVerdict",
    "Primer",
    "Promise",
    "PromiseCheck",
    "Pruned",
    "Queued",
    "Refused",
    "Rejected",
    "Remedy",
    "RemedyState",
    "Residue",
    "Retries",
    "Revoked",
    "Rewind",
    "Rewound",
    "Scope",
    "ScopeError",
    "ScopeTemplate",
    "Settled",
    "SettlemarkError",
    "Settlement",
    "Stale",
    "Standstill",
    "State",
    "StateError",
    "SteeredRun",
    "Steering",
    "Stuck",
    "StuckCause",
    "StuckEffect",
    "Tag",
    "Transaction",
    "TurnFace",
    "Unfounded",
    "Unowed",
    "UsageError",
    "Vetoed",
    "Vote",
    "WaitTimeout",
    "Why",
    "WouldBlock",
    "Wounded",
    "aowe",
    "current_call",
    "effect",
    "inverse",
    "json_logs",
    "new_key",
    "owe",
]
