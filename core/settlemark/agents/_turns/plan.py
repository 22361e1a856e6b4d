"""What is to become of a turn, as it is planned before it opens."""

from __future__ import annotations

from dataclasses import dataclass

from settlemark._attempt.turn import Turn
from settlemark._edges.errors import SettlemarkError
from settlemark.agents._call import Call
from settlemark.agents._open.deciding import Said
from settlemark.agents._record.recalled import Decision


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to become of a turn.

    Attributes:
        calls: all of it, as they will run, as far as that is known.
        known: of those that were decided before, what is on record, or why they are refused.
        name: the transaction's, or None when nothing in it acts.
        order: one that it keeps with other turns.
        untrue: what is told, by place, in place of answers that the model has of it from before it was undone.
        said: what its model said when it issued it.
    """

    calls: list[Call]
    known: dict[int, Decision | SettlemarkError]
    name: str | None
    order: Turn | None
    untrue: dict[int, str]
    said: Said


__all__ = ["Plan"]
