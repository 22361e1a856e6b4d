"""Changes as a durable store would return them: redacted, and as they are read with the present keys."""

from __future__ import annotations

from functools import partial

from settlemark.ledger._contract import Change, EffectRow, OutcomeChange, Said
from settlemark.ledger._memory.entries import no_blob
from settlemark.ledger._owed import OwedChange, OwedRow
from settlemark.ledger._payloads.payloads import Field, Packer


def redacted(change: Change, payloads: Packer) -> Change:
    """Return a change as a durable store would return it."""
    if isinstance(change, EffectRow):
        read = partial(_read, payloads, change.key, change.tool)
        arguments = read("arguments", change.arguments) or ""  # first: the rationale is without their secrets
        return change._replace(arguments=arguments, rationale=read("rationale", change.rationale))
    if isinstance(change, OutcomeChange):
        read = partial(_read, payloads, change.key, change.tool)
        result, error, note = read("result", change.result), read("error", change.error), read("note", change.note)
        return change._replace(result=result, error=error, note=note)
    if isinstance(change, Said):
        return change._replace(text=_read(payloads, change.key, change.tool, "said", change.text) or "{}")
    if isinstance(change, OwedRow):
        return change._replace(payload=_read(payloads, change.id, change.tool, "arguments", change.payload) or "")
    if isinstance(change, OwedChange):
        return change._replace(note=_read(payloads, change.id, "", "note", change.note))
    return change


def _read(payloads: Packer, key: str, tool: str, field: Field, text: str | None) -> str | None:
    packed = payloads.pack(text, effect_key=key, tool=tool, field=field, blobs=[])
    return payloads.read(packed, effect_key=key, field=field, fetch=no_blob)


__all__ = ["redacted"]
