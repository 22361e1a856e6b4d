"""LangGraph's `ToolNode` with the effects of its calls settled: in issuance order, once, and undone together."""

# The stock class leaves the type parameters of `Command` and `ToolRuntime` open.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, TypedDict, cast

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import AsyncToolCallWrapper, ToolCallRequest, ToolCallWrapper
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import Unpack

from settlemark import InternalError, Settlement
from settlemark.agents import TRIES, Unsettled
from settlemark.hosting import Order, Park, end_async, run_async, run_sync
from settlemark_langgraph._calls.one_tool import Alone
from settlemark_langgraph._calls.settled_tool import settled
from settlemark_langgraph._candidates.names import Candidate
from settlemark_langgraph._messages.handoffs import flat, for_all, goes_to_parent
from settlemark_langgraph._messages.messages import messages_in
from settlemark_langgraph._supersteps.boundaries import Settle
from settlemark_langgraph._tools.declarations import Declared
from settlemark_langgraph._turns.opening import Opener, Options
from settlemark_langgraph._turns.seated import Arrival, SeatedCall
from settlemark_langgraph._turns.turns import Turns
from settlemark_langgraph._turns.visit import Visit

InputType = Literal["list", "dict", "tool_calls"]
Answer = Any

_here: ContextVar[Visit | None] = ContextVar("settlemark_visit", default=None)


class StockOptions(TypedDict, total=False):
    """What the stock `ToolNode` takes beside its tools."""

    name: str
    tags: list[str] | None
    handle_tool_errors: bool | str | Callable[..., str] | type[Exception] | tuple[type[Exception], ...]
    messages_key: str
    wrap_tool_call: ToolCallWrapper | None
    awrap_tool_call: AsyncToolCallWrapper | None


class _Again(Exception):
    """The invocation lost a race and left nothing: run it again."""


