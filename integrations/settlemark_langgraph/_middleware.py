"""`create_agent` with the effects of its tools settled: one turn of the model, one transaction."""

# The stock classes leave the type parameters of `Command` and `ToolRuntime` open.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from settlemark import Settlement, UsageError
from settlemark.agents import Unsettled, keep_answered, refuse_bad_primer
from settlemark.hosting import Order, Park, Program, in_thread, run_async, run_sync
from settlemark_langgraph._calls.one_call import asettle, settle
from settlemark_langgraph._calls.settled_tool import settled
from settlemark_langgraph._candidates.names import Candidate
from settlemark_langgraph._corrections import corrections
from settlemark_langgraph._messages.messages import answered_in, messages_in
from settlemark_langgraph._priming import Primed, with_primer
from settlemark_langgraph._supersteps.boundaries import Settle
from settlemark_langgraph._supersteps.superstep import Superstep
from settlemark_langgraph._tools.declarations import Declared
from settlemark_langgraph._tools.standing_in import real_tool
from settlemark_langgraph._turns.opening import Opener, Options
from settlemark_langgraph._turns.seated import Arrival, SeatedCall
from settlemark_langgraph._turns.turns import Turns
from settlemark_langgraph._turns.visit import Visit

Answer = ToolMessage | Command[Any]
T = TypeVar("T")


class SettlementMiddleware(AgentMiddleware[Any, Any, Any]):
    """Settles what the tools of an agent do: `create_agent(…, middleware=[SettlementMiddleware(settlement)])`.

    There each call of a turn is a task of its own. Here they are one transaction again: effects act in the order
    in which the model issued them, what is irreversible leaves when all calls have succeeded, the first failure
    stops the later ones and undoes the earlier ones, and the model is told which. Reads run beside each other. A
    call that another middleware answers in the place of its tool, a rejected one say, is waited for by nobody.

    It may stand anywhere among other middleware. What stands before it sees one answer for each call; what stands
    behind it runs where the tool itself would. A retry belongs behind it: before it, a retry finds its turn undone, and
    its call alone is not tried again where others were undone with it. What is irreversible runs when its turn settles:
    there `Settlement(on_failure="retry")` tries again, and a retry of either place comes too late.

    Args:
        settlement: settles each turn.
        effects: what the tools of others do; as for `SequencedToolNode`.
        order, settle, park: as for `SequencedToolNode`.
        may_touch: scopes that each turn holds before its first call runs.
        candidate: as for `SequencedToolNode`, so that an agent may be one: a function is given the agent's state.
        stream_outcomes, unsettled: as for `SequencedToolNode`.
        primer: whether the model is told, behind its system message, what the record says of its thread when an
            invocation takes up what was begun before: see `Settlement.primer`.

    Raises:
        UsageError: `settlement` is no `Settlement`, or there is no such `order`.
        DeclarationError: `effects` contradicts itself.

    >>> middleware = SettlementMiddleware(Settlement("memory:"), effects={"search": "read"})
    >>> middleware.name
    'SettlementMiddleware'
    """

    def __init__(
        self,
        settlement: Settlement,
        *,
        effects: Mapping[str, Declared] | None = None,
        order: Order = "turn",
        settle: Settle = "node",
        park: Park = "keep",
        may_touch: str | Sequence[str] = (),
        candidate: Candidate | None = None,
        stream_outcomes: bool = False,
        unsettled: Unsettled = "refuse",
        primer: bool = False,
    ) -> None:
        super().__init__()
        if cast("object", settlement) is None:
            raise UsageError("settlement=None is no Settlement: pass SettlementMiddleware(Settlement(url))")
        refuse_bad_primer(primer)
        self._settlement = settlement
        self._primed = Primed(settlement) if primer else None
        self._stream_outcomes = stream_outcomes
        options = Options(order, settle, park, may_touch, candidate, unsettled)
        self._opener = Opener(settlement, None, effects, options)
        self._turns = Turns(self._opener)

    # ---- calls

    def _writer(self, request: ToolCallRequest) -> Callable[[Any], object] | None:
        return request.runtime.stream_writer if self._stream_outcomes else None

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Run a call in its place of the turn, and answer it when the turn has settled."""
        begin = partial(self._visit, request, threads=True)
        act, writer = partial(_act, handler, request), self._writer(request)
        return cast("Answer", settle(begin, request.tool_call, request.runtime, act, writer))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Run a call in its place of the turn, and answer it when the turn has settled."""
        begin = partial(self._visit, request, threads=False)
        act, writer = partial(_act, handler, request), self._writer(request)
        return cast("Answer", await asettle(begin, request.tool_call, request.runtime, act, writer))

    def _visit(self, request: ToolCallRequest, last: bool, *, threads: bool) -> Program[Visit]:
        runtime = request.runtime
        self._opener.declarations.learn_all({tool.name: real_tool(tool) for tool in runtime.tools})
        if request.tool is not None:  # a middleware may have brought it, which the agent has not
            self._opener.declares(real_tool(request.tool))
        messages = messages_in(request.state)
        arrival = Arrival(
            runtime,
            runtime.config,
            request.state,
            messages,
            raises=False,
            last=last,
            threads=threads,
            declares=self._opener.declares,
        )
        return self._turns.visit([request.tool_call], arrival, sent=True)

    # ---- requests to the model

    def _learn_offered(self, request: ModelRequest[Any]) -> None:
        """Take in the tools of a request: a middleware may offer some that the agent has not."""
        offered = [tool for tool in request.tools if isinstance(tool, BaseTool)]
        self._opener.declarations.learn({tool.name: real_tool(tool) for tool in offered})

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> Any:
        """Tell the model what became of the calls whose answers were acknowledgements."""
        run_sync(self._turns.finish(Superstep.of(get_config())))
        self._learn_offered(request)
        keep_answered(self._settlement, answered_in(request.messages))
        found = corrections(request.messages, self._settlement)
        if self._primed is not None:
            request = with_primer(request, run_sync(self._primed.text(request.runtime, get_config())))
        return _with(found, handler(_corrected(request, found)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        """Tell the model what became of the calls whose answers were acknowledgements."""
        await run_async(self._turns.finish(Superstep.of(get_config())))
        self._learn_offered(request)
        keep_answered(self._settlement, answered_in(request.messages))
        found = await in_thread(corrections, request.messages, self._settlement)
        if self._primed is not None:
            request = with_primer(request, await run_async(self._primed.text(request.runtime, get_config())))
        return _with(found, await handler(_corrected(request, found)))


def _act(handler: Callable[[ToolCallRequest], T], request: ToolCallRequest, _seated: SeatedCall) -> T:
    return handler(settled(request))


def _corrected(request: ModelRequest[Any], found: list[ToolMessage]) -> ModelRequest[Any]:
    if not found:
        return request
    by_id = {message.id: message for message in found}
    return request.override(messages=[by_id.get(message.id, message) for message in request.messages])


def _with(found: list[ToolMessage], response: Any) -> Any:
    """Return the model's response, and have the state corrected, too."""
    if not found:
        return response
    return ExtendedModelResponse(model_response=response, command=Command(update={"messages": found}))


__all__ = ["SettlementMiddleware"]
