"""Converts between rows of a store and values."""

from __future__ import annotations

import json
from typing import Any

from settlemark._protocol.states import FINISHED, Reason, State, Tag
from settlemark.ledger._contract import (
    EffectRow,
    OutcomeChange,
    RecordedTransaction,
    StateChange,
    TransactionRow,
    Waited,
)
from settlemark.ledger._sql.wire import Row


def transaction_values(namespace: str, row: TransactionRow) -> dict[str, Any]:
    """Return the columns of a transaction that has begun."""
    return {
        "namespace": namespace, "name": row.name, "attempt": row.attempt, "run": row.run, "state": row.state.value,
        "epoch": row.epoch, "ordinal": row.ordinal, "owner": row.owner, "reason": None,
        "opened_at_seconds": row.at, "settled_at_seconds": None, "forget_at_seconds": None,
        "sealed_at_seconds": None, "decided_at_seconds": None, "waits": None, "cause": None, "link": None,
        "waits_for": None, "waits_on": None, "agents": json.dumps(row.agents) if row.agents else None,
    }  # fmt: skip # a table of columns, compared with `tables` at a glance


def state_values(namespace: str, change: StateChange) -> dict[str, Any]:
    """Return the values for `UPDATE_TRANSACTION`."""
    finished = change.state in FINISHED
    return {
        "b_namespace": namespace,
        "b_name": change.name,
        "b_attempt": change.attempt,
        "b_state": change.state.value,
        "b_epoch": change.epoch,
        "b_reason": change.reason and change.reason.value,
        "b_cause": change.cause,
        "b_link": change.link,
        "b_waits_for": change.waits_for,
        "b_waits_on": change.waits_on,
        "b_at": change.at if finished else None,
        "b_sealed": change.sealed_at,
        "b_decided": change.decided_at,
        "b_waits": json.dumps(change.waits) if change.waits else None,
        "b_agents": json.dumps(change.agents) if change.agents else None,
    }


def effect_values(namespace: str, row: EffectRow) -> dict[str, Any]:
    """Return the columns of an effect's intent."""
    return {
        "namespace": namespace, "key": row.key, "name": row.name, "attempt": row.attempt, "position": row.position,
        "tool": row.tool, "kind": row.kind.value, "scopes": row.scopes, "held": row.held, "call_id": row.call_id,
        "arguments": row.arguments, "fingerprint": row.fingerprint, "rationale": row.rationale,
        "handlers": row.handlers, "version": row.version, "outcome": row.outcome.value, "intended_at_seconds": row.at,
        "result": None, "error": None, "tag": None, "note": None, "settled_at_seconds": None,
        "window_seconds": row.window, "leaves": int(row.leaves), "path": row.path, "sender": None,
        "said": None, "said_by": None, "said_at_seconds": None, "dealt_at_seconds": None, "run": None,
        "disposition": None, "link": None, "question": None, "contradicted": False, "decision": row.under,
        "verdict": None,
    }  # fmt: skip # a table of columns, compared with `tables` at a glance


def outcome_values(namespace: str, change: OutcomeChange) -> dict[str, Any]:
    """Return the values for `UPDATE_EFFECT`."""
    return {
        "b_namespace": namespace,
        "b_key": change.key,
        "b_outcome": change.outcome.value,
        "b_result": change.result,
        "b_error": change.error,
        "b_tag": change.tag and change.tag.value,
        "b_note": change.note,
        "b_at": change.at,
        "b_left": int(change.tag not in (None, Tag.CLEAN)),
        "b_disposition": change.disposition and change.disposition.value,
        "b_link": change.link,
        "b_question": change.question,
        "b_contradicted": change.contradicted,
    }


def transaction_in(row: Row) -> RecordedTransaction:
    """Return the transaction in a row of all columns: without its effects."""
    _, name, attempt, run, state, epoch, ordinal, owner, reason, opened, settled, _, sealed, decided, waits, *rest = row
    cause, link, waits_for, waits_on, agents = rest
    acting = () if agents is None else tuple(json.loads(agents))
    begun = TransactionRow(name, attempt, run, State(state), epoch, ordinal, owner, opened, acting)
    return RecordedTransaction(
        begun,
        begun.state,
        epoch,
        Reason(reason) if reason else None,
        settled,
        sealed_at=sealed,
        decided_at=decided,
        waits=_waits_in(waits),
        cause=cause,
        link=link,
        waits_for=waits_for,
        waits_on=waits_on,
    )


def _waits_in(text: str | None) -> tuple[Waited, ...]:
    """Return the waits in a column."""
    return () if text is None else tuple(Waited(*each) for each in json.loads(text))


__all__ = ["effect_values", "outcome_values", "state_values", "transaction_in", "transaction_values"]
