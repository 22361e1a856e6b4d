"""One agent of Pydantic AI, with a model that says what a script has."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied, ToolFailed
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from tests.integrations.contract.driver import Saying, answer_of

from settlemark.hosting import approval_of
from settlemark_pydantic_ai import Settled

NEVER = ToolDenied("There is nobody to ask.")


def scripted(turns, final="done", heed=None):
    """A model that answers its n-th request with the n-th turn, whatever it has been told, unless it heeds that."""

    def answer(messages, _info):
        said = sum(isinstance(message, ModelResponse) for message in messages)
        told = "\n".join(str(getattr(part, "content", "")) for message in messages for part in message.parts)
        says = turns if heed is None else heed(told, turns, said)
        if said >= len(says):
            return ModelResponse(parts=[TextPart(final)])
        calls = [ToolCallPart(call.tool, dict(call.arguments), call.id) for call in says[said]]
        return ModelResponse(parts=[TextPart(Saying.text), *calls])

    return FunctionModel(answer)


def told(result):
    """What the model has been told of its calls: (id, text) each."""
    parts = [part for message in result.all_messages() for part in message.parts]
    return [(part.tool_call_id, str(part.content)) for part in parts if isinstance(part, ToolReturnPart)]


class ToolErrors(AbstractCapability):
    """Hands what a tool raises to the model, as Pydantic AI's page on hooks has it."""

    async def on_tool_execute_error(self, ctx, *, call, tool_def, args, error):
        raise ToolFailed(repr(error))


class Rewriting(AbstractCapability):
    """Gives calls other arguments before they run."""

    def __init__(self, rewrite):
        self._rewrite = rewrite

    async def before_tool_execute(self, ctx, *, call, tool_def, args):
        return self._rewrite(call.tool_name, dict(args))


class Driver:
    name = "pydantic_ai"
    folder = None
    cannot_resume = None
    rewrite = None
    primer = False
    agent: str | None = "clerk"
    heed = None

    def run(self, tools, turns, *, settlement, run="run-1", effects={}, final="done"):  # noqa: B006 - as the suite calls it
        return asyncio.run(self.arun(tools, turns, settlement=settlement, run=run, effects=effects, final=final))

    async def arun(self, tools, turns, *, settlement, run="run-1", effects={}, final="done"):  # noqa: B006
        ours = [] if settlement is None else [Settled(settlement, run=run, effects=effects, primer=self.primer)]
        ours += [] if self.rewrite is None else [Rewriting(self.rewrite)]
        agent = Agent(
            scripted(turns, final, self.heed),
            name=self.agent or "clerk",
            tools=tools,
            capabilities=[*ours, ToolErrors()],
            output_type=[str, DeferredToolRequests],
        )
        result = await agent.run("Do it.")
        while isinstance(result.output, DeferredToolRequests):
            asked = result.output.approvals
            given = {call.tool_call_id: self._answer(settlement, result.output, call) for call in asked}
            answers = DeferredToolResults(
                approvals={key: answer for key, (answer, _) in given.items()},
                metadata={key: signed for key, (_, signed) in given.items() if signed},
            )
            result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
        return told(result)

    def _answer(self, settlement, requests, call):
        if settlement is None:
            return NEVER, {}
        answer = approval_of(answer_of(settlement, requests.metadata[call.tool_call_id]))
        if answer.decision == "reject":
            return ToolDenied(answer.because or "no"), {}
        return ToolApproved(override_args=answer.arguments), {} if answer.by is None else {"by": answer.by}
