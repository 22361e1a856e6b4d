"""Seals: what the chain of a run says of the effects that were called under its decisions, and of each one's outcome.

A seal is a version of an entry of the kind "effect", in the commit that writes the effect's row: at its intent, at its
outcome, and whenever a person says a word on it. It has digests alone, over the row as it is stored, so it tells
nothing that the row does not; and redaction and encryption, which come before a row is stored, leave it whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from settlemark._model import json_text
from settlemark.ledger._contract import RecordedEffect
from settlemark.ledger._entries import Draft
from settlemark.ledger._payloads.payloads import PRUNED
from settlemark.ledger._payloads.unreadable import Outdated

KIND = "effect"
_LONGEST = 360
_TEXTS = ("arguments", "rationale", "result", "error", "note", "said")
_FIXED = (
    "key", "name", "attempt", "position", "tool", "kind", "call_id", "fingerprint", "handlers", "version", "outcome",
    "tag", "leaves", "path", "said_by", "disposition", "link", "question", "decision", "verdict",
)  # fmt: skip # a list of columns
_YES_OR_NO = ("held", "contradicted")
_TIMES = ("intended_at_seconds", "settled_at_seconds", "window_seconds", "said_at_seconds", "dealt_at_seconds")
Columns = Mapping[str, Any]
"""An effect's columns, as a store has them, and the `run` of its transaction."""


def seal_id(key: str) -> str:
    """Return the id under which an effect is sealed."""
    return key if len(key) <= _LONGEST else hashlib.sha256(key.encode()).hexdigest()


def sealing(row: Columns) -> Draft:
    """Return the entry that says what an effect's row is now."""
    times = [row[name] for name in ("dealt_at_seconds", "said_at_seconds", "settled_at_seconds")]
    at = max((time for time in times if time is not None), default=row["intended_at_seconds"])
    key, whose = row["key"], (row["name"], row["attempt"], row["key"])
    return Draft(KIND, seal_id(key), row["run"], row["outcome"], at, _digests(row), *whose)


def is_as_sealed(body: str, row: Columns) -> bool:
    """Whether a row is what its last seal says: what retention has removed of it may be gone."""
    said, found = json_text.decode(body), json_text.decode(_digests(row))
    return said["row"] == found["row"] and (said["texts"] == found["texts"] or _is_stripped(row))


def _digests(row: Columns) -> str:
    fixed = [row[name] for name in _FIXED] + [bool(row[name]) for name in _YES_OR_NO]
    fixed += [None if row[name] is None else repr(float(row[name])) for name in _TIMES]
    texts = [row["scopes"], *(row[name] for name in _TEXTS)]
    return json_text.canonical({"row": _digest(fixed), "texts": _digest(texts)})


def _digest(values: list[Any]) -> str:
    return hashlib.sha256(json_text.canonical(values).encode()).hexdigest()


def _is_stripped(row: Columns) -> bool:
    gone = (row[name] is None or row[name] == PRUNED or isinstance(row[name], Outdated) for name in _TEXTS)
    return bool(row["scopes"] == "[]" and all(gone))


def columns_of(effect: RecordedEffect, run: str) -> Columns:
    """Return the columns of an effect that is kept in memory."""
    row = effect.row
    return {
        "run": run, "key": row.key, "name": row.name, "attempt": row.attempt, "position": row.position,
        "tool": row.tool, "kind": row.kind.value, "scopes": row.scopes, "held": row.held, "call_id": row.call_id,
        "arguments": row.arguments, "fingerprint": row.fingerprint, "rationale": row.rationale,
        "handlers": row.handlers, "version": row.version, "outcome": effect.outcome.value,
        "intended_at_seconds": row.at, "result": effect.result, "error": effect.error,
        "tag": effect.tag and effect.tag.value, "note": effect.note, "settled_at_seconds": effect.settled_at,
        "window_seconds": row.window, "leaves": int(row.leaves), "path": row.path, "said": effect.said,
        "said_by": effect.said_by, "said_at_seconds": effect.said_at, "dealt_at_seconds": effect.dealt_at,
        "disposition": effect.disposition and effect.disposition.value, "link": effect.link,
        "question": effect.question, "contradicted": effect.contradicted, "decision": row.under,
        "verdict": effect.verdict,
    }  # fmt: skip # a table of columns, compared with `tables` at a glance


__all__ = ["KIND", "Columns", "columns_of", "is_as_sealed", "seal_id", "sealing"]