class SequencedToolNode(ToolNode):
    """A `ToolNode` whose calls act in the order in which the model issued them, each once.

    Without a settlement that is all: failures are treated as stock treats them, and what is
    remembered (a node that is retried or resumed repeats no call that succeeded) is in memory. With
    one, each invocation is a transaction: what is irreversible leaves when all calls have succeeded,
    the first failure stops the later calls and undoes the earlier ones, and the model is told which.

    Args:
        tools: as for `ToolNode`.
        settlement: settles each invocation; None for order and deduplication in memory.
        effects: what the tools of others do: `{"search": "read"}`,
            `{"send_mail": {"kind": "irreversible", "scope": "mail:/{to}"}}` or a `Declaration`.
        order: `"turn"` keeps the order of effects that run at once, and what is held leaves last; `"scopes"` that of
            effects on overlapping scopes; `"issued"` that of all, also behind what cannot be undone.
        settle: what settles together: each `"call"`, the calls of a turn (`"node"`), all of a `"superstep"`, when its
            checkpoint is stored (see `settled_checkpointer`), or all of a `"run"`.
        park: while a turn waits for a person's yes (`approve=`, an `interrupt`), `"keep"` leaves it open, and it holds
            its scopes; with `"split"` what was issued before that call settles, and the rest waits without holding any.
        may_touch: scopes that each turn holds before its first call runs.
        candidate: the calls belong to a candidate of this name, or of the name that a function of the state returns.
            Its nodes act in one transaction, which commits when a node behind them chooses it (`choice`), and is undone
            when that chooses another. What cannot be undone is held until then. Names with the same text before a slash
            are alternatives to each other, as are those without one.
        stream_outcomes: each effect's outcome also goes to the graph's custom stream, as `{"settlemark": {…}}`.
        unsettled: where the installed LangGraph does not tell what belongs together: `"refuse"` to run, `"warn"` once,
            or `"allow"` it.
        stock: whatever else `ToolNode` takes.

    Raises:
        DeclarationError: `effects` contradicts itself or a tool's arguments, or names a tool that is not there.
        UsageError: `settlement` is no `Settlement`, or there is no such `order`.

    >>> def search(query: str) -> str:
    ...     "Search the web."
    ...     return f"about {query}"
    >>> node = SequencedToolNode([search], effects={"search": "read"})
    >>> sorted(node.tools_by_name)
    ['search']
    """

    def __init__(
        self,
        tools: Sequence[BaseTool | Callable[..., Any]],
        *,
        settlement: Settlement | None = None,
        effects: Mapping[str, Declared] | None = None,
        order: Order = "turn",
        settle: Settle = "node",
        park: Park = "keep",
        may_touch: str | Sequence[str] = (),
        candidate: Candidate | None = None,
        stream_outcomes: bool = False,
        unsettled: Unsettled = "refuse",
        **stock: Unpack[StockOptions],
    ) -> None:
        super().__init__(tools, **stock)
        options = Options(order, settle, park, may_touch, candidate, unsettled)
        self._stream_outcomes = stream_outcomes
        self._opener = Opener(settlement, dict(self.tools_by_name), effects, options)
        self._turns = Turns(self._opener)
        # A program that takes them out, for a node of another class, has tools that settle, or refuse to run.
        alone = Alone(self._opener, self._turns, owner=self.name)
        self.tools_by_name.update({name: alone.stand_in(tool) for name, tool in self.tools_by_name.items()})

    # ---- one invocation

    def _func(self, input: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:  # noqa: A002 - stock's name
        if not self._parse_input(input)[0]:
            return super()._func(input, config, runtime)
        for tries in range(TRIES, 0, -1):
            visit: Visit = run_sync(self._visit(input, config, runtime, last=tries == 1, threads=True))
            token = _here.set(visit)
            try:
                answers = super()._func(input, visit.with_room(config), runtime)
            except _Again:
                continue
            except BaseException as error:
                run_sync(visit.abandon(error))
                raise
            else:
                if self._stream_outcomes:
                    visit.tell(runtime.stream_writer)
                return answers
            finally:
                _here.reset(token)
                self._turns.done(visit)
        raise AssertionError

    async def _afunc(self, input: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:  # noqa: A002 - stock's name
        if not self._parse_input(input)[0]:
            return await super()._afunc(input, config, runtime)
        for tries in range(TRIES, 0, -1):
            visit: Visit = await run_async(self._visit(input, config, runtime, last=tries == 1, threads=False))
            token = _here.set(visit)
            try:
                answers = await super()._afunc(input, config, runtime)
            except _Again:
                continue
            except BaseException as error:
                # A sibling may be settling or in a thread: what it does is over before anything is undone.
                await end_async(visit.abandon(error), after=visit.tasks)
                raise
            else:
                if self._stream_outcomes:
                    visit.tell(runtime.stream_writer)
                return answers
            finally:
                _here.reset(token)
                self._turns.done(visit)
        raise AssertionError

    def _visit(self, given: Any, config: RunnableConfig, runtime: Runtime[Any], *, last: bool, threads: bool) -> Any:
        calls, kind = self._parse_input(given)
        state: Any = self._extract_state(given, config)
        messages = messages_in(state, self._messages_key)
        raises = self._handle_tool_errors is False
        arrival = Arrival(
            runtime, config, state, messages, raises=raises, last=last, threads=threads, declares=self._opener.declares
        )
        return self._turns.visit(calls, arrival, sent=kind == "tool_calls")

    # ---- one call of it

    def _run_one(self, call: ToolCall, input_type: InputType, tool_runtime: ToolRuntime[Any, Any]) -> Answer:
        seated = _seated(call, tool_runtime)
        if seated is None:
            return super()._run_one(call, input_type, tool_runtime)
        try:
            seated.answer = super()._run_one(call, input_type, tool_runtime)
        except BaseException as error:
            seated.error = error
        run_sync(seated.leave())
        return seated.answered()

    async def _arun_one(self, call: ToolCall, input_type: InputType, tool_runtime: ToolRuntime[Any, Any]) -> Answer:
        seated = _seated(call, tool_runtime)
        if seated is None:
            return await super()._arun_one(call, input_type, tool_runtime)
        _visited().tasks.add(cast("asyncio.Task[Any]", asyncio.current_task()))
        try:
            seated.answer = await super()._arun_one(call, input_type, tool_runtime)
        except BaseException as error:
            seated.error = error
        await run_async(seated.leave())
        return seated.answered()

    def _execute_tool_sync(self, request: ToolCallRequest, input_type: InputType, config: RunnableConfig) -> Answer:
        return super()._execute_tool_sync(settled(request), input_type, config)

    async def _execute_tool_async(
        self, request: ToolCallRequest, input_type: InputType, config: RunnableConfig
    ) -> Answer:
        return await super()._execute_tool_async(settled(request), input_type, config)

    # ---- the answers

    def _combine_tool_outputs(self, outputs: list[Answer], input_type: InputType) -> Any:
        visit = _here.get()
        if visit is not None:
            if visit.lost_race:
                raise _Again
            if not visit.is_settled:
                raise InternalError(f"{self.name}: a call of the turn was not run in its seat, and nothing was settled")
            visit.raise_what_escaped()
            outputs = [self._final(seated, visit.answer_to(seated), input_type) for seated in visit.calls]
        answers = flat(outputs)
        rest = [answer for answer in answers if not goes_to_parent(answer)]
        if len(rest) == len(answers) or visit is None or not visit.is_within_a_graph:
            return super()._combine_tool_outputs(outputs, input_type)
        found: Any = super()._combine_tool_outputs(rest, input_type) if rest else []
        one_by_one = not rest or any(isinstance(answer, Command) for answer in rest)
        return [*(found if one_by_one else [found]), for_all(answers)]

    def _final(self, seated: SeatedCall, answer: Answer, input_type: InputType) -> Answer:
        if seated.queued is None or answer is seated.answer:
            return answer
        return self._normalize_tool_response(answer, seated.call, input_type)


def _visited() -> Visit:
    return cast("Visit", _here.get())


def _seated(call: ToolCall, runtime: ToolRuntime[Any, Any]) -> SeatedCall | None:
    visit = _here.get()
    return None if visit is None else visit.take(call, runtime)
