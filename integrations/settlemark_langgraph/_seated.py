"""One invocation of a node, its calls in their seats, and the tool a seat calls in the real one's place."""

# The stock classes leave the type parameters of `ToolRuntime` open.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, cast

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest

from settlemark import Effect, Gate, Outcome, Queued, SettlemarkError, UsageError
from settlemark.agents import TOLD, words
from settlemark.hosting import Batch, BatchCall, Program, carried_into, in_event_loop, run_async, run_sync, to_its_end
from settlemark_langgraph._acknowledged import marked
from settlemark_langgraph._arguments import BadCall, apart, as_given, is_async_only, runs_in_a_thread
from settlemark_langgraph._gates import OWN_QUESTION, ask, edited, is_unasked, own_questions
from settlemark_langgraph._messages import answer_from, answer_of, failure, plain, told

_ATTRIBUTE = "_settlemark_seat"
_ASYNC = "{tool} is async: it was not run; {remedy}"
_AINVOKE = "call the graph with `await graph.ainvoke(…)`, or give the tool a synchronous function too"
_AWRAP = "give the node an async wrapper: awrap_tool_call=…, or give the tool a synchronous function too"


class _ErrorAnswer(Exception):
    """A tool answered with an error of its own making: for its effect that is a failure."""

    def __init__(self, answer: ToolMessage) -> None:
        super().__init__(answer.text)
        self.answer = answer


class Invocation:
    """A turn: its batch and its seated calls, in issuance order.

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
        self, batch: Batch, because: str | None, *, limit: int | None, raises: bool, last: bool, task: str | None
    ) -> None:
        self.batch = batch
        self.because = because
        self.limit = limit
        self.raises = raises
        self.last = last
        self.task = task
        self.shared = False
        self.may_wait = True
        self.calls: list[SeatedCall] = []
        self.turnstile: AbstractContextManager[Any] = nullcontext()


class Visit:
    """What one run of a node has of a turn: all its seats, or those of its own task."""

    def __init__(self, calls: list[SeatedCall]) -> None:
        self.calls = calls
        self.invocations = list(dict.fromkeys(seated.invocation for seated in calls))
        self.tasks: set[asyncio.Task[Any]] = set()
        self._limit = self.invocations[0].limit
        self._lock = threading.Lock()

    def begin(self, request: ToolCallRequest) -> SeatedCall:
        """Return the seat of a request's call, when the visit has this call alone."""
        seated = self.take(request.tool_call, request.runtime)
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
            for invocation in self.invocations:
                invocation.turnstile = turnstile
        return {**config, "max_concurrency": max(len(self.calls), self._limit or 0)}

    @property
    def _waits(self) -> bool:
        return len(self.calls) > 1 and any(turn.batch.holds or turn.shared for turn in self.invocations)

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
        # On the runtime, not in a context variable: a wrapper may execute the call in a thread of its own.
        setattr(runtime, _ATTRIBUTE, seated)
        seated.config = runtime.config
        return seated

    def leave(self, seated: SeatedCall) -> Program:
        """Tell the batch that a call is over; where others' tasks wait for it, and can, it waits for them, too."""
        yield from seated.leave()
        invocation = seated.invocation
        if invocation.shared and invocation.may_wait and seated.is_answered:
            yield from invocation.batch.finish(seated.place)

    def abandon(self, error: BaseException) -> Program:
        """End what this run of the node has begun: it was cut short.

        A turn that it shares with others' tasks goes on when all of its own calls are over: they were told why.
        """
        for invocation in self.invocations:
            own = [seated for seated in self.calls if seated.invocation is invocation]
            told = isinstance(error, Exception) and all(seated.place.over for seated in own)
            if not (invocation.shared and told):
                for seated in own:
                    seated.cut = True
                yield from invocation.batch.abandon(error)

    @property
    def is_settled(self) -> bool:
        """Whether every call was run in its seat, as far as this run of the node can tell."""
        return all(turn.batch.settled or not turn.may_wait for turn in self.invocations)

    @property
    def lost_race(self) -> bool:
        """Whether it is to be run again: nothing of it happened."""
        return any(turn.batch.lost_race and not turn.last for turn in self.invocations)

    def answer_to(self, seated: SeatedCall) -> Any:
        """Return a call's answer as far as it is known: what it was told, or what became of it since."""
        batch = seated.invocation.batch
        undone = batch.undone(seated.place)
        if undone is not None:
            return told(seated.call, undone)
        if not batch.settled or batch.joined or batch.suspended:
            return seated.marked()
        if seated.queued is None:
            return seated.answer
        try:
            return answer_of(batch.result(seated.queued), seated.call)
        except Exception as error:
            return told(seated.call, words(error))

    def tell(self, writer: Callable[[Any], object]) -> None:
        """Tell the graph's custom stream what became of its effects: one mapping for each, with a key "settlemark"."""
        for seated in self.calls:
            effect = seated.effect
            if effect is not None and effect.key and seated.invocation.batch.undoes:
                writer({"settlemark": self._told_of(seated, effect)})

    @staticmethod
    def _told_of(seated: SeatedCall, effect: Effect) -> dict[str, Any]:
        attempt = seated.invocation.batch.attempt
        return {
            "transaction": attempt.name, "tool": effect.declaration.tool, "scope": effect.scope_text,
            "key": effect.key, "call_id": seated.call["id"], "outcome": effect.outcome.value,
            "tag": None if effect.tag is None else effect.tag.value, "note": effect.disposed.told,
        }  # fmt: skip

    def raise_what_escaped(self) -> None:
        """Raise the first error that stock would have let out, now that all of its calls are over."""
        for invocation in self.invocations:
            if invocation.batch.broken is not None:
                raise invocation.batch.broken
        escaped = [seated.error for seated in self.calls if seated.error is not None]
        own = [error for error in escaped if not isinstance(error, SettlemarkError)]
        for error in (*own, *escaped):
            if isinstance(error, GraphInterrupt) and all(seated.only_waits for seated in self.calls):
                raise GraphInterrupt from error  # its task is to run again; another's has asked
            raise error


