"""The calls of one run of a node, each in its seat: what LangGraph made of a call, beside its place in its turn."""

# The stock class leaves the type parameters of `ToolRuntime` open.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from settlemark import Declaration, Effect
from settlemark.agents import OpenTurn, Placed
from settlemark.hosting import Program
from settlemark_langgraph._gates.gates import as_control, is_unasked
from settlemark_langgraph._identity import Identity, identify
from settlemark_langgraph._messages.acknowledged import marked
from settlemark_langgraph._messages.messages import failure
from settlemark_langgraph._supersteps.superstep import Superstep

_ATTRIBUTE = "_settlemark_seat"
_DEFAULT_THREADS = min(32, (os.cpu_count() or 1) + 4)


@dataclass(frozen=True)
class Arrival:
    """What a run of a node brings along.

    Attributes:
        runtime: LangGraph's.
        config: the node's.
        state: the node's.
        messages: the state's, for what the model said when it issued the calls.
        raises: settlement errors are raised, not told to the model.
        last: the run is not repeated when it loses a race.
        threads: LangGraph runs its tasks in threads.
        declares: returns what a tool does.
    """

    runtime: Any
    config: RunnableConfig
    state: Any
    messages: Any
    raises: bool
    last: bool
    threads: bool
    declares: Callable[[BaseTool], Declaration]

    @cached_property
    def identity(self) -> Identity:
        """Who it is."""
        return identify(self.runtime, self.config)

    @property
    def superstep(self) -> Superstep | None:
        """The superstep it runs in, where LangGraph tells."""
        return Superstep.of(self.config)

    @property
    def attempt(self) -> int:
        """Which run of its task it is, as LangGraph retries it; 1 where LangGraph does not tell."""
        found = getattr(getattr(self.runtime, "execution_info", None), "node_attempt", 1)
        return found if isinstance(found, int) else 1

    @property
    def limit(self) -> int | None:
        """How many tools may work at once; None for as many as there are."""
        return self.config.get("max_concurrency")

    @property
    def room(self) -> float:
        """How many tasks LangGraph runs at once."""
        return self.limit if self.limit is not None else _DEFAULT_THREADS if self.threads else float("inf")


def asks_graph(turn: OpenTurn, identity: Identity) -> bool:
    """Whether a turn's questions are the graph's to show; where nothing brings it back, an approver is asked."""
    return turn.attempt.approver is None or identity.resumable


class SeatedCall:
    """One call of the model, and its place in a turn.

    Args:
        call: as LangGraph has it.
        placed: the open turn, and the call's place in it.
        arrival: what its run of the node brought along.
        because: what the model said when it issued the call.
        shared: calls of the turn are other tasks' as well.
        may_wait: the call's task can wait until all calls of the turn are over.

    Attributes:
        cut: the call's run of the node was cut short.
        turnstile: entered to run the tool, where not all tools may work at once.
        came: nothing else answered in its tool's place.
        pair: its tool returns a content and an artifact.
        asks_graph: a question about it is the graph's to show.
        beside: its place among the calls of its task, which may ask about several at once; None: it is alone there.
    """

    def __init__(
        self, call: ToolCall, placed: Placed, arrival: Arrival, because: str | None, *, shared: bool, may_wait: bool
    ) -> None:
        self.call = call
        self.turn, self.place = placed
        self.because = because
        self.raises = arrival.raises
        self._declares = arrival.declares
        self.shared = shared
        self.may_wait = may_wait
        self.asks_graph = asks_graph(self.turn, arrival.identity)
        self.turnstile: AbstractContextManager[Any] = nullcontext()
        self.taken = False
        self.came = True
        self.cut = False
        self.answer: Any = None
        self.error: BaseException | None = None
        self.queued: Effect | None = None
        self.control: GraphBubbleUp | None = None
        self.config: RunnableConfig = {}
        self.asks = False
        self.pair = False
        self.beside: int | None = None

    def attach(self, runtime: Any) -> None:
        """Let `of` find the seat by its runtime, not by a context variable: a wrapper may use another thread.

        A request that a wrapper gives another state has another runtime, but the same config.
        """
        setattr(runtime, _ATTRIBUTE, self)
        self.config = runtime.config
        if isinstance(runtime.config, dict):
            cast("dict[str, Any]", runtime.config)[_ATTRIBUTE] = self

    def declares(self, tool: BaseTool) -> Declaration | None:
        """Return what a tool does that is not the one that the turn knows the call by; None for that."""
        found = self._declares(tool)
        return None if found == self.place.declaration else found

    @staticmethod
    def of(runtime: object) -> SeatedCall | None:
        """Return the seated call that a tool runtime was made for."""
        found = getattr(runtime, _ATTRIBUTE, None)
        if not isinstance(found, SeatedCall):
            config = getattr(runtime, "config", None)
            found = cast("dict[str, Any]", config).get(_ATTRIBUTE) if isinstance(config, dict) else None
        return found if isinstance(found, SeatedCall) else None

    def leave(self) -> Program[None]:
        """Tell the turn that the call is over, and how it ended; wait for the other tasks' calls, where it can."""
        # An error that a wrapper answered in the tool's place, as for a rejected call, is no failure of the tool.
        failed = None if self.error is not None or not self.came else failure(self.answer)
        if isinstance(self.error, GraphInterrupt):
            # A call that waits for another's question has the other's error; a middleware may ask in a tool's place.
            others = (call for call in self.turn.calls if call is not self.place)
            self.asks = self.asks or all(call.control is not self.error for call in others)
        error = None if self.error is None else as_control(self.error)
        yield from self.turn.leave(self.place, failed=failed, error=error)
        if self.shared and self.may_wait and self.is_answered:
            yield from self.turn.finish(self.place)

    @property
    def is_answered(self) -> bool:
        """Whether the call has an answer or an error; a cancelled one has neither."""
        return self.error is None or isinstance(self.error, Exception)

    @property
    def effect(self) -> Effect | None:
        """What acts for the call, as far as that came."""
        return self.turn.acting(self.place)

    @property
    def only_waits(self) -> bool:
        """Whether the call's task asks nothing itself, and waits for what another task of its turn asks."""
        return self.shared and not self.asks

    @property
    def was_answered(self) -> bool:
        """Whether its task has asked something, and was answered."""
        return not is_unasked(self.config)

    def marked(self) -> Any:
        """Return the answer with a mark: the record will have the last word on the call."""
        effect = self.effect
        return marked(self.answer, effect.key) if effect is not None and effect.key else self.answer

    def answered(self) -> Any:
        """Return the answer; an exception waits for the siblings, a cancellation does not."""
        if self.error is not None and not self.is_answered:
            raise self.error
        return self.answer


__all__ = ["Arrival", "SeatedCall", "asks_graph"]
