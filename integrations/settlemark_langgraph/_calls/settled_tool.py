"""A tool as its seat calls it, in the real one's place."""

# The stock classes leave the type parameters of `ToolRuntime` open.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest

from settlemark import Gate, Outcome, Queued, UsageError
from settlemark.agents import TOLD, Caller, words
from settlemark.hosting import Program, in_event_loop, run_async, run_sync, to_its_end
from settlemark_langgraph._gates.gates import (
    OWN_QUESTION,
    WrongAnswer,
    as_control,
    as_raised,
    ask,
    edited,
    own_questions,
)
from settlemark_langgraph._messages.messages import answer_from, answer_of, failure, plain, told
from settlemark_langgraph._tools.arguments import (
    BadCall,
    apart,
    arguments_of,
    as_given,
    is_async_only,
    is_plain,
    models_part,
    runs_in_a_thread,
)
from settlemark_langgraph._tools.standing_in import real_tool
from settlemark_langgraph._turns.seated import SeatedCall

_ASYNC = "{tool} is async: it was not run; {remedy}"
_AINVOKE = "call the graph with `await graph.ainvoke(…)`, or give the tool a synchronous function too"
_AWRAP = "give the node an async wrapper: awrap_tool_call=…, or give the tool a synchronous function too"


class _ErrorAnswer(Exception):
    """A tool answered with an error of its own making: for its effect that is a failure."""

    def __init__(self, answer: ToolMessage) -> None:
        super().__init__(answer.text)
        self.answer = answer