class SeatedCall:
    """One call of the model and its place in the batch.

    Attributes:
        cut: its run of the node was cut short.
    """

    def __init__(self, invocation: Invocation, call: ToolCall, place: BatchCall) -> None:
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

    @staticmethod
    def of(runtime: object) -> SeatedCall | None:
        """Return the seated call that a tool runtime was made for."""
        found = getattr(runtime, _ATTRIBUTE, None)
        return found if isinstance(found, SeatedCall) else None

    def leave(self) -> Program:
        """Tell the batch that this call is over, and how it ended."""
        failed = None if self.error is not None else failure(self.answer)
        if isinstance(self.error, GraphInterrupt):
            # Who waits for the question of another call has that one's; a middleware may ask in the tool's place.
            others = (seated for seated in self.invocation.calls if seated is not self)
            self.asks = self.asks or all(seated.error is not self.error for seated in others)
        return self.invocation.batch.leave(self.place, failed=failed, error=self.error)

    @property
    def is_answered(self) -> bool:
        """Whether it has an answer or an error; a cancelled one has neither."""
        return self.error is None or isinstance(self.error, Exception)

    @property
    def effect(self) -> Effect | None:
        """What acts for it, as far as it came."""
        return self.invocation.batch.acting(self.place)

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


class SettledTool:
    """A tool as its seat calls it: the same, but its effect happens in its turn, and once."""

    def __init__(self, tool: BaseTool, seated: SeatedCall, call: ToolCall) -> None:
        self._tool = tool
        self._seated = seated
        self._arguments = call["args"]
        self._settles = seated.invocation.batch.undoes
        self._may_wait = seated.invocation.may_wait
        seated.queued = None

    @property  # type: ignore[misc] # it is only read
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - it is only read
        """The tool's own: a middleware may look whether it has a tool before it, and of which class."""
        return type(self._tool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def invoke(self, call: Any, config: RunnableConfig | None = None) -> Any:
        """Run the tool in its turn and return its result; a held one waits, if it may."""
        context, in_loop, config = copy_context(), in_event_loop(), config or ensure_config()
        if self._settles and is_async_only(self._tool):
            raise UsageError(_ASYNC.format(tool=self._tool.name, remedy=_AWRAP if in_loop else _AINVOKE))
        given = self._given(call)
        if isinstance(given, BadCall):
            return given.invoke({**call, "args": self._arguments}, config)

        def work(call: Any, config: RunnableConfig) -> Any:
            with self._seated.invocation.turnstile:
                return self._tool.invoke(apart(call, self._arguments), config)

        def run(call: Any) -> Any:
            with self._acting(config) as (inner, ended):
                ended.append(_checked(carried_into(context).run(work, call, inner)))
            return next(iter(ended), None)

        with self._telling() as ended:
            program = self._program(
                run, call, given, partial(self._ask, config), may_wait=self._may_wait and not in_loop
            )
            ended.append(run_sync(program))
        return self._result(ended[0])

    async def ainvoke(self, call: Any, config: RunnableConfig | None = None) -> Any:
        """Run the tool in its turn and return its result."""
        context, config = copy_context(), config or ensure_config()
        given = self._given(call)
        if isinstance(given, BadCall):
            return await given.ainvoke({**call, "args": self._arguments}, config)

        async def run(call: Any) -> Any:
            with self._acting(config) as (inner, ended):
                work = self._tool.ainvoke(apart(call, self._arguments), inner)
                if self._seated.place.seat.held:
                    # Another call's task releases it: this one's context goes along.
                    ended.append(_checked(await asyncio.create_task(work, context=carried_into(context))))
                elif runs_in_a_thread(self._tool):
                    # A cancellation does not reach a thread: what it does is waited for, else nobody would know of it.
                    ended.append(_checked(await to_its_end(work)))
                else:
                    ended.append(_checked(await work))
            return next(iter(ended), None)

        async def ask(gate: Gate) -> Any:
            return self._ask(config, gate)

        with self._telling() as ended:
            try:
                ended.append(await run_async(self._program(run, call, given, ask, may_wait=self._may_wait)))
            except asyncio.CancelledError:
                self._leave_behind()
                raise
        return self._result(ended[0])

    def _ask(self, config: RunnableConfig, gate: Gate) -> Any:
        """Return the answer to the question whether this call may act."""
        try:
            return ask(gate, config)
        except GraphInterrupt:
            self._seated.asks = True
            raise

    @contextmanager
    def _acting(self, config: RunnableConfig) -> Generator[tuple[RunnableConfig, list[Any]]]:
        """Have the tool act with a config of its own, where its questions have their own numbers; keep its answer."""
        # A release that failed is tried again; one that asked a human is not to ask twice.
        if isinstance(self._seated.control, GraphInterrupt):
            raise self._seated.control
        effect, asks = self._seated.effect, None
        if effect is not None and effect.key and self._settles:
            config, asks = own_questions(config, effect.disposed.question)
        try:
            yield config, []
        except GraphInterrupt as control:
            self._seated.asks = True
            if self._seated.place.seat.held:
                self._seated.control = control
            elif effect is not None and asks is not None:
                effect.disposed = effect.disposed._replace(note=OWN_QUESTION, question=asks)
            raise
        except GraphBubbleUp as control:
            # A command for a parent graph: the call is done, and says where to go on.
            self._seated.control = control

    def _given(self, call: Any) -> Mapping[str, Any] | BadCall | None:
        """Return the arguments as the tool will get them, or what stands for a tool that cannot take them."""
        if not self._settles:
            return None  # the tool says itself what it cannot take
        try:
            return as_given(self._tool, call, own=self._arguments)
        except Exception as error:
            return BadCall.of(self._tool, error)

    def _leave_behind(self) -> None:
        """Note that a held effect leaves although its caller gave up: the answer is then what became of it."""
        effect = self._seated.effect
        if effect is not None and effect.held and effect.outcome not in (Outcome.DROPPED, Outcome.FAILED):
            self._seated.queued = effect

    def _program(
        self, run: Any, call: Any, given: Mapping[str, Any] | None, ask: Callable[[Gate], Any], *, may_wait: bool
    ) -> Program:
        invocation = self._seated.invocation

        def remake(arguments: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any] | None]:
            made, taken = edited(self._tool, call, arguments, self._arguments)
            return partial(run, made), taken

        return invocation.batch.perform(
            self._seated.place, partial(run, apart(call, self._arguments)), self._arguments, given=given,
            because=invocation.because, pack=plain, unpack=partial(answer_from, call=self._seated.call), ask=ask,
            remake=remake, may_wait=may_wait,
        )  # fmt: skip

    @contextmanager
    def _telling(self) -> Generator[list[Any]]:
        ended: list[Any] = []
        try:
            yield ended
        except _ErrorAnswer as error:
            ended.append(error.answer)
        except TOLD as error:
            if self._seated.invocation.raises:
                raise
            ended.append(told(self._seated.call, words(error)))

    def _result(self, result: Any) -> Any:
        seated = self._seated
        if seated.control is not None:
            raise seated.control
        if isinstance(result, Queued):
            seated.queued = seated.effect
            return told(seated.call, str(result), status="success")
        return answer_of(result, seated.call)


def settled(request: ToolCallRequest) -> ToolCallRequest:
    """Return the request with the tool as its seat calls it, if it has a seat."""
    seated = SeatedCall.of(request.runtime)
    if seated is None or request.tool is None:
        return request
    tool = SettledTool(request.tool, seated, request.tool_call)
    return request.override(tool=cast("BaseTool", tool))


def _checked(answer: Any) -> Any:
    if isinstance(answer, ToolMessage) and failure(answer) is not None:
        raise _ErrorAnswer(answer)
    return answer


__all__ = ["Invocation", "SeatedCall", "Visit", "settled"]
