"""The calls of one response of the model, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from settlemark.agents import AgentTurn
from settlemark_pydantic_ai._places import Fate, Place


@dataclass(slots=True, eq=False)
class Turn:
    """The calls of one response of the model, as they come.

    Attributes:
        key: identifies the response.
        settling: what settles them.
        places: in issuance order.
        aside: ids of deferred calls: they wait for somebody, or for a call that does.
        stand_ins: tasks for calls that reach no tool, but have their place in the order.
        acting: the framework's tasks for calls that have come and have no answer yet.
    """

    key: tuple[int, Sequence[str]]
    settling: AgentTurn
    places: Sequence[Place]
    aside: set[str] = field(default_factory=set[str])
    stand_ins: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    acting: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    def place_of(self, call_id: str | None) -> int:
        """Return the index of the call with this id: the first that has not come (an output may stand between)."""
        found = [n for n, place in enumerate(self.places) if place.part.tool_call_id == call_id]
        return next((n for n in found if self.places[n].awaited), found[0])

    def waits(self, place: int) -> bool:
        """Whether the framework runs it concurrently with all that are still to come, so that it may wait for them."""
        last = max((one.segment for one in self.places if one.fate is Fate.COMES), default=0)
        return self.places[place].segment >= last


__all__ = ["Turn"]
