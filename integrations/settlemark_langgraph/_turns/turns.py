"""The turns of a node: each a transaction, also where LangGraph sends the calls of one turn to a task each."""

# Whatever a graph sends comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Self

from langchain_core.messages import ToolCall

from settlemark.agents import Opened, cannot_keep
from settlemark.hosting import Program, run_async, run_sync, running_loop
from settlemark_langgraph._messages.messages import calls_in, left_behind
from settlemark_langgraph._private import NAMES
from settlemark_langgraph._supersteps.superstep import Superstep
from settlemark_langgraph._turns.opening import Opener
from settlemark_langgraph._turns.seated import Arrival
from settlemark_langgraph._turns.sends import SharedTurn
from settlemark_langgraph._turns.visit import Visit


class Turns:
    """Finds for each run of a node, or of an agent, the turn that its calls belong to.

    Args:
        opener: opens those turns.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._unattended: set[asyncio.Task[Any]] = set()
        self._shared: dict[str, SharedTurn] = {}
        self._lock = threading.Lock()

    def __deepcopy__(self, _: object) -> Self:
        """Return it: a copy of a node or an agent has its turns with the first, in the same settlement."""
        return self

    def visit(self, calls: Sequence[ToolCall], arrival: Arrival, *, sent: bool) -> Program[Visit]:
        """Return what one run of a node has of its turn; `sent` says that these calls are not the whole of it."""
        superstep = arrival.superstep if sent else None
        if superstep is not None and len(calls_in(superstep.own.given)) == len(calls):
            return (yield from self._join(calls, superstep, arrival))
        if sent and superstep is None:
            self._refuse_a_fan_out(calls, arrival)
        identity = arrival.identity
        opened: Opened = yield from self._opener.open(calls, arrival, identity, identity.name)
        return Visit(calls, opened.calls.values(), arrival)

    def _join(self, calls: Sequence[ToolCall], superstep: Superstep, arrival: Arrival) -> Program[Visit]:
        identity = arrival.identity
        name = identity.shared_by(superstep.own.node)
        while True:
            with self._lock:
                turn = self._shared.get(name)
                if turn is not None and turn.is_past:
                    turn.refuse_half(superstep)
                if turn is None or turn.is_past_for(superstep):
                    turn = self._shared[name] = SharedTurn(self._opener, name, superstep, self._settle_unattended)
                    superstep.at_end(lambda _error: self.finish(superstep))
            visit: Visit | None = yield from turn.arrive(calls, superstep, arrival, identity)
            if visit is not None:
                return visit

    def _settle_unattended(self, program: Program[None]) -> None:
        """Run a program that nobody else is there to run: the last task of a turn ended without having come."""
        loop = running_loop()
        if loop is None:
            run_sync(program)
            return
        task = loop.create_task(run_async(program))
        self._unattended.add(task)  # else nothing holds it
        task.add_done_callback(self._unattended.discard)

    def finish(self, superstep: Superstep | None) -> Program[None]:
        """Settle what tasks of earlier supersteps of the same run have left: all of them are over."""
        with self._lock:
            turns = list(self._shared.values())
        over = [turn for turn in turns if superstep is not None and turn.loop == superstep.loop]
        for turn in over:
            yield from turn.finish()
        self._forget_past(over)

    def _forget_past(self, over: Sequence[SharedTurn] = ()) -> None:
        """Let go of turns that are past; of one that was abandoned when all its tasks are over, for one may be late."""
        with self._lock:
            past = [
                name for name, turn in self._shared.items() if turn.is_past and (turn in over or not turn.abandoned)
            ]
            for name in past:
                del self._shared[name]

    def done(self, visit: Visit) -> None:
        """Let go of what a run of a node had of its turn."""
        self._forget_past()
        if self._opener.memory is not None:
            for turn in visit.turns:
                self._opener.memory.keep(turn)

    def _refuse_a_fan_out(self, calls: Sequence[ToolCall], arrival: Arrival) -> None:
        others = left_behind(arrival.messages, calls)
        if not others:
            return
        lost = (
            "their order would be lost"
            if self._opener.memory is not None
            else "their order and their settling together would be lost"
        )
        names = ", ".join(sorted([*(call["name"] for call in calls), *others]))
        cannot_keep(
            self._opener.settlement,
            f"tasks of one turn of {names}",
            f"the calls of one turn ({names}) are sent to a"
            " node one by one (Send), and this release of LangGraph does not tell which tasks belong together: each"
            f' would be a turn of its own and {lost}; use create_react_agent(…, version="v1"), or an edge to the node'
            f" in the place of Send; {NAMES.tell()}",
            self._opener.unsettled,
        )


__all__ = ["Turns"]
