"""One run of a node: what it has of a turn, and what LangGraph is told of that."""

# The stock classes leave the type parameters of `ToolRuntime` open.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt

from settlemark import Effect, Outcome, Queued, SettlemarkError
from settlemark.agents import Placed, words
from settlemark.hosting import Program
from settlemark_langgraph._gates.gates import NothingMore, as_control, asked_at_once
from settlemark_langgraph._messages.handoffs import flat, for_all, goes_to_parent
from settlemark_langgraph._messages.messages import answer_of, rationale, told
from settlemark_langgraph._turns.seated import Arrival, SeatedCall


class Visit:
    """What one run of a node has of a turn: a seat for each of its calls.

    Args:
        calls: the run's, in issuance order.
        placed: their places.
        arrival: what the run brought along.
        shared: the turn has calls of other tasks as well.
        may_wait: the run's task can wait until all calls of the turn are over.
    """

    def __init__(
        self,
        calls: Sequence[ToolCall],
        placed: Iterable[Placed],
        arrival: Arrival,
        *,
        shared: bool = False,
        may_wait: bool = True,
    ) -> None:
        because = rationale(arrival.messages, [call["id"] for call in calls])
        self.calls = [
            SeatedCall(call, place, arrival, because, shared=shared, may_wait=may_wait)
            for call, place in zip(calls, placed, strict=True)
        ]
        for number, seated in enumerate(self.calls if len(calls) > 1 and not shared else ()):
            seated.beside = number
        self.turns = list(dict.fromkeys(seated.turn for seated in self.calls))
        self.tasks: set[asyncio.Task[Any]] = set()
        self._shared = shared
        self._may_wait = may_wait
        self._arrival = arrival
        self._last = arrival.last
        self._limit = arrival.limit
        self._lock = threading.Lock()

    @property
    def is_within_a_graph(self) -> bool:
        """Whether a graph runs the node; else its caller gets its answers as they are."""
        return self._arrival.superstep is not None

    def begin(self, call: ToolCall, runtime: Any) -> SeatedCall:
        """Return the seat of a call, when the visit has this call alone."""
        seated = self.take(call, runtime)
        assert seated is not None, "the visit was made for this call"
        return seated

    def with_room(self, config: RunnableConfig) -> RunnableConfig:
        """Return the config with a thread for each call: a held one keeps its thread while it waits.

        How many tools work at once stays what it was.
        """
        if not self._waits:
            return config
        if self._limit is not None:
            turnstile = threading.BoundedSemaphore(self._limit)
            for seated in self.calls:
                seated.turnstile = turnstile
        return {**config, "max_concurrency": max(len(self.calls), self._limit or 0)}

    @property
    def _waits(self) -> bool:
        return len(self.calls) > 1 and (self._shared or any(turn.holds for turn in self.turns))

    def take(self, call: ToolCall, runtime: Any) -> SeatedCall | None:
        """Return the seat of a call that begins; calls with equal ids are told apart by identity."""
        with self._lock:
            seated = next((s for s in self.calls if s.call is call and not s.taken), None)
            if seated is None:
                return None
            seated.taken = True
        if self._waits:
            config = cast("RunnableConfig", runtime.config)
            config.pop("max_concurrency", None)
            if self._limit is not None:
                config["max_concurrency"] = self._limit
        seated.attach(runtime)
        return seated

    def abandon(self, error: BaseException) -> Program[None]:
        """End what this run of the node has begun: it was cut short.

        A turn that it shares with others' tasks goes on when all of its own calls are over: they were told why.
        """
        error = as_control(error)
        for turn in self.turns:
            own = [seated for seated in self.calls if seated.turn is turn]
            told = isinstance(error, Exception) and all(seated.place.over for seated in own)
            if not (self._shared and told):
                for seated in own:
                    seated.cut = True
                yield from turn.abandon(error)

    @property
    def is_settled(self) -> bool:
        """Whether every call was run in its seat, as far as this run of the node can tell."""
        return not self._may_wait or all(turn.settled for turn in self.turns)

    @property
    def lost_race(self) -> bool:
        """Whether it is to be run again: nothing of it happened."""
        return not self._last and any(turn.lost_race for turn in self.turns)

    def answer_to(self, seated: SeatedCall) -> Any:
        """Return a call's answer as far as it is known: what it was told, or what became of it since."""
        turn, call = seated.turn, seated.call
        try:
            found = turn.last_word(seated.place, seated.answer if seated.queued is None else Queued(seated.queued))
        except Exception as error:
            return told(call, words(error))
        if goes_to_parent(seated.answer) and turn.is_undone:
            return told(call, f"{call['name']} handed nothing over: its turn was undone ({turn.because})")
        if not turn.is_final:
            return self._for_all(seated) if goes_to_parent(seated.answer) else seated.marked()
        return self._for_all(seated) if seated.queued is None else answer_of(found, call, pair=seated.pair)

    def _for_all(self, seated: SeatedCall) -> Any:
        """Return a call's answer; of commands for the parent graph, one that does what those of all calls do.

        LangGraph obeys one command of a superstep alone, where the calls of a turn are its tasks.
        """
        if not self._shared or not goes_to_parent(seated.answer):
            return seated.answer
        turn = seated.turn
        found: list[Any] = []
        for place in turn.calls:
            effect = turn.acting(place)
            if place is seated.place:
                found.append(seated.answer)
            elif effect is not None and effect.outcome is Outcome.CONFIRMED:
                call = ToolCall(name=place.tool, args=dict(place.arguments), id=place.call_id)
                found.append(answer_of(effect.result, call))
        return for_all(flat(found))

    def answered(self, seated: SeatedCall, writer: Callable[[Any], object] | None) -> Any:
        """Return the answer to a call that is over, and tell a custom stream, if any, what became of its effect."""
        seated.answered()
        self.raise_what_escaped()
        if writer is not None:
            self.tell(writer)
        return self.answer_to(seated)

    def tell(self, writer: Callable[[Any], object]) -> None:
        """Tell the graph's custom stream what became of its effects: one mapping for each, with a key "settlemark"."""
        for seated in self.calls:
            effect = seated.effect
            if effect is not None and effect.key and seated.turn.undoes:
                writer({"settlemark": self._told_of(seated, effect)})

    @staticmethod
    def _told_of(seated: SeatedCall, effect: Effect) -> dict[str, Any]:
        return {
            "transaction": seated.turn.name,
            "tool": effect.declaration.tool,
            "scope": effect.scope_text,
            "key": effect.key,
            "call_id": seated.call["id"],
            "outcome": effect.outcome.value,
            "tag": None if effect.tag is None else effect.tag.value,
            "note": effect.disposed.told,
        }

    def raise_what_escaped(self) -> None:
        """Raise the first error that stock would have let out, now that all of its calls are over."""
        for turn in self.turns:
            if turn.broken is not None:
                raise turn.broken
        escaped = [seated.error for seated in self.calls if seated.error is not None]
        own = [error for error in escaped if not isinstance(error, SettlemarkError)]
        for error in (*own, *escaped):
            if isinstance(error, GraphInterrupt) and all(seated.only_waits for seated in self.calls):
                # Its task is to run again; another's has asked. LangGraph keeps what it knows of a task as long as none
                # of its interrupts comes: an answered question would stay open.
                answered = any(seated.was_answered for seated in self.calls)
                raise GraphInterrupt(NothingMore() if answered else ()) from error
            if type(error) is GraphInterrupt and len(self.calls) > 1:
                raise asked_at_once(escaped) from error
            raise error


__all__ = ["Visit"]
