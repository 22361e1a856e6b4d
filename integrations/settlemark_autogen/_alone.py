"""A client without a settled workbench: it hands out the calls of a turn one at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, cast

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, LLMMessage, RequestUsage
from autogen_core.tools import Tool, ToolSchema

from settlemark.agents import AgentRun, Call, Declarations, Unsettled, cannot_keep
from settlemark_autogen._handing import Handing
from settlemark_autogen._identity import own_name
from settlemark_autogen._messages import answered_in, arguments_of, said_in
from settlemark_autogen._tools import function_of, names_of

Ask = Callable[[Sequence[LLMMessage]], AsyncGenerator[str | CreateResult, None]]

_MOST = 1000
_HANDOFF = "autogen_agentchat.base._handoff"


class Alone:
    """A client's conversations with agents that have no settled workbench.

    Args:
        begin: begins the job of their calls.
        declarations: of their tools.
        unsettled, agent: as for `SettledChatCompletionClient`.
    """

    def __init__(
        self, begin: Callable[[], AgentRun], declarations: Declarations, unsettled: Unsettled, agent: str | None
    ) -> None:
        self._begin = begin
        self._agent = agent
        self._unsettled: Unsettled = unsettled
        self._job: AgentRun | None = None
        self._declarations = declarations
        self._open: list[Handing] = []
        self._over: list[Handing] = []

    @property
    def has_any(self) -> bool:
        """Whether it has handed out anything."""
        return bool(self._open or self._over)

    async def answers(
        self, ask: Ask, messages: Sequence[LLMMessage], tools: Sequence[Tool | ToolSchema], choice: object, agent: str
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Answer an agent's request with the next call of its turn; when the turn is over, with the model's answer."""
        handing = next((handing for handing in self._open if handing.is_of(messages, agent)), None)
        if handing is not None:
            if not handing.take(messages) or choice == "none":
                handing.lapse()
            if calls := await handing.next():
                yield handed(calls)
                return
            self._end(handing)
        while True:
            told, answer = self._shown(messages, agent), None
            async for part in ask(told):
                if isinstance(part, CreateResult):
                    answer = part
                else:
                    yield part
            if answer is None:
                return
            handing = self._handing(answer, tools, agent, messages, told)
            if handing is None:
                yield answer
                return
            if calls := await handing.next():
                self._open.append(handing)
                yield answer.model_copy(update={"content": calls})
                return
            self._end(handing)  # everything was answered from the record: the model continues from there

    def _handing(
        self,
        answer: CreateResult,
        tools: Sequence[Tool | ToolSchema],
        agent: str,
        messages: Sequence[LLMMessage],
        told: Sequence[LLMMessage],
    ) -> Handing | None:
        """Return the turn that a model's answer begins, or None if it has no tool calls."""
        if isinstance(answer.content, str):
            return None
        known = self._learned(tools)
        settled: list[FunctionCall] = []
        calls: list[Call] = []
        for call in answer.content:
            arguments = arguments_of(call)
            if call.name in known and isinstance(arguments, Mapping):
                settled.append(call)
                named = cast("Mapping[str, Any]", arguments)
                calls.append(Call(call.name, named, self._declarations.of(call.name), call.id))
        if not calls:
            return None
        if self._job is None:
            self._job = self._begin()
        if any(call.acts for call in calls):
            cannot_keep(
                self._job.settlement,
                "no workbench",
                "this agent has no SettledWorkbench, so its calls are handed out one at a time: its max_tool_iterations"
                " must be at least the number of calls of a turn, or the rest of the turn is not run, and what was"
                " handed out last is in doubt; AssistantAgent(…, workbench=SettledWorkbench(tools, settlement)) has no"
                " such limit",
                self._unsettled,
            )
        work = self._job.work(agent, agent=own_name(self._agent))
        turn = work.turn(calls, because=said_in(answer, sorted(known)), answered=answered_in(told))
        others = [call for call in answer.content if not any(call is other for other in settled)]
        return Handing(turn, settled, others, answer=answer, agent=agent, messages=messages, told=told)

    def _learned(self, tools: Sequence[Tool | ToolSchema]) -> set[str]:
        """Return the names of the tools without handoffs, which end an agent's turn and run last."""
        own = [tool for tool in tools if not _is_handoff(tool)]
        schemas = [tool.schema if isinstance(tool, Tool) else tool for tool in own]
        arguments = names_of(cast("Sequence[Mapping[str, Any]]", schemas))
        for tool, schema in zip(own, schemas, strict=True):
            function = function_of(tool) if isinstance(tool, Tool) else None
            self._declarations.learn(schema["name"], function, arguments=arguments[schema["name"]])
        return set(arguments)

    def _shown(self, messages: Sequence[LLMMessage], agent: str) -> list[LLMMessage]:
        shown, skip = list(messages), set[int]()
        for handing in self._over:
            if handing.agent == agent:
                shown = handing.shown(shown, skip)
        return shown

    def _end(self, handing: Handing) -> None:
        self._open = [other for other in self._open if other is not handing]
        self._over = [*self._over[1 - _MOST :], handing]

    async def close(self) -> None:
        """Abandon calls that are handed out and not answered."""
        while self._open:
            await self._open.pop().close()


def handed(calls: list[FunctionCall]) -> CreateResult:
    """Return an answer that does not come from a model."""
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    return CreateResult(finish_reason="function_calls", content=calls, usage=usage, cached=False)


def _is_handoff(tool: Tool | ToolSchema) -> bool:
    function = function_of(tool) if isinstance(tool, Tool) else None
    return getattr(function, "__module__", None) == _HANDOFF


__all__ = ["Alone", "Ask", "handed"]