class SettledTool:
    """A tool as its seat calls it: the same, but its effect happens in its turn, and once."""

    def __init__(self, tool: BaseTool, seated: SeatedCall, call: ToolCall) -> None:
        self._tool = tool = real_tool(tool)
        self._seated = seated
        self._asked: Mapping[str, Any] = call["args"]
        self._arguments: Mapping[str, Any] = self._asked
        self._settles = seated.turn.undoes
        self._may_wait = seated.may_wait
        self._declaration = seated.declares(tool)
        seated.queued = None
        seated.pair = tool.response_format == "content_and_artifact"

    @property  # type: ignore[misc] # it is only read
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - it is only read
        """The tool's own: a middleware may look whether it has a tool before it, and of which class."""
        return type(self._tool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def invoke(self, call: Any, config: RunnableConfig | None = None) -> Any:
        """Run the tool in its turn and return its result; a held one waits, if it may."""
        caller, in_loop, config = Caller(), in_event_loop(), config or ensure_config()
        if self._settles and is_async_only(self._tool):
            raise UsageError(_ASYNC.format(tool=self._tool.name, remedy=_AWRAP if in_loop else _AINVOKE))
        self._seated.came = True
        self._arguments = arguments_of(self._tool, call, self._asked)
        given = self._given(call)
        if isinstance(given, BadCall):
            return given.invoke({**call, "args": self._arguments}, config)

        def work(call: Any, config: RunnableConfig) -> Any:
            with self._seated.turnstile:
                return self._tool.invoke(self._apart(call), config)

        def run(call: Any) -> Any:
            with self._acting(config) as (inner, ended):
                ended.append(_checked(caller.run(partial(work, call, inner))))
            return next(iter(ended), None)

        with self._telling() as ended:
            program = self._program(
                run, call, given, partial(self._ask, config), may_wait=self._may_wait and not in_loop
            )
            ended.append(run_sync(program))
        return self._result(ended[0])

    async def ainvoke(self, call: Any, config: RunnableConfig | None = None) -> Any:
        """Run the tool in its turn and return its result."""
        caller, config = Caller(), config or ensure_config()
        self._seated.came = True
        self._arguments = arguments_of(self._tool, call, self._asked)
        given = self._given(call)
        if isinstance(given, BadCall):
            return await given.ainvoke({**call, "args": self._arguments}, config)

        async def run(call: Any) -> Any:
            with self._acting(config) as (inner, ended):
                work = self._tool.ainvoke(self._apart(call), inner)
                if self._seated.place.held:
                    # Another call's task releases it: this one's context goes along.
                    ended.append(_checked(await caller.awaited(work)))
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

    def _apart(self, call: Any) -> Any:
        """Return a call with a copy of the model's arguments; in the place of a forged one stands what was injected."""
        return apart(call, models_part(self._tool, self._arguments))

    def _ask(self, config: RunnableConfig, gate: Gate) -> Any:
        """Return the answer to the question whether this call may act."""
        try:
            return ask(gate, config, beside=self._seated.beside)
        except GraphInterrupt:
            self._seated.asks = True
            raise

    @contextmanager
    def _acting(self, config: RunnableConfig) -> Generator[tuple[RunnableConfig, list[Any]]]:
        """Run the tool under a config of its own, in which its questions have their own numbers; keep its answer."""
        # A release that failed is tried again; one that asked a human is not to ask twice.
        if isinstance(self._seated.control, GraphInterrupt):
            raise self._seated.control
        effect, asks = self._seated.effect, None
        if effect is not None and effect.key and self._settles:
            config, asks = own_questions(config, effect.disposed.question)
        try:
            try:
                yield config, []
            except Exception as error:
                raise as_control(error) from None
        except GraphInterrupt as control:
            self._seated.asks = True
            if self._seated.place.held:
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
        placed = self._seated.place.placed.given
        if placed is not None and self._is_as_placed(call["args"]):
            return placed
        try:
            return as_given(self._tool, call, own=self._arguments)
        except Exception as error:
            return BadCall.of(self._tool, error)

    def _is_as_placed(self, given: Mapping[str, Any]) -> bool:
        """Whether a call came with the very arguments that its place was given by: they were parsed there."""
        issued = self._seated.place.arguments
        if self._declaration is not None or given.keys() != issued.keys():
            return False
        return all(is_plain(value) and value is issued[name] for name, value in given.items())

    def _leave_behind(self) -> None:
        """Note that a held effect leaves although its caller gave up: the answer is then what became of it."""
        effect = self._seated.effect
        if effect is not None and effect.held and effect.outcome not in (Outcome.DROPPED, Outcome.FAILED):
            self._seated.queued = effect

    def _program(
        self, run: Any, call: Any, given: Mapping[str, Any] | None, ask: Callable[[Gate], Any], *, may_wait: bool
    ) -> Program[Any]:
        seated = self._seated

        def remake(arguments: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any] | None]:
            made, taken = edited(self._tool, call, arguments, self._arguments)
            return partial(run, made), taken

        return seated.turn.perform(
            seated.place,
            partial(run, self._apart(call)),
            self._arguments,
            given=given,
            because=seated.because,
            pack=plain,
            unpack=partial(answer_from, call=seated.call, pair=seated.pair),
            ask=ask if seated.asks_graph else None,
            remake=remake,
            may_wait=may_wait,
            declaration=self._declaration,
        )

    @contextmanager
    def _telling(self) -> Generator[list[Any]]:
        ended: list[Any] = []
        try:
            yield ended
        except _ErrorAnswer as error:
            ended.append(error.answer)
        except WrongAnswer as control:
            raise control.error from None
        except TOLD as error:
            if self._seated.raises:
                raise
            ended.append(told(self._seated.call, words(error)))

    def _result(self, result: Any) -> Any:
        seated = self._seated
        if seated.control is not None:
            raise as_raised(seated.control)
        if isinstance(result, Queued):
            seated.queued = seated.effect
            return told(seated.call, str(result), status="success")
        return answer_of(result, seated.call, pair=seated.pair)


class SettledRequest(ToolCallRequest):
    """A request whose tool is the one that its seat calls, whichever a wrapper puts in its place."""

    def __init__(self, tool_call: ToolCall, tool: BaseTool | None, state: Any, runtime: Any) -> None:
        seated, kind = SeatedCall.of(runtime), type(cast("object", tool))
        if seated is not None and tool is not None and kind is not SettledTool:
            tool = cast("BaseTool", SettledTool(tool, seated, tool_call))
            seated.came = False
        super().__init__(tool_call, tool, state, runtime)


def settled(request: ToolCallRequest) -> ToolCallRequest:
    """Return the request with the tool as its seat calls it, if it has a seat, and so with each that is made of it."""
    if SeatedCall.of(request.runtime) is None:
        return request
    return SettledRequest(request.tool_call, request.tool, request.state, request.runtime)


def _checked(answer: Any) -> Any:
    if isinstance(answer, ToolMessage) and failure(answer) is not None:
        raise _ErrorAnswer(answer)
    return answer


__all__ = ["settled"]
