"""Restores a row of a ledger in memory when the step that changed it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import Any

from settlemark.ledger._contract import RecordedEffect, RecordedTransaction

Restore = Callable[[], object]
_OF_EFFECT = tuple(field.name for field in fields(RecordedEffect))
_OF_ATTEMPT = tuple(field.name for field in fields(RecordedTransaction))
_effect_is, _attempt_is = attrgetter(*_OF_EFFECT), attrgetter(*_OF_ATTEMPT)


def effect_restorer(effect: RecordedEffect) -> Restore:
    """Return a function that restores an effect's present fields."""
    return partial(_restore, effect, _OF_EFFECT, _effect_is(effect))


def attempt_restorer(recorded: RecordedTransaction) -> Restore:
    """Return a function that restores an attempt's present fields."""
    return partial(_restore, recorded, _OF_ATTEMPT, _attempt_is(recorded))


def value_restorer(held: dict[str, Any], name: str, before: Any) -> Restore:
    """Return a function that restores the present value under a name; None removes it."""
    return partial(_put_back, held, name, before)


def _restore(thing: object, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        setattr(thing, name, value)


def _put_back(held: dict[str, Any], name: str, before: Any) -> None:
    if before is None:
        held.pop(name, None)
    else:
        held[name] = before


__all__ = ["Restore", "attempt_restorer", "effect_restorer", "value_restorer"]
