"""The limits of a conversation, whatever its model wants. Imports nothing, since the command's help needs it."""

from __future__ import annotations

from dataclasses import dataclass

TURNS = 6
CALLS = 24


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a model may ask for in one conversation.

    Args:
        turns: after so many of its turns: the calls of the last one run, and it is not asked again.
        calls: before the turn that would bring the calls above this number: none of that turn runs.
    """

    turns: int = TURNS
    calls: int = CALLS


USUAL = Limits()
