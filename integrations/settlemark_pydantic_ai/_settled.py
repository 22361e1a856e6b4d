"""A capability of an agent: its function tools settle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Self, cast

from pydantic import ValidationError
from pydantic_ai import (
    AbstractToolset,
    ApprovalRequired,
    CallDeferred,
    CallToolsNode,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRequestNode,
    ModelRetry,
    RunContext,
    ToolFailed,
    UserPromptNode,
)
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import SkipToolExecution, ToolFailedError, ToolRetryError
from pydantic_ai.messages import ModelMessage, ModelRequest, SystemPromptPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition

from settlemark import Settlement
from settlemark.agents import Declared, Unsettled, refuse_bad_primer, words
from settlemark.hosting import Order, Park, run_async
from settlemark_pydantic_ai._asking import refuse_without_asking
from settlemark_pydantic_ai._functions import is_journaled
from settlemark_pydantic_ai._jobs import Jobs, Run, Settle
from settlemark_pydantic_ai._places import Checked
from settlemark_pydantic_ai._responses import asker
from settlemark_pydantic_ai._toolset import SettlingToolset
from settlemark_pydantic_ai._turns import Turns

_ANSWERS = (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
    ValidationError,
)
"""By one of these a hook answers a call in its tool's place; by any other error it ends the run."""


class Settled(AbstractCapability[Any]):
    """Settles what the function tools of an agent do: `Agent(…, capabilities=[Settled(settlement)])`.

    The calls of one turn are one transaction. Their effects act in the order in which the model issued them; what is
    irreversible leaves when all have succeeded; the first that fails stops the later ones and undoes the earlier ones,
    and the model is told which. Reads run beside each other. A tool that is declared with `approve=` ends the run with
    `DeferredToolRequests`, as one with `requires_approval=True` does, and calls issued behind it that may not act
    before it wait with it: they run when `DeferredToolResults` answer it, and are in nobody's requests.

    Output functions and the tools of model providers are none of its business, nor is a toolset whose calls a
    durability capability has in its own journal.

    Args:
        settlement: settles what the tools do.
        run: the caller's id for the job, or a function of the run's context that returns it; the same id in another
            process is the same job begun again: what it did is not done twice. Without one a job is known again by its
            message history, or by a durable workflow's id.
        settle: what settles together: the calls of a `"turn"`, all of an `"agent"`'s run, or all of a `"run"`; the job
            ends with the last of its agents, or with `async with Settled(…) as settled:` around them. All of a run is
            undone when one of its agents has failed, and was not run again. Where it was undone, and
            who had done it did not go on, the run, or the block, raises `Refused`, which says what was undone.
            What waits for a person's yes stays open,
            with all that settles with it, in this process: only with `"turn"` can he answer in another one.
        effects: what the tools do, where they do not say it themselves: by the names that the model knows.
        order: `"turn"` keeps the order of effects that run at once, and what is held leaves last; `"scopes"` that of
            effects on overlapping scopes; `"issued"` that of all, also behind what cannot be undone.
        park: what becomes of a turn that waits for a person's yes: it is kept as it is, or split.
        may_touch: scopes that each transaction holds from its beginning.
        unsettled: where the installed Pydantic AI lacks what its calls settle by: `"refuse"` to be made, `"warn"`
            once, or just go on (`"allow"`).
        primer: whether the model is told, as a system prompt of its requests alone, what the record says of a job that
            was begun before: see `Settlement.primer`.

    Raises:
        UsageError: `settlement` is no `Settlement`, or an option is none of those; or, when the agent is constructed,
            one of its tools needs a person's yes, and its output has no `DeferredToolRequests` to ask for it.
        DeclarationError: `effects` contradicts itself.

    >>> Settled(Settlement("memory:"), effects={"search": "read"}).get_ordering().position
    'innermost'
    """

    def __init__(
        self,
        settlement: Settlement,
        *,
        run: Run | None = None,
        settle: Settle = "turn",
        effects: Mapping[str, Declared] | None = None,
        order: Order = "turn",
        park: Park = "keep",
        may_touch: str | Sequence[str] = (),
        unsettled: Unsettled = "refuse",
        primer: bool = False,
    ) -> None:
        refuse_bad_primer(primer)
        self._primer = primer
        self._jobs = Jobs(
            settlement,
            run=run,
            settle=settle,
            effects=effects,
            order=order,
            park=park,
            may_touch=may_touch,
            unsettled=unsettled,
        )

    async def __aenter__(self) -> Self:
        """Keep the job open while several agents work in it, one after the other."""
        self._jobs.hold()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End the job: it commits, or is undone after an error; one that waits for an answer stays open for it."""
        await run_async(self._jobs.end(error))

    def get_ordering(self) -> CapabilityOrdering:
        """Place it next to the tools: it runs what other capabilities make of a call."""
        return CapabilityOrdering(position="innermost")

    def for_agent(self, agent: AbstractAgent[Any, Any]) -> AbstractCapability[Any]:
        """Check that an agent whose tools need a person's yes can ask for it.

        Raises:
            UsageError: it cannot: its output has no `DeferredToolRequests`, and no capability answers them.
        """
        refuse_without_asking(self._jobs.settlement, self._jobs.declarations, agent)
        return self

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return what settles one run of an agent."""
        return _OneRun(self._jobs, ctx, primer=self._primer)


