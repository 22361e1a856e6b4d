"""An attempt that had not begun, and becomes what was found under its name."""

from __future__ import annotations

from settlemark._acts.effect import Effect
from settlemark._attempt.attempt import Attempt


def become(attempt: Attempt, other: Attempt) -> None:
    """Make an attempt another one, for its holder: what the holder was given, and has planned, stays.

    Its transaction comes last: a thread that sees that one sees all that is known of it.
    """
    placed = attempt.placed
    for name in attempt.__slots__:
        if name not in _OF_CALLER:
            setattr(attempt, name, getattr(other, name))
    if other.placed:  # decisions that were placed here before, and not made, come behind what is on record
        attempt.placed_before, attempt.placed = placed, max(placed, other.placed)
    attempt.txn = other.txn


def place_again(attempt: Attempt, effect: Effect) -> None:
    """Give an effect that is new its place behind those on record, where it had got one before they were known."""
    if effect.path not in attempt.effects and effect.position < attempt.placed_before:
        effect.position, effect.came = attempt.placed, attempt.again
        attempt.placed += 1


_OF_CALLER = {"began", "entering", "numbering", "park", "parks", "placed", "placed_before", "turned_away", "txn"}

__all__ = ["become", "place_again"]
