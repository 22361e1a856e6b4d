"""An obligation as people and programs see it, and what is asked for when one is opened."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from settlemark._model import json_text
from settlemark._model.identity import Path, step_of, text_of
from settlemark._observe.clock import in_calendar
from settlemark.ledger._owed import OwedRow, OwedState, RecordedOwed, Told
from settlemark.ledger._payloads.redaction import MARKER
from settlemark.ledger._payloads.unreadable import Unreadable

DUE = "due/"
_DIGITS = 24


@dataclass(frozen=True, slots=True)
class Obligation:
    """What a transaction owes: a promise that a later effect keeps.

    Attributes:
        id: names it, in every process; its handler runs in the transaction `due/<id>`.
        transaction, attempt, run: who owes it.
        text: what is owed, in words; no decision reads it. "" where it was pruned, or cannot be read here.
        to: to whom, a scope.
        fulfilled_by: the tool whose effect keeps it; None: only a person ends it.
        scope: where that effect acts.
        matching: the arguments that the effect has.
        opened, due: in seconds since 1970, on the store's clock.
        state: what it is now.
        effect: the key of the effect that has fulfilled it, or None.
        waived_by, note: who has struck it out, and why.
        told: what was done when it was due: "handled", "alerted", or None.
        lapses: it is what an effect with `expires=` owes: `fulfilled_by` is called with `matching` when it is due.
    """

    id: str
    transaction: str
    attempt: int
    run: str
    text: str
    to: str
    fulfilled_by: str | None
    scope: str
    matching: dict[str, Any]
    opened: float
    due: float
    state: OwedState
    effect: str | None = None
    waived_by: str | None = None
    note: str | None = None
    told: Told | None = None
    lapses: bool = False

    @property
    def due_at(self) -> datetime:
        """When it is due, in UTC."""
        return datetime.fromtimestamp(self.due, UTC)


@dataclass(frozen=True, slots=True)
class Owing:
    """What is asked for when an obligation is opened, checked: `payload` is JSON."""

    to: str
    tool: str
    scope: str
    payload: str
    due: float | None
    within: float | None

    def is_of(self, row: OwedRow) -> bool:
        """Whether a recorded obligation is the same one; its time is the recorded one, and is not compared."""
        known = isinstance(row.payload, Unreadable) or row.payload == self.payload
        return known and (row.to, row.tool, row.scope) == (self.to, self.tool, self.scope)


def id_of(prefix: str, name: str, attempt: int, path: Path) -> str:
    """Return the id of an obligation: it names the place where it was opened, and is the same in a replay.

    >>> id_of("1f1f1f1f1f1f1f1f.", "trip", 1, (0, 2))
    'c0485cd433029d95923c7f32'
    """
    return hashlib.sha256(f"{step_of(prefix, name, attempt)}/owes/{text_of(path)}".encode()).hexdigest()[:_DIGITS]


def payload_in(row: OwedRow) -> tuple[str, dict[str, Any]]:
    """Return the text of an obligation, and the arguments of an effect that fulfils it."""
    if isinstance(row.payload, Unreadable) or not row.payload:
        return "", {}
    found = json_text.decode(row.payload)
    return str(found.get("text", "")), dict(found.get("matching") or {})


def calls_itself(row: OwedRow) -> bool:
    """Whether the tool that fulfils an obligation is called by itself when that is due."""
    if isinstance(row.payload, Unreadable) or not row.payload or MARKER in row.payload:
        return False  # its arguments are not all there
    return bool(json_text.decode(row.payload).get("calls"))


def obligation_in(found: RecordedOwed) -> Obligation:
    """Return a recorded obligation as it is now."""
    row = found.row
    text, matching = payload_in(row)
    return Obligation(
        row.id,
        row.name,
        row.attempt,
        row.run,
        text,
        row.to,
        row.tool or None,
        row.scope,
        matching,
        row.at,
        in_calendar(row.due),
        found.state,
        found.fulfilled,
        found.waived_by,
        found.note,
        found.told,
        calls_itself(row),
    )


__all__ = ["DUE", "Obligation", "Owing", "calls_itself", "id_of", "obligation_in", "payload_in"]
