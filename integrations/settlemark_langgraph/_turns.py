"""The turns of a node: each a transaction, also where LangGraph sends the calls of one turn to a task each.

Where every call is a task of its own (`create_agent`, `create_react_agent` of version 2, `Send`), the tasks of a
superstep share one transaction: the first that arrives opens it and seats the calls of all, in LangGraph's order
of tasks, which is the order in which the model issued them. A task that ends without having come (a middleware
answered in its place), or that was over in an earlier process, is taken for answered: nobody waits for it.
"""

# Whatever a graph sends comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt

from settlemark import EffectClass, Settlement, UsageError
from settlemark.hosting import Batch, Once, Order, Park, Program, Turn, open_batch, run_async, run_sync, running_loop
from settlemark_langgraph._arguments import before_injection
from settlemark_langgraph._boundaries import Settle, boundaries_of
from settlemark_langgraph._candidates import candidates_of
from settlemark_langgraph._checkpointer import refuse_without_checkpoints
from settlemark_langgraph._declarations import NodeDeclarations
from settlemark_langgraph._identity import Identity, identify
from settlemark_langgraph._memory import Memory
from settlemark_langgraph._messages import left_behind, rationale
from settlemark_langgraph._seated import Invocation, SeatedCall, Visit
from settlemark_langgraph._superstep import Superstep, Task

TRIES = 20
"""How often a turn that loses races is tried in all."""
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


class Turns:
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
        self.memory = memory
        self.declarations = declarations
        self._order: Order = order
        self._settle: Settle = settle
        self._park: Park = park
        self._may_touch = (may_touch,) if isinstance(may_touch, str) else tuple(may_touch)
        self._unattended: set[asyncio.Task[Any]] = set()
        self._shared: dict[str, SharedTurn] = {}
        self._lock = threading.Lock()

    def visit(self, calls: Sequence[ToolCall], arrival: Arrival, *, sent: bool) -> Program:
        """Return what one run of a node has of its turn; `sent` says that these calls are not the whole of it."""
        superstep = arrival.superstep if sent else None
        if superstep is not None and len(calls_in(superstep.own.given)) == len(calls):
            return (yield from self._join(calls, superstep, arrival))
        if sent and superstep is None:
            self._warn_of_a_fan_out(calls, arrival)
        identity = arrival.identity
        return Visit((yield from self.open(calls, arrival, identity, identity.name)))

    def _join(self, calls: Sequence[ToolCall], superstep: Superstep, arrival: Arrival) -> Program:
        identity = arrival.identity
        name = identity.shared_by(superstep.own.node)
        while True:
            with self._lock:
                turn = self._shared.get(name)
                if turn is None or turn.is_past_for(superstep):
                    turn = self._shared[name] = SharedTurn(self, name, superstep)
            visit: Visit | None = yield from turn.arrive(calls, superstep, arrival, identity)
            if visit is not None:
                return visit

    def open(
        self,
        calls: Sequence[ToolCall],
        arrival: Arrival,
        identity: Identity,
        name: str | None,
        *,
        place: int | None = None,
    ) -> Program:
        """Return a seat for each call, in a transaction of this name; with `settle="call"` each in one of its own.

        `place` is the turn's among the tasks of its superstep, where that is not the arriving task's.
        """
        if self._settle != "call":
            invocation: Invocation = yield from self._invocation(calls, calls, arrival, identity, name, place=place)
            return invocation.calls
        turn = self.settlement.turn(order=self._order, stop_on_failure=False, holds=False)
        seats: list[SeatedCall] = []
        for number, call in enumerate(calls):
            own = replace(identity, ordinal=f"{identity.ordinal}/{number:04d}")
            called = None if name is None else f"{name}/{number}"
            invocation = yield from self._invocation([call], calls, arrival, own, called, turn)
            seats.extend(invocation.calls)
        return seats

    def _invocation(
        self,
        calls: Sequence[ToolCall],
        issued: Sequence[ToolCall],
        arrival: Arrival,
        identity: Identity,
        name: str | None,
        turn: Turn | None = None,
        place: int | None = None,
    ) -> Program:
        memory = self.memory
        task = None if memory is None else memory.task(name, calls)
        because = rationale(arrival.messages, [call["id"] for call in issued])
        position = within = None
        superstep = arrival.superstep
        if memory is None:
            position = ((yield from self.settlement.epoch_for(identity.superstep)), identity.ordinal)
            if not identity.resumable:
                self.settlement.tell_once(
                    "no checkpointer",
                    "this graph runs without a checkpointer or a thread_id: what it settles is settled, but a resume"
                    ' cannot know it again; compile(checkpointer=…) and pass {"configurable": {"thread_id": …}}',
                )
            elif superstep is not None and self._acts(calls):
                # With durability="async" they may be stored late: who died before would leave acts under a lost name.
                yield from superstep.until_stored()
        if superstep is not None and memory is None and identity.resumable and name is not None:
            yield from boundaries_of(self.settlement).leave_behind(identity, superstep)
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
        batch: Batch = yield from open_batch(
            self.settlement,
            name if memory is None else memory.name(task),
            run=identity.run,
            within=within,
            turn=turn,
            order=self._order,
            position=position,
            may_touch=self._may_touch,
            undoes=memory is None,
            resumable=identity.resumable if memory is None else task is not None,
            let_through=(GraphInterrupt,),
            park=self._park,
        )
        limit = arrival.config.get("max_concurrency")
        invocation = Invocation(batch, because, limit=limit, raises=arrival.raises, last=arrival.last, task=task)
        try:
            for call in calls:
                parsed = before_injection(self.declarations.tool(call["name"]), call)
                declaration = self.declarations.of(call["name"])
                seat = batch.seat(declaration, call["args"], given=parsed, call_id=call["id"])
                invocation.calls.append(SeatedCall(invocation, call, seat))
        except Exception as error:
            yield from batch.abandon(error)
            raise
        return invocation

    @property
    def settles_each(self) -> bool:
        """Whether each call settles by itself."""
        return self._settle == "call"

    def again(self, seats: Sequence[SeatedCall], arrival: Arrival, identity: Identity) -> Program:
        """Return new seats for calls that settle by themselves, and have, under the same names."""
        found: list[SeatedCall] = []
        for seated in seats:
            name = seated.invocation.batch.attempt.name
            invocation = yield from self._invocation([seated.call], [seated.call], arrival, identity, name)
            found.extend(invocation.calls)
        return found

    def _acts(self, calls: Sequence[ToolCall]) -> bool:
        return any(self.declarations.of(call["name"]).kind is not EffectClass.READ for call in calls)

    def settle_unattended(self, program: Program) -> None:
        """Run a program that nobody else is there to run: the last task of a turn ended without having come."""
        loop = running_loop()
        if loop is None:
            run_sync(program)
            return
        task = loop.create_task(run_async(program))
        self._unattended.add(task)  # else nothing holds it
        task.add_done_callback(self._unattended.discard)

    def finish(self, superstep: Superstep | None) -> Program:
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
        if self.memory is not None:
            for invocation in visit.invocations:
                self.memory.keep(invocation.task, invocation.batch)

    def _warn_of_a_fan_out(self, calls: Sequence[ToolCall], arrival: Arrival) -> None:
        others = left_behind(arrival.messages, calls)
        if not others:
            return
        lost = "their order is lost" if self.memory is not None else "their order and their settling together are lost"
        self.settlement.tell_once(
            "fanned out",
            f"the calls of one turn ({', '.join([*(call['name'] for call in calls), *others])}) are sent to a node"
            f" one by one (Send), and this release of LangGraph does not tell which tasks belong together: so each is"
            f' a turn of its own and {lost}: use create_react_agent(…, version="v1"), or an edge to the node in the'
            " place of Send",
        )


