"""How the turn of a node is opened: under LangGraph's names, and in whose transaction."""

# Whatever a graph sends comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt

from settlemark import EffectClass, Settlement
from settlemark.agents import Call, OpenTurn, PlacedCall, open_turn
from settlemark.hosting import Order, Park, Program, Turn, host_of
from settlemark_langgraph._arguments import before_injection
from settlemark_langgraph._boundaries import Settle, boundaries_of
from settlemark_langgraph._candidates import candidates_of
from settlemark_langgraph._checkpointer import refuse_without_checkpoints
from settlemark_langgraph._declarations import NodeDeclarations
from settlemark_langgraph._identity import Identity, identify
from settlemark_langgraph._memory import Memory
from settlemark_langgraph._messages import rationale
from settlemark_langgraph._seated import Invocation, SeatedCall
from settlemark_langgraph._superstep import Superstep

_DEFAULT_THREADS = min(32, (os.cpu_count() or 1) + 4)


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a run of a node brings along.

    Attributes:
        runtime: LangGraph's.
        config: the node's.
        messages: the state's, for what the model said when it issued the calls.
        raises: settlement errors are raised, not told to the model.
        last: it is not to be tried again when it loses a race.
        threads: LangGraph runs its tasks in threads.
        candidate: whose transaction its calls belong to, where somebody is to choose among several.
    """

    runtime: Any
    config: RunnableConfig
    messages: Any
    raises: bool
    last: bool
    threads: bool
    candidate: str | None = None

    @property
    def identity(self) -> Identity:
        """Who it is."""
        return identify(self.runtime, self.config)

    @property
    def superstep(self) -> Superstep | None:
        """The superstep it runs in, where LangGraph tells."""
        return Superstep.of(self.config)

    @property
    def room(self) -> float:
        """How many tasks LangGraph runs at once."""
        limit = self.config.get("max_concurrency")
        return limit if limit is not None else _DEFAULT_THREADS if self.threads else float("inf")


class Opener:
    """Opens the turns of one node, or of one agent.

    Args:
        settlement: settles them; None for order and deduplication in memory.
        declarations: of the tools.
        order: as for `SequencedToolNode`.
        settle: what settles together; see `Settle`.
        park: what becomes of a turn that waits for a person's yes; see `SequencedToolNode`.
        may_touch: scopes that each of them holds before its first call runs.
    """

    def __init__(
        self,
        settlement: Settlement,
        memory: Memory | None,
        declarations: NodeDeclarations,
        *,
        order: Order,
        settle: Settle = "node",
        park: Park = "keep",
        may_touch: str | Sequence[str] = (),
    ) -> None:
        self.settlement = settlement
        self._host = host_of(settlement)
        self.memory = memory
        self._declarations = declarations
        self._order: Order = order
        self._settle: Settle = settle
        self._park: Park = park
        self._may_touch = (may_touch,) if isinstance(may_touch, str) else tuple(may_touch)

    def open(
        self,
        calls: Sequence[ToolCall],
        arrival: Arrival,
        identity: Identity,
        name: str | None,
        *,
        place: int | None = None,
    ) -> Program[list[SeatedCall]]:
        """Return a seat for each call, in a transaction of this name; with `settle="call"` each in one of its own.

        `place` is the turn's among the tasks of its superstep, where that is not the arriving task's.
        """
        if self._settle != "call":
            invocation: Invocation = yield from self._invocation(calls, calls, arrival, identity, name, place=place)
            return invocation.calls
        order = self._host.turn(order=self._order, stop_on_failure=False, holds=False)
        seats: list[SeatedCall] = []
        for number, call in enumerate(calls):
            own = replace(identity, ordinal=f"{identity.ordinal}/{number:04d}")
            called = None if name is None else f"{name}/{number}"
            invocation = yield from self._invocation([call], calls, arrival, own, called, order)
            seats.extend(invocation.calls)
        return seats

    def _invocation(
        self,
        calls: Sequence[ToolCall],
        issued: Sequence[ToolCall],
        arrival: Arrival,
        identity: Identity,
        name: str | None,
        order: Turn | None = None,
        place: int | None = None,
    ) -> Program[Invocation]:
        memory = self.memory
        task = None if memory is None else memory.task(name, calls)
        because = rationale(arrival.messages, [call["id"] for call in issued])
        position = within = None
        superstep = arrival.superstep
        if memory is None:
            position = ((yield from self._host.epoch_for(identity.superstep)), identity.ordinal)
            if not identity.resumable:
                self._host.tell_once(
                    "no checkpointer",
                    "this graph runs without a checkpointer or a thread_id: what it settles is settled, but a resume"
                    ' cannot know it again; compile(checkpointer=…) and pass {"configurable": {"thread_id": …}}',
                )
            elif superstep is not None and self._acts(calls):
                # With durability="async" they may be stored late: who died before would leave acts under a lost name.
                yield from superstep.until_stored()
        if superstep is not None and memory is None and identity.resumable and name is not None:
            yield from boundaries_of(self.settlement).left_behind.undo_in(identity, superstep)
        if self._settle in ("superstep", "run"):
            if self._settle == "superstep":
                refuse_without_checkpoints(arrival.config, self.settlement)
            boundaries = boundaries_of(self.settlement)
            within = yield from boundaries.enter(self._settle, identity, superstep, place, self._may_touch)
        elif arrival.candidate is not None:
            candidates = candidates_of(self.settlement)
            within = yield from candidates.enter(
                arrival.candidate, identity, superstep, place, self._may_touch, turn=name
            )
        turn: OpenTurn = yield from open_turn(
            self.settlement,
            name if memory is None else memory.name(task),
            run=identity.run,
            within=within,
            turn=order,
            order=self._order,
            position=position,
            may_touch=self._may_touch,
            undoes=memory is None,
            resumable=identity.resumable if memory is None else task is not None,
            let_through=(GraphInterrupt,),
            park=self._park,
        )
        limit = arrival.config.get("max_concurrency")
        invocation = Invocation(turn, because, limit=limit, raises=arrival.raises, last=arrival.last, task=task)
        placed: list[PlacedCall] = yield from turn.place_all([self._issued(call) for call in calls])
        invocation.calls += [SeatedCall(invocation, call, place) for call, place in zip(calls, placed, strict=True)]
        return invocation

    def _issued(self, call: ToolCall) -> Call:
        given = before_injection(self._declarations.tool(call["name"]), call)
        return Call(call["name"], call["args"], self._declarations.of(call["name"]), call["id"], given)

    @property
    def settles_each(self) -> bool:
        """Whether each call settles by itself."""
        return self._settle == "call"

    def again(self, seats: Sequence[SeatedCall], arrival: Arrival, identity: Identity) -> Program[list[SeatedCall]]:
        """Return new seats for calls that settle by themselves, and have, under the same names."""
        found: list[SeatedCall] = []
        for seated in seats:
            name = seated.invocation.turn.name
            invocation = yield from self._invocation([seated.call], [seated.call], arrival, identity, name)
            found.extend(invocation.calls)
        return found

    def _acts(self, calls: Sequence[ToolCall]) -> bool:
        return any(self._declarations.of(call["name"]).kind is not EffectClass.READ for call in calls)


__all__ = ["Arrival", "Opener"]
