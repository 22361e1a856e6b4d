"""How the turn of a node is opened: under LangGraph's names, and in whose transaction."""

# Whatever a graph sends comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, get_args

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt

from settlemark import EffectClass, Settlement, UsageError
from settlemark.agents import (
    Asked,
    Call,
    Opened,
    OpenTurn,
    PlacedCall,
    Unsettled,
    open_turn,
    refuse_bad_options,
    refuse_unasked,
    too_late,
)
from settlemark.hosting import Order, Park, Program, Turn, host_of
from settlemark_langgraph._candidates.candidates import candidates_of, check_candidate
from settlemark_langgraph._candidates.names import Candidate, label_of
from settlemark_langgraph._identity import Identity
from settlemark_langgraph._messages.messages import answered_in, issued_in, said
from settlemark_langgraph._private import NAMES
from settlemark_langgraph._supersteps.boundaries import Settle, boundaries_of
from settlemark_langgraph._supersteps.checkpointer import refuse_without_checkpoints
from settlemark_langgraph._tools.arguments import before_injection
from settlemark_langgraph._tools.declarations import Declared, NodeDeclarations
from settlemark_langgraph._turns.memory import Memory
from settlemark_langgraph._turns.seated import Arrival, asks_graph
from settlemark_langgraph._turns.whereabouts import Whereabouts


@dataclass(frozen=True, slots=True)
class Options:
    """How the turns of a node, or of an agent, settle; see `SequencedToolNode`."""

    order: Order
    settle: Settle
    park: Park
    may_touch: str | Sequence[str]
    candidate: Candidate | None
    unsettled: Unsettled = "refuse"

    def check(self, settlement: Settlement, *, settles: bool) -> None:
        """Return when there are such options, and something that settles with them.

        Raises:
            UsageError: there are not.
        """
        kinds = get_args(Settle)
        refuse_bad_options(
            settlement, settle=self.settle, order=self.order, park=self.park, among=kinds, alone=("node", "call")
        )
        NAMES.refuse_without(settlement, self.unsettled)
        if self.settle != "node" and not settles:
            raise UsageError(
                f"settle={self.settle!r} settles with a settlement only: pass settlement=Settlement(url), too"
            )
        if self.candidate is not None:
            check_candidate(self.candidate, settlement if settles else None, settle=self.settle, park=self.park)


