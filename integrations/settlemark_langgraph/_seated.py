"""The calls of one turn of a node, each in its seat: what LangGraph made of a call, beside its place in the turn."""

# The stock class leaves the type parameters of `ToolRuntime` open.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from settlemark import Effect
from settlemark.agents import OpenTurn, PlacedCall
from settlemark.hosting import Program
from settlemark_langgraph._acknowledged import marked
from settlemark_langgraph._gates import is_unasked
from settlemark_langgraph._messages import failure

_ATTRIBUTE = "_settlemark_seat"


class Invocation:
    """A turn of a node: the open turn and its seated calls, in issuance order.

    Attributes:
        because: what the model said when it issued them.
        limit: how many tools may work at once; None for as many as there are.
        raises: settlement errors are raised, not told to the model.
        last: it is not to be tried again when it loses a race.
        task: what its retries have in common, where it is remembered in memory only.
        shared: its calls are tasks of their own.
        may_wait: each of these tasks can wait until all are over.
    """

    def __init__(
        self, turn: OpenTurn, because: str | None, *, limit: int | None, raises: bool, last: bool, task: str | None
    ) -> None:
        self.turn = turn
        self.because = because
        self.limit = limit
        self.raises = raises
        self.last = last
        self.task = task
        self.shared = False
        self.may_wait = True
        self.calls: list[SeatedCall] = []
        self.turnstile: AbstractContextManager[Any] = nullcontext()


class SeatedCall:
    """One call of the model and its place in the turn.

    Attributes:
        cut: its run of the node was cut short.
    """

    def __init__(self, invocation: Invocation, call: ToolCall, place: PlacedCall) -> None:
        self.invocation = invocation
        self.call = call
        self.place = place
        self.taken = False
        self.cut = False
        self.answer: Any = None
        self.error: BaseException | None = None
        self.queued: Effect | None = None
        self.control: GraphBubbleUp | None = None
        self.config: RunnableConfig = {}
        self.asks = False

    def attach(self, runtime: Any) -> None:
        """Let `of` find the seat by its runtime, not by a context variable: a wrapper may use another thread."""
        setattr(runtime, _ATTRIBUTE, self)
        self.config = runtime.config

    @staticmethod
    def of(runtime: object) -> SeatedCall | None:
        """Return the seated call that a tool runtime was made for."""
        found = getattr(runtime, _ATTRIBUTE, None)
        return found if isinstance(found, SeatedCall) else None

    def leave(self) -> Program[None]:
        """Tell the turn that this call is over, and how it ended."""
        failed = None if self.error is not None else failure(self.answer)
        if isinstance(self.error, GraphInterrupt):
            # Who waits for the question of another call has that one's; a middleware may ask in the tool's place.
            others = (seated for seated in self.invocation.calls if seated is not self)
            self.asks = self.asks or all(seated.error is not self.error for seated in others)
        return self.invocation.turn.leave(self.place, failed=failed, error=self.error)

    @property
    def is_answered(self) -> bool:
        """Whether it has an answer or an error; a cancelled one has neither."""
        return self.error is None or isinstance(self.error, Exception)

    @property
    def effect(self) -> Effect | None:
        """What acts for it, as far as it came."""
        return self.invocation.turn.acting(self.place)

    @property
    def only_waits(self) -> bool:
        """Whether its task waits for the question of another's, and has never asked one itself."""
        return self.invocation.shared and not self.asks and is_unasked(self.config)

    def marked(self) -> Any:
        """Return its answer, which is not the last word on it; the record will have that."""
        effect = self.effect
        return marked(self.answer, effect.key) if effect is not None and effect.key else self.answer

    def answered(self) -> Any:
        """Return the answer; an exception waits for the siblings, a cancellation does not."""
        if self.error is not None and not self.is_answered:
            raise self.error
        return self.answer


__all__ = ["Invocation", "SeatedCall"]
