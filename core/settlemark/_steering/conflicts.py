"""Which decision a revision or a retraction is in conflict with, and what of the run goes with it.

Pure: the record of a run goes in. Of all decisions that stand, the earliest is found that touched what was revised, or
that stood on it. What the run did from there on was decided with that before it: it is undone with it (Earliest-
Conflict Rollback), so that what follows is decided anew, and what came before is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from settlemark._lifecycle.rewind.plan import happened, scopes_of
from settlemark._model import json_text
from settlemark._model.effect_class import Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.states import FINISHED
from settlemark._report.verdicts import is_rewound
from settlemark._steering.message import Conflict, Steered, listed
from settlemark.ledger._contract import RecordedEffect, RecordedTransaction
from settlemark.ledger._entries import Entry
from settlemark.ledger._payloads.unreadable import Outdated, Unreadable


class Found(NamedTuple):
    """A conflict, and what goes with it: transactions, and the keys of their effects that stand, the newest first."""

    conflict: Conflict
    names: tuple[str, ...]
    keys: tuple[str, ...]


def earliest(
    scopes: Sequence[Scope], recorded: Iterable[RecordedTransaction], decisions: Mapping[str, Entry]
) -> Found | None:
    """Return the earliest decision of a run in conflict with what these scopes name, or None.

    Args:
        scopes: what is revised or retracted.
        recorded: the run's attempts.
        decisions: what was decided in it, by id.
    """
    standing = [(one, _standing(one)) for one in sorted(recorded, key=_place) if not is_rewound(one)]
    touched = {effect.row.key: scopes_of(effect) for _, effects in standing for effect in effects}
    for number, (one, effects) in enumerate(standing):
        for effect in effects:
            found = _conflict(one, effect, scopes, decisions, touched)
            if found is not None:
                rest = [(one, effects) for one, effects in standing[number:] if effects or one.state not in FINISHED]
                rest.reverse()
                names = dict.fromkeys(one.row.name for one, _ in rest)
                keys = [effect.row.key for _, effects in rest for effect in reversed(effects)]
                return Found(found, tuple(names), tuple(keys))
    return None


def pruned(recorded: Iterable[RecordedTransaction]) -> tuple[Steered, ...]:
    """Return the effects that stand, and of which retention has removed what they touched, the newest first.

    Nobody can tell whether they are in conflict with anything.
    """
    found = sorted(recorded, key=_place, reverse=True)
    every = (effect.row for one in found if not is_rewound(one) for effect in reversed(_standing(one)))
    return tuple(
        Steered(row.name, row.tool, row.scope, row.key, "its scope was pruned")
        for row in every
        if isinstance(row.arguments, Outdated) and not json_text.decode(row.scopes)
    )


def standing(recorded: Iterable[RecordedTransaction]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a run's transactions that stand, and the keys of their effects, the newest first."""
    found = [(one, _standing(one)) for one in sorted(recorded, key=_place, reverse=True) if not is_rewound(one)]
    names = dict.fromkeys(one.row.name for one, effects in found if effects or one.state not in FINISHED)
    return tuple(names), tuple(effect.row.key for _, effects in found for effect in reversed(effects))


def _place(recorded: RecordedTransaction) -> tuple[int, str, int]:
    return recorded.epoch, recorded.row.ordinal, recorded.row.attempt


def _standing(recorded: RecordedTransaction) -> list[RecordedEffect]:
    """Return the effects of an attempt that are in the world, or are still to come there, in issuance order."""
    waits = recorded.state not in FINISHED
    found = (e for e in recorded.effects if happened(recorded, e) or (waits and e.outcome in _TO_COME))
    return sorted(found, key=lambda effect: effect.row.position)


_TO_COME = (Outcome.QUEUED, Outcome.SUSPENDED)


def _conflict(
    recorded: RecordedTransaction,
    effect: RecordedEffect,
    scopes: Sequence[Scope],
    decisions: Mapping[str, Entry],
    touched: Mapping[str, Sequence[Scope]],
) -> Conflict | None:
    under = effect.row.under
    entry = None if under is None else decisions.get(under)
    readable = entry is not None and not isinstance(entry.body, Unreadable)
    told: dict[str, Any] = json_text.decode(entry.body) if entry is not None and readable else {}
    title = told.get("title")
    for ground, found in ((True, _grounds(told, touched)), (False, scopes_of(effect))):
        for theirs in found:
            if any(theirs.overlaps(ours) for ours in scopes):
                title = title if isinstance(title, str) else None
                return Conflict(recorded.row.name, under, title, effect.row.key, theirs.text, ground)
    return None


def _grounds(told: Mapping[str, Any], touched: Mapping[str, Sequence[Scope]]) -> list[Scope]:
    """Return what a decision stood on: scopes, and what its run's earlier effects touched."""
    found: list[Scope] = []
    for ground in listed(told.get("grounds")):
        if isinstance(ground, dict):
            given = cast("dict[str, Any]", ground)
            found += [Scope.parse(given["scope"])] if isinstance(given.get("scope"), str) else []
            found += touched.get(str(given.get("effect")), ())
    return found


__all__ = ["Found", "earliest", "pruned", "standing"]