class _OneRun(AbstractCapability[Any]):
    """Settles the tools in one run of an agent."""

    def __init__(self, jobs: Jobs, ctx: RunContext[Any], *, primer: bool) -> None:
        self._primer = primer
        self._turns = Turns(jobs, ctx, owns=lambda tool: not is_journaled(tool))
        self._run_id = ctx.run_id
        self._asks = False

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return SettlingToolset(toolset, self._turns)

    def get_wrapper_model(self, model: Model) -> Model | None:
        # Only `run_stream` asks a model outside of a node's run, and runs calls before it has their response.
        return None if self._asks else self._turns.streamed.heard(model)

    # ---- validation of a call before its tool runs

    async def wrap_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,  # noqa: ARG002 - the framework's signature
        args: Any,
        handler: Any,
    ) -> Any:
        checked = Checked(call, approved=ctx.tool_call_approved)
        self._turns.check(checked)
        try:
            found = await handler(args)
        except Exception as error:
            # The framework wraps a validator's deferral in an error of its own.
            checked.deferral = getattr(error, "deferral", None)
            raise
        checked.arguments = found
        return found

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the framework's signature
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,  # noqa: ARG002 - the framework's signature
        args: Any,
        handler: Any,
    ) -> Any:
        failed: str | None = None
        try:
            return await handler(args)
        except Exception as error:
            failed = None if isinstance(error, _ANSWERS) else words(error)
            raise
        finally:
            await self._turns.over(call.tool_call_id, failed)

    async def handle_deferred_tool_calls(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the framework's signature
        *,
        requests: DeferredToolRequests,
    ) -> DeferredToolResults | None:
        ids = {call.tool_call_id for call in (*requests.approvals, *requests.calls)}
        ready = self._turns.unanswered(ids)
        return DeferredToolResults(approvals=dict.fromkeys(ready, True)) if ready else None

    # ---- boundaries

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> AgentRunResult[Any]:
        self._turns.work_of(self._run_id)
        try:
            result: AgentRunResult[Any] = await handler()
        except BaseException as error:
            await self._turns.leave(error, is_over=True)
            raise
        is_over = not isinstance(result.output, DeferredToolRequests)
        messages = result.all_messages()  # `ctx` has those from before the run
        await self._turns.finish(replace(ctx, messages=messages), going_on=None, waits=not is_over)
        self._correct(messages)
        await self._turns.leave(None, is_over=is_over, asked_by=asker(messages))
        return result

    async def wrap_node_run(self, ctx: RunContext[Any], *, node: Any, handler: Any) -> Any:
        self._turns.begin_node()
        self._asks = isinstance(node, ModelRequestNode)
        try:
            found: object = await handler(node)
        except BaseException as error:
            await self._turns.abandon(error)
            raise
        finally:
            self._asks = False
        if isinstance(node, UserPromptNode) and isinstance(found, CallToolsNode):
            self._answered(found)
        elif isinstance(node, CallToolsNode):
            waiting = _requests(found)
            going_on = found.request if isinstance(found, ModelRequestNode) else None
            if waiting is not None:
                _take_out(waiting, self._turns.asked(node.model_response))
            await self._turns.finish(ctx, going_on=going_on, waits=waiting is not None)
        return cast("Any", found)

    def _answered(self, node: Any) -> None:
        if node.tool_call_results is not None:
            self._turns.answered(node.model_response, node.tool_call_results)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self._turns.keep(request_context.messages)
        told = self._turns.corrections()
        if told:
            _correct(ctx.messages, told)
            _correct(request_context.messages, told)
        primer = await self._turns.primer(self._run_id) if self._primer else None
        return request_context if primer is None else _primed(request_context, primer)

    def _correct(self, messages: list[ModelMessage]) -> None:
        _correct(messages, self._turns.corrections())


def _primed(request_context: ModelRequestContext, primer: str) -> ModelRequestContext:
    """Return a request with a primer before all else; the run's own messages stay as they are."""
    messages = list(request_context.messages)
    place = next((n for n, message in enumerate(messages) if isinstance(message, ModelRequest)), None)
    if place is None:
        return request_context
    first = cast("ModelRequest", messages[place])
    said = sum(1 for _ in takewhile(lambda part: isinstance(part, SystemPromptPart), first.parts))
    parts = [*first.parts[:said], SystemPromptPart(primer), *first.parts[said:]]
    messages[place] = replace(first, parts=parts)
    return replace(request_context, messages=messages)


def _requests(found: Any) -> DeferredToolRequests | None:
    """Return the requests to somebody when a run ends with them, else None."""
    output: object = getattr(getattr(found, "data", None), "output", None)
    return output if isinstance(output, DeferredToolRequests) else None


def _take_out(requests: DeferredToolRequests, ids: Collection[str]) -> None:
    """Keep in the requests only what somebody is to answer."""
    requests.approvals[:] = [call for call in requests.approvals if call.tool_call_id not in ids]
    for call_id in ids:
        requests.metadata.pop(call_id, None)


def _correct(messages: list[ModelMessage], told: Mapping[str, str]) -> None:
    """Replace answers in these messages by the calls' results by now."""
    for index, message in enumerate(messages):
        if isinstance(message, ModelRequest) and any(_id(part) in told for part in message.parts):
            messages[index] = replace(message, parts=[_corrected(part, told) for part in message.parts])


def _corrected(part: Any, told: Mapping[str, str]) -> Any:
    text = told.get(_id(part))
    return part if text is None else replace(part, content=text, outcome="failed")


def _id(part: object) -> str:
    return part.tool_call_id if isinstance(part, ToolReturnPart) else ""