class SharedTurn:
    """A turn whose calls are tasks of their own: opened by the first that arrives, settled by the last."""

    def __init__(self, turns: Turns, name: str, superstep: Superstep) -> None:
        self._turns = turns
        self._name = name
        self._superstep = superstep
        self._tasks = [(task, calls_in(task.given)) for task in superstep.tasks(superstep.own.node)]
        self._seats: dict[str, list[SeatedCall]] = {}
        self._unseen = [task for task, _ in self._tasks]  # nobody has seen them come yet, nor waits for their end
        self._looking = 0
        self._arrived: set[str] = set()
        self._absent: set[str] = set()
        self._once = Once(name)
        self._lock = threading.Lock()
        self.loop = superstep.loop
        superstep.at_end(lambda _error: turns.finish(superstep))

    @property
    def is_past(self) -> bool:
        """Whether it is settled, or could not be opened: whoever comes now enters its name anew."""
        seats: list[SeatedCall] | None = self._once.value
        settled = seats is not None and all(seated.invocation.batch.settled for seated in seats)
        return settled or self._once.failed is not None

    @property
    def abandoned(self) -> bool:
        """Whether it was cut short, and undone for that."""
        seats: list[SeatedCall] | None = self._once.value
        return seats is not None and any(seated.invocation.batch.abandoned for seated in seats)

    def is_past_for(self, superstep: Superstep) -> bool:
        """Whether a task enters its name anew: of a turn that was abandoned only the one that was cut short may.

        Whatever runs that again does so knowingly; the other tasks just come late, when nobody wants their calls.
        """
        if not (self.abandoned and self.loop == superstep.loop):
            return self.is_past
        return self.is_past and any(seated.cut for seated in self._seats.get(superstep.own.id, ()))

    def _open(self, arrival: Arrival, identity: Identity) -> Program:
        calls = [call for _, found in self._tasks for call in found]
        place = self._superstep.index_of(self._tasks[0][0])
        seats: list[SeatedCall] = yield from self._turns.open(calls, arrival, identity, self._name, place=place)
        for seated in seats:
            seated.invocation.shared = True
            seated.invocation.may_wait = arrival.room >= self._superstep.size
            seated.invocation.batch.look = self._look
        rest = iter(seats)
        self._seats = {task.id: [next(rest) for _ in found] for task, found in self._tasks}
        return seats

    def arrive(self, calls: Sequence[ToolCall], superstep: Superstep, arrival: Arrival, identity: Identity) -> Program:
        """Return what one task has of it, or None when the turn is past, and is to be entered anew.

        Raises:
            Refused: it was abandoned, and this task was answered.
            BaseException: it could not be opened, by whoever came first.
        """
        everyone: list[SeatedCall] = yield from self._once.get(lambda: self._open(arrival, identity))
        own = superstep.own
        seats = self._seats.get(own.id, [])
        with self._lock:
            comes_again = own.id in self._arrived or own.id in self._absent or len(seats) != len(calls)
            self._arrived.add(own.id)
        if comes_again:
            return (yield from self._again(seats or everyone, arrival, identity))
        for seated, call in zip(seats, calls, strict=True):
            seated.call = call
        self._look()
        return Visit(seats)

    def _again(self, seats: list[SeatedCall], arrival: Arrival, identity: Identity) -> Program:
        """Do as `arrive` for what comes again: something calls it that does not know of the others, as a retry does.

        The turn is over first; with `settle="call"` there is nothing to wait for.
        """
        if self._turns.settles_each and all(seated.invocation.batch.settled for seated in seats):
            return Visit((yield from self._turns.again(seats, arrival, identity)))
        if not all(seated.invocation.may_wait for seated in seats):
            names = ", ".join(seated.call["name"] for seated in seats)
            raise UsageError(
                f"{names} was called again before the other calls of its turn are over, and too few tasks run at once"
                " to wait for them: nothing was run; put what retries behind SettlementMiddleware, or raise"
                " max_concurrency"
            )
        for seated in seats:
            yield from seated.invocation.batch.finish(seated.place)
            seated.invocation.batch.refuse_late(seated.place)
        return None

    def finish(self) -> Program:
        """Wait until it is settled, all its tasks being over."""
        seats: list[SeatedCall] | None = self._once.value
        for seated in seats or ():
            yield from seated.invocation.batch.finish(seated.place)

    def _look(self) -> float | None:
        """Find tasks that are over without having come; return the seconds after which to look again, or None."""
        if self._once.value is None:
            return None
        with self._lock:
            if not (self._unseen or self._looking):
                return None
            unseen, self._unseen = [task for task in self._unseen if task.id not in self._arrived], []
            self._looking += 1
        try:
            unseen = self._superstep.watch(unseen, self._take_for_answered)
        finally:
            with self._lock:
                self._looking -= 1
                self._unseen += unseen
        # What another thread looks at just now may turn out to be unknown still.
        return self._superstep.pause if self._unseen or self._looking else None

    def _take_for_answered(self, task: Task, dropped: bool) -> None:
        with self._lock:
            if task.id in self._arrived or task.id in self._absent:
                return
            self._absent.add(task.id)
        for seated in self._seats[task.id]:
            batch = seated.invocation.batch
            if dropped and batch.undoes:
                # Its tool would have run: without it the turn is half of what the model asked for.
                self._turns.settle_unattended(batch.abandon(asyncio.CancelledError()))
                continue
            batch.absent(seated.place)
            if batch.unattended:
                self._turns.settle_unattended(batch.finish(seated.place))


def calls_in(given: Any) -> list[ToolCall]:
    """Return the calls that a task was sent: a list of them, or one with its context.

    >>> calls_in([{"type": "tool_call", "name": "book", "args": {}, "id": "1"}])[0]["name"]
    'book'
    """
    if isinstance(given, dict) and given.get("__type") == "tool_call_with_context":
        return [given["tool_call"]]
    items: list[Any] = given if isinstance(given, list) else []
    return [item for item in items if _is_call(item)]


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "tool_call"


__all__ = ["TRIES", "Arrival", "Turns", "calls_in"]
