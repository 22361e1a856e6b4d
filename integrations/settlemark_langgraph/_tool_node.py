"""LangGraph's `ToolNode` with the effects of its calls settled: in issuance order, once, and undone together."""

# The stock class leaves the type parameters of `Command` and `ToolRuntime` open.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, TypedDict, cast, get_args

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import AsyncToolCallWrapper, ToolCallRequest, ToolCallWrapper
from langgraph.runtime import Runtime
from typing_extensions import Unpack

from settlemark import InternalError, Settlement, UsageError
from settlemark._batch import Batch, open_batch
from settlemark._runners import run_async, run_sync, uninterrupted
from settlemark._sequencer import Order
from settlemark_langgraph._arguments import before_injection
from settlemark_langgraph._declarations import Declarations, Declared
from settlemark_langgraph._identity import identify
from settlemark_langgraph._memory import Memory
from settlemark_langgraph._messages import answer_of, left_behind, rationale, told, words
from settlemark_langgraph._seated import Invocation, SeatedCall, SettledTool

InputType = Literal["list", "dict", "tool_calls"]
Answer = Any

_TRIES = 20
_here: ContextVar[Invocation | None] = ContextVar("settlemark_invocation", default=None)


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
        order: `"turn"` keeps the order of all effects; `"scopes"` of those on overlapping scopes.
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
        **stock: Unpack[StockOptions],
    ) -> None:
        if not isinstance(cast("object", settlement), Settlement | None):
            raise UsageError(f"settlement={settlement!r} is no Settlement: pass settlement=Settlement(url)")
        if order not in get_args(Order):
            raise UsageError(f'order={order!r}: choose "turn" (all effects) or "scopes" (those on overlapping scopes)')
        super().__init__(tools, **stock)
        self._memory = Memory() if settlement is None else None
        self._settlement = settlement or cast("Memory", self._memory).settlement
        self._order: Order = order
        self._declarations = Declarations(
            self._settlement, self.tools_by_name, effects or {}, settles=settlement is not None
        )

    # ---- one invocation

    def _func(self, input: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:  # noqa: A002 - stock's name
        if not self._parse_input(input)[0]:
            return super()._func(input, config, runtime)
        for tries in range(_TRIES, 0, -1):
            invocation = run_sync(self._open(input, config, runtime, last=tries == 1))
            token = _here.set(invocation)
            try:
                return super()._func(input, invocation.with_room(config), runtime)
            except _Again:
                continue
            except BaseException as error:
                run_sync(invocation.batch.abandon(error))
                raise
            finally:
                _here.reset(token)
                self._keep(invocation)
        raise AssertionError

    async def _afunc(self, input: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:  # noqa: A002 - stock's name
        if not self._parse_input(input)[0]:
            return await super()._afunc(input, config, runtime)
        for tries in range(_TRIES, 0, -1):
            invocation = await run_async(self._open(input, config, runtime, last=tries == 1))
            token = _here.set(invocation)
            try:
                return await super()._afunc(input, config, runtime)
            except _Again:
                continue
            except BaseException as error:
                await uninterrupted(asyncio.ensure_future(_abandon(invocation, error)))
                raise
            finally:
                _here.reset(token)
                self._keep(invocation)
        raise AssertionError

    def _open(self, given: Any, config: RunnableConfig, runtime: Runtime[Any], *, last: bool) -> Any:
        calls, kind = self._parse_input(given)
        identity = identify(runtime, config)
        task = None if self._memory is None else self._memory.task(identity, calls)
        state: Any = self._extract_state(given, config)
        messages = state if isinstance(state, list) else _field(state, self._messages_key)
        because = rationale(messages, [call["id"] for call in calls])
        if kind == "tool_calls":
            self._warn_of_a_fan_out(calls, messages)
        position = None
        if self._memory is None:
            position = (self._settlement.epoch_for(identity.superstep), identity.ordinal)
            if not identity.resumable:
                self._settlement.tell_once(
                    "no checkpointer",
                    "this graph runs without a checkpointer or a thread_id: what it settles is settled, but a resume"
                    ' cannot know it again; compile(checkpointer=…) and pass {"configurable": {"thread_id": …}}',
                )
        batch: Batch = yield from open_batch(
            self._settlement,
            identity.name if self._memory is None else self._memory.name(task),
            run=identity.run,
            order=self._order,
            position=position,
            undoes=self._memory is None,
            resumable=identity.resumable if self._memory is None else task is not None,
            let_through=(GraphInterrupt,),
        )
        raises = self._handle_tool_errors is False
        limit = config.get("max_concurrency")
        invocation = Invocation(batch, because, limit=limit, raises=raises, last=last, task=task)
        try:
            for call in calls:
                parsed = before_injection(self.tools_by_name.get(call["name"]), call)
                declaration = self._declarations.of(call["name"])
                seat = batch.seat(declaration, call["args"], given=parsed, call_id=call["id"])
                invocation.calls.append(SeatedCall(invocation, call, seat))
        except Exception as error:
            yield from batch.abandon(error)
            raise
        return invocation

    def _warn_of_a_fan_out(self, calls: Sequence[ToolCall], messages: Any) -> None:
        others = left_behind(messages, calls)
        if not others:
            return
        lost = "their order is lost" if self._memory is not None else "their order and their settling together are lost"
        self._settlement.tell_once(
            "fanned out",
            f"the calls of one turn ({', '.join([*(call['name'] for call in calls), *others])}) are sent to"
            f" {self.name} one by one (Send), so each is a turn of its own and {lost}: use"
            ' create_react_agent(…, version="v1"), or an edge to the node in the place of Send',
        )

    def _keep(self, invocation: Invocation) -> None:
        if self._memory is not None:
            self._memory.keep(invocation.task, invocation.batch)

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
        seated.invocation.tasks.add(cast("asyncio.Task[Any]", asyncio.current_task()))
        try:
            seated.answer = await super()._arun_one(call, input_type, tool_runtime)
        except BaseException as error:
            seated.error = error
        await run_async(seated.leave())
        return seated.answered()

    def _execute_tool_sync(self, request: ToolCallRequest, input_type: InputType, config: RunnableConfig) -> Answer:
        return super()._execute_tool_sync(_settled(request), input_type, config)

    async def _execute_tool_async(
        self, request: ToolCallRequest, input_type: InputType, config: RunnableConfig
    ) -> Answer:
        return await super()._execute_tool_async(_settled(request), input_type, config)

    # ---- the answers

    def _combine_tool_outputs(self, outputs: list[Answer], input_type: InputType) -> Any:
        invocation = _here.get()
        if invocation is not None:
            if invocation.batch.lost_race and not invocation.last:
                raise _Again
            if not invocation.batch.settled:
                raise InternalError(f"{self.name}: a call of the turn was not run in its seat, and nothing was settled")
            invocation.raise_what_escaped()
            outputs = [self._final(seated, input_type) for seated in invocation.calls]
        return super()._combine_tool_outputs(outputs, input_type)

    def _final(self, seated: SeatedCall, input_type: InputType) -> Answer:
        if seated.queued is not None and not seated.invocation.batch.joined:
            try:
                result = seated.invocation.batch.result(seated.queued)
            except Exception as error:
                return told(seated.call, words(error))
            return self._normalize_tool_response(answer_of(result, seated.call), seated.call, input_type)
        undone = seated.invocation.batch.undone(seated.place)
        return seated.answer if undone is None else told(seated.call, undone)


def _seated(call: ToolCall, runtime: ToolRuntime[Any, Any]) -> SeatedCall | None:
    invocation = _here.get()
    return None if invocation is None else invocation.take(call, runtime)


def _settled(request: ToolCallRequest) -> ToolCallRequest:
    seated = SeatedCall.of(request.runtime)
    if seated is None or request.tool is None:
        return request
    tool = SettledTool(request.tool, seated, request.tool_call)
    return request.override(tool=cast("BaseTool", tool))


def _field(state: object, name: str) -> object:
    return cast("Mapping[str, object]", state).get(name) if isinstance(state, Mapping) else getattr(state, name, None)


async def _abandon(invocation: Invocation, error: BaseException) -> None:
    # A sibling may be settling or in a thread: what it does is over before anything is undone.
    if invocation.tasks:
        await asyncio.wait(invocation.tasks)
    await run_async(invocation.batch.abandon(error))