class Opener:
    """Opens the turns of one node, or of one agent.

    Args:
        settlement: settles them; None for order and deduplication in memory.
        tools: the tools by their names; None where they are told later, by `learn`.
        effects: what the tools of others do.
        options: how the turns settle.

    Raises:
        UsageError: there are no such options. DeclarationError: `effects` contradicts itself.
    """

    def __init__(
        self,
        settlement: Settlement | None,
        tools: Mapping[str, BaseTool] | None,
        effects: Mapping[str, Declared] | None,
        options: Options,
    ) -> None:
        self.memory: Memory | None = None
        if settlement is None:
            self.memory = Memory()
            settlement = self.memory.settlement
        settles = self.memory is None
        options.check(settlement, settles=settles)
        self.settlement = settlement
        self._host = host_of(settlement)
        self.declarations = NodeDeclarations(settlement, tools, effects or {}, settles=settles)
        self.declares = self.declarations.of_tool
        self._options = options
        self._may_touch = (options.may_touch,) if isinstance(options.may_touch, str) else tuple(options.may_touch)

    def __deepcopy__(self, _: object) -> Self:
        """Return it: a copy of a node or an agent has its turns with the first, in the same settlement."""
        return self

    def open(
        self,
        calls: Sequence[ToolCall],
        arrival: Arrival,
        identity: Identity,
        name: str | None,
        *,
        place: int | None = None,
        tasks: Sequence[str] = (),
    ) -> Program[Opened]:
        """Return the calls in their places of a transaction of this name; with `settle="call"` each in one of its own.

        `place` is the turn's among the tasks of its superstep, where that is not the arriving task's. `tasks` are those
        of the calls, where they are of several: LangGraph shows a question of each.
        """
        if self._options.settle != "call":
            whole: OpenTurn = yield from self._turn(calls, arrival, identity, name, place=place, tasks=tasks)
            return Opened.of(whole)
        order = self._host.turn(order=self._options.order, stop_on_failure=False, holds=False)
        turns: list[OpenTurn] = []
        for number, call in enumerate(calls):
            own = replace(identity, ordinal=f"{identity.ordinal}/{number:04d}")
            called = None if name is None else f"{name}/{number}"
            turns.append((yield from self._turn([call], arrival, own, called, order, tasks=tasks[number : number + 1])))
        return Opened.of(*turns)

    def _turn(
        self,
        calls: Sequence[ToolCall],
        arrival: Arrival,
        identity: Identity,
        name: str | None,
        order: Turn | None = None,
        place: int | None = None,
        tasks: Sequence[str] = (),
    ) -> Program[OpenTurn]:
        memory = self.memory
        task = None if memory is None else memory.task(name, calls)
        position = within = None
        superstep = arrival.superstep
        ending = None if superstep is None or memory is not None else superstep.ending()
        if ending is not None and ending.cut is not None:
            raise too_late(calls[0]["name"], ending.cut, name)
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
        own = tuple(call["id"] for call in calls if call["id"])
        beside = tuple(id_ for id_ in issued_in(arrival.messages) if id_ not in own)
        is_kept = memory is None and identity.resumable
        at = Whereabouts(superstep, arrival.attempt, own) if superstep is not None and is_kept else None
        asked = Asked(own, answered_in(arrival.messages), beside=beside, at=at)
        if self._options.settle in ("superstep", "run"):
            if self._options.settle == "superstep":
                refuse_without_checkpoints(arrival.config, self.settlement)
            boundaries = boundaries_of(self.settlement)
            within = yield from boundaries.enter(
                self._options.settle, identity, superstep, place, self._may_touch, asked
            )
        elif self._options.candidate is not None:
            label = label_of(self._options.candidate, arrival.state)
            candidates = candidates_of(self.settlement)
            within = yield from candidates.enter(label, identity, superstep, place, self._may_touch, turn=name)
        turn: OpenTurn = yield from open_turn(
            self.settlement,
            name if memory is None else memory.name(task),
            run=identity.run,
            within=within,
            turn=order,
            order=self._options.order,
            position=position,
            may_touch=self._may_touch,
            undoes=memory is None,
            resumable=identity.resumable if memory is None else task is not None,
            let_through=(GraphInterrupt,),
            park=self._options.park,
            recalls=True,
            asked=asked,
            agent=identity.agent,
        )
        if memory is not None:
            memory.know(turn, task)
        elif ending is not None:
            ending.undoes(turn)
        placed: list[PlacedCall] = yield from turn.place_all([self._issued(call) for call in calls])
        if not identity.resumable:
            yield from refuse_unasked(turn, 'compile(checkpointer=…), and {"configurable": {"thread_id": …}}')
        turn.decide(said(arrival.messages, [call["id"] for call in calls], self.declarations.names))
        for call, seat in zip(calls, placed, strict=True):
            if self.declarations.runs_an_agent(call["name"]):
                seat.run_as_agent()
        for number, seat in enumerate(placed if asks_graph(turn, identity) else ()):
            seat.ask_in(tasks[number] if tasks else number)
        return turn

    def _issued(self, call: ToolCall) -> Call:
        given = before_injection(self.declarations.tool(call["name"]), call)
        return Call(call["name"], call["args"], self.declarations.of(call["name"]), call["id"], given)

    @property
    def unsettled(self) -> Unsettled:
        """What to do where the calls of a turn cannot be told to belong together."""
        return self._options.unsettled

    @property
    def settles_each(self) -> bool:
        """Whether each call settles by itself."""
        return self._options.settle == "call"

    def again(
        self, calls: Sequence[ToolCall], turns: Sequence[OpenTurn], arrival: Arrival, identity: Identity
    ) -> Program[Opened]:
        """Return calls that settle by themselves, and have, in new turns under the same names."""
        found: list[OpenTurn] = []
        for call, turn in zip(calls, turns, strict=True):
            found.append((yield from self._turn([call], arrival, identity, turn.name)))
        return Opened.of(*found)

    def _acts(self, calls: Sequence[ToolCall]) -> bool:
        return any(self.declarations.of(call["name"]).kind is not EffectClass.READ for call in calls)


__all__ = ["Opener", "Options"]
