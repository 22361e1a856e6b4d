"""What a decision led to before: in a transaction that is replayed, resumed, or made again after an abort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from settlemark._acts.effect import Effect
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import Forgotten, KeyConflict, LedgerError
from settlemark._model import json_text
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import Outcome
from settlemark.ledger._contract import Book, EffectRow, RecordedEffect, RecordedTransaction
from settlemark.ledger._payloads.unreadable import GONE, Outdated, Unreadable


def recall(attempt: Attempt, effect: Effect) -> RecordedEffect | None:
    """Return what a replayed decision led to, or None when this is no replay.

    Raises:
        KeyConflict: the decision was recorded with another tool or other arguments.
        StateError: the transaction has committed without this decision.
        Forgotten: it is on record, and its result is not.
    """
    if attempt.replay is None:
        return None
    found = attempt.recorded.get(effect.path) or attempt.stays.get(effect.path)
    if found is None or _was_taken_back(found):
        _ = attempt.live  # says why nothing new can run
        return None
    row = found.row
    _compare(attempt, effect, row.key, row.tool, row.arguments, row.fingerprint)
    if isinstance(found.result, Unreadable):
        raise _unreadable(attempt, "result", found.result, row.key, row.tool, found.outcome)
    return found


def stayed(attempt: Attempt, effect: Effect) -> RecordedEffect | None:
    """Return what stays of this same decision from an attempt that was aborted, or None.

    Raises:
        Forgotten: it is on record, and its result is not.
    """
    found = attempt.stays.get(effect.path)
    if found is None or not _is_same(attempt, effect, found.row):
        return None
    if isinstance(found.result, Unreadable):
        raise _unreadable(attempt, "result", found.result, found.row.key, found.row.tool, found.outcome)
    return found


def follow(book: Book, recorded: RecordedTransaction) -> RecordedTransaction:
    """Return a record with the final outcomes of effects split off, or approved with other arguments."""
    by_key = {effect.row.key: effect for effect in recorded.effects}
    parts: dict[str, Iterator[RecordedEffect]] = {}
    effects: list[RecordedEffect] = []
    for effect in recorded.effects:
        name = effect.link or ""
        found = by_key.get(name) if effect.disposition is Disposition.EDITED else None
        if effect.disposition is Disposition.SPLIT_OFF:
            if name not in parts:
                part = book.load(name)
                parts[name] = iter(()) if part is None else iter(follow(book, part).effects)
            found = next(parts[name], None)
        told = effect
        if found is not None:
            told = replace(effect, outcome=found.outcome, result=found.result, error=found.error)
        effects.append(told)
    return replace(recorded, effects=effects)


def _is_same(attempt: Attempt, effect: Effect, row: EffectRow) -> bool:
    if row.tool != effect.declaration.tool and row.tool not in effect.declaration.aliases:
        return False
    if attempt.payloads.plain and row.arguments == effect.payload:
        return True
    return attempt.payloads.same(effect.payload, row.fingerprint, effect_key=row.key)


def resume(attempt: Attempt, effect: Effect) -> Effect | None:
    """Return the effect of this same decision from before a suspension, or None when it is new.

    Raises:
        KeyConflict: the decision was made with another tool or other arguments.
    """
    earlier = attempt.effects.get(effect.path)
    if earlier is not None:
        _compare(attempt, effect, earlier.key, earlier.declaration.tool, earlier.payload, earlier.fingerprint)
        if earlier.stored:
            # The record may lack what redact= took out of it: the new call has it.
            attempt.payloads.learn(effect.payload, effect_key=earlier.key, tool=effect.declaration.tool)
            earlier.arguments, earlier.given, earlier.payload = effect.arguments, effect.given, effect.payload
            earlier.withheld = {}
        attempt.expected.paths.discard(effect.path)
        earlier.run, earlier.ask, earlier.remake = effect.run, effect.ask, effect.remake
        earlier.controls, earlier.spends = effect.controls, effect.spends
        if not earlier.executed or effect.declaration.speaks_for(earlier.declaration.version):
            earlier.declaration, earlier.missing = effect.declaration, None
            if earlier.executed and earlier.keyless:
                earlier.declaration = effect.declaration.without_key()
        earlier.pack, earlier.unpack = effect.pack, effect.unpack
        if earlier.stored and earlier.unpack is not None:
            earlier.stored = False  # also of a held one, which has no result yet
            earlier.result = None if earlier.result is None else earlier.unpack(earlier.result)
    return earlier


def _compare(attempt: Attempt, effect: Effect, key: str, tool: str, payload: str, fingerprint: str) -> None:
    given, payloads = effect.declaration.tool, attempt.payloads
    if isinstance(payload, Unreadable) and not isinstance(payload, Outdated):
        raise _unreadable(attempt, "arguments", payload, key, tool, effect.outcome)
    if tool == given or tool in effect.declaration.aliases:
        if payloads.plain and payload == effect.payload:
            return
        if payloads.same(effect.payload, fingerprint, effect_key=key):
            return
    before, now = payloads.redact(payload, tool=tool), payloads.redact(effect.payload, tool=given)
    raise KeyConflict(
        f"call {'.'.join(str(n + 1) for n in effect.path)} of {attempt.name} was {tool}({before}) before and is"
        f" {given}({now})"
        " now: nothing was run; use a new name for a new decision",
        key=key,
        recorded={"tool": tool, "arguments": json_text.decode(before)},
        given={"tool": given, "arguments": json_text.decode(now)},
    )


def _unreadable(attempt: Attempt, what: str, text: Unreadable, key: str, tool: str, outcome: Outcome) -> LedgerError:
    if not isinstance(text, GONE):
        return LedgerError(f"the {what} of {key} cannot be read: {text.why}; nothing was run", key=key, field=what)
    how = "pruned" if isinstance(text, Outdated) else "erased"
    return Forgotten(
        f"{tool} was decided in {attempt.name} before, and its {what} {'was' if what == 'result' else 'were'} {how}"
        f" ({text.why}): nothing was run; use a new name for new work",
        key=key,
        tool=tool,
        outcome=outcome,
    )


def _was_taken_back(recorded: RecordedEffect) -> bool:
    """Whether a recorded effect is none of what committed: no plan asked for it."""
    return recorded.outcome in (Outcome.DROPPED, Outcome.UNDONE) and recorded.disposition is Disposition.ORPHANED
