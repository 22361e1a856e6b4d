"""Where a turn is in its thread: which tells whether the thread's state has what an earlier turn was answered.

A model that is asked anew, because its process died before LangGraph stored what it had said, issues a call again: what
was answered before is answered again. A model that has had its answer issues another call, also when no message of the
first is left in the state. The messages do not tell one from the other; the thread's checkpoints do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from settlemark.hosting import Program
from settlemark_langgraph._messages.messages import calls_in, issued_in, messages_in
from settlemark_langgraph._supersteps.superstep import Superstep


class _Level(NamedTuple):
    """A superstep of one of the graphs that a turn is within.

    Attributes:
        checkpoint: that it runs on.
        task: the id of the task that the turn is in.
        run: names the run of the graph.
        attempt: which run of its task it is.
    """

    checkpoint: str
    task: str
    run: str
    attempt: int


class Whereabouts:
    """Where a turn is in its thread.

    Args:
        superstep: its superstep.
        attempt: which run of its task it is.
        calls: ids of its calls.
    """

    def __init__(self, superstep: Superstep, attempt: int, calls: tuple[str, ...]) -> None:
        self._superstep = superstep
        self._attempt = attempt
        self._calls = calls

    @cached_property
    def _levels(self) -> list[tuple[_Level, Superstep]]:
        found = self._superstep.enclosing()
        return [(_Level(each.checkpoint, each.own.id, each.token, self._attempt), each) for each in found]

    @property
    def _is_given(self) -> bool:
        """Whether it has its calls from its checkpoint, and from no model that its own task asks."""
        given = self._superstep.own.given
        issued = {*(call["id"] for call in calls_in(given)), *issued_in(messages_in(given))}
        return bool(self._calls) and issued.issuperset(self._calls)

    @property
    def text(self) -> str:
        """The place, as it is put on record."""
        return json.dumps([level for level, _ in self._levels])

    def follows(self, earlier: str, *, same: bool) -> bool | None:
        """Whether it comes behind an earlier turn, or stands beside it; None: its checkpoints alone know."""
        theirs: _Level | None = None
        for theirs, ours, _ in self._beside(earlier):
            if theirs.checkpoint != ours.checkpoint:
                return True if theirs.run == ours.run else None
            if theirs.task != ours.task:
                return not same
        return theirs is not None and not same and (self._is_given or theirs == self._levels[-1][0])

    def is_behind(self, earlier: str) -> Program[bool]:
        """Whether it comes behind an earlier turn, by its checkpoints."""
        for theirs, ours, superstep in self._beside(earlier):
            if theirs.checkpoint != ours.checkpoint:
                return (yield from superstep.is_behind(theirs.checkpoint))
        return False

    def _beside(self, earlier: str) -> Iterator[tuple[_Level, _Level, Superstep]]:
        try:
            found: list[Any] = json.loads(earlier)
            levels = [_Level(*each) for each in found]
        except (ValueError, TypeError):
            return  # written by another release, or replaced by a rule for redaction
        for theirs, (ours, superstep) in zip(levels, self._levels, strict=False):
            yield theirs, ours, superstep


__all__ = ["Whereabouts"]
