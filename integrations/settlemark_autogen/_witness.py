"""Collects the reports of one agent's wrapped parts: which calls its model issued, and how each of them went."""

# AutoGen leaves the type parameters of its tools open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from autogen_core.models import CreateResult, FunctionExecutionResultMessage, LLMMessage
from autogen_core.tools import Tool, ToolResult, ToolSchema

from settlemark.history import Recorder
from settlemark.recording import Operation, Registry, ToolCall, Tools, Turns, arguments, plain, signature


@dataclass(eq=False)
class _Turn:
    """The calls of one answer that nobody has carried out yet, and the task that asked for it."""

    task: asyncio.Task[Any] | None
    plans: dict[str, Operation] = field(default_factory=dict[str, Operation])


@dataclass(eq=False)
class RunningCall:
    """A running call: its id, the moment it began, and its plan with the present tools, if it has one."""

    id: str
    since: int
    plan: Operation | None
    there: Registry


_ISSUED: ContextVar[_Turn | None] = ContextVar("settlemark_autogen_recorded", default=None)


class Witness:
    """Records the reports of one agent's client, workbenches and memory.

    Attributes:
        name: the agent's.
        turns: the turns of its model, as far as they are known.
    """

    def __init__(self, recorder: Recorder, name: str, tools: Tools) -> None:
        self.name = name
        self.turns = Turns(recorder, tools)
        self._recorder = recorder
        self._turn: _Turn | None = None
        self._listed: dict[object, Registry] = {}
        self._alone: object = None
        self._together = 0

    def asked(self, messages: Sequence[LLMMessage]) -> None:
        """Record what the model is shown: answers of calls that no workbench has reported."""
        for message in messages:
            for result in message.content if isinstance(message, FunctionExecutionResultMessage) else ():
                self.turns.ended(result.call_id, result.content, failed=bool(result.is_error))
        self.turns.over(self._turn)
        self._drop_plans()

    def answered(self, answer: CreateResult, offered: Sequence[Tool | ToolSchema]) -> None:
        """Record the model's answer, with the tools that it was offered."""
        if isinstance(answer.content, str):
            self.turns.answered(self.name)
            return
        self._drop_plans()
        turn = self._turn = _Turn(asyncio.current_task())
        calls = [ToolCall(call.id, call.name, arguments(call.arguments)) for call in answer.content]
        self.turns.issued(self.name, calls, turn=turn)
        tools = _registry([tool if isinstance(tool, dict) else tool.schema for tool in offered])
        turn.plans = {call.id: self._recorder.begin(self.name, tool=call.tool, registry=tools) for call in calls}
        _ISSUED.set(turn)

    def listed(self, workbench: object, tools: Sequence[ToolSchema]) -> None:
        """Record a workbench's present tools.

        An agent lists them for each of its calls, in a task of the call's own, and gives up a call whose tool is in
        none.
        """
        before = self._there
        self._listed[workbench] = _registry(tools)
        turn, there = _ISSUED.get(), self._there
        if turn is None or turn is not self._turn or turn.task is asyncio.current_task():
            return
        for call, plan in [*turn.plans.items()]:
            if plan.tool in before and plan.tool not in there:
                with self._recorder.acting(turn.plans.pop(call), there):
                    pass

    @property
    def _there(self) -> Registry:
        """The present tools, as the agent finds them: in the first workbench that has one of the name."""
        found: dict[str, str] = {}
        for tools in self._listed.values():
            found = {**tools, **found}
        return found

    def _drop_plans(self) -> None:
        """Forget planned calls that nobody has carried out."""
        while self._turn is not None and self._turn.plans:
            self._turn.plans.popitem()[1].drop()

    def began(self, tool: str, given: Mapping[str, Any], call: str | None) -> RunningCall:
        """Record that a call began."""
        plan = None if call is None or self._turn is None else self._turn.plans.pop(call, None)
        if call is None or not self.turns.knows(call):
            # Nobody saw the model: calls that run together count as issued together, in the order in which they come.
            self._alone = self._alone if self._together else object()
            call = call or f"call {self.turns.now()}"
            self.turns.issued(self.name, [ToolCall(call, tool, plain(given))], turn=self._alone)
        self._together += 1
        there = self._there
        return RunningCall(call, self.turns.moment, plan if tool in there else None, there)

    def ended(self, call: RunningCall, result: ToolResult | None) -> None:
        """Record that a call ended; without a result, that it was cut off."""
        self._together -= 1
        failed = result is None or result.is_error
        said = None if result is None else result.to_text(replace_image="[image]")
        with nullcontext() if call.plan is None else self._recorder.acting(call.plan, call.there):
            self.turns.ended(call.id, said, failed=failed, since=call.since, at=self.turns.now())
        if not self._together:
            self.turns.over(self._alone)


def _registry(tools: Sequence[ToolSchema]) -> dict[str, str]:
    """Return tools by name with their signatures; of several with one name the first, as agents find them."""
    found: dict[str, str] = {}
    for tool in tools:
        found.setdefault(tool["name"], signature(tool["name"], tool.get("parameters")))
    return found


__all__ = ["RunningCall", "Witness"]
