"""One call of a workbench: runs the tool, and makes the agent's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autogen_core import CancellationToken
from autogen_core.tools import StaticStreamWorkbench, ToolResult, Workbench

from settlemark import Queued
from settlemark.agents import words
from settlemark.hosting import json_text, message_of
from settlemark_autogen._asking import Waits
from settlemark_autogen._results import Answered, Seen, packed, text_result, unpacked
from settlemark_autogen._tools import watched


@dataclass(slots=True)
class Ended:
    """How the tool of a call ended when it last ran; or its recorded answer, parsed and raw."""

    seen: Seen = field(default_factory=Seen)
    result: ToolResult | None = None
    error: Exception | None = None
    recorded: ToolResult | None = None
    value: Any = None


def _is_mapping(arguments: object) -> bool:
    return isinstance(arguments, Mapping)


@dataclass(slots=True)
class Calling:
    """One call of a workbench.

    Attributes:
        workbench: the tool's workbench.
        name, arguments, token, call_id: as AutoGen calls it.
        emit: receives what the tool streams before its result; None if nobody does.
        ended: how the tool ended.
    """

    workbench: Workbench
    name: str
    arguments: Any
    token: CancellationToken | None
    call_id: str | None
    emit: Callable[[Any], None] | None
    ended: Ended = field(default_factory=Ended)

    def __post_init__(self) -> None:
        """Copy the arguments: the call is made as issued."""
        if _is_mapping(self.arguments):  # else the workbench reports what is wrong with them
            self.arguments = json_text.snapshot(dict(self.arguments))

    async def run(self) -> ToolResult:
        """Run the tool, and return its answer; re-raises its exception even where the workbench turned it into text."""
        ended, self.ended.seen = self.ended, Seen()
        ended.result = ended.error = None
        try:
            result = ended.result = await self._answer()
            if result.is_error:
                raise Answered(result) if not isinstance(ended.seen.error, Exception) else ended.seen.error
        except Exception as error:
            ended.error = error
            raise
        return result

    async def _answer(self) -> ToolResult:
        workbench = watched(self.workbench, self.ended.seen)
        how: dict[str, Any] = {
            "name": self.name,
            "arguments": json_text.snapshot(self.arguments),
            "cancellation_token": self.token,
            "call_id": self.call_id,
        }
        if self.emit is None or not isinstance(workbench, StaticStreamWorkbench):
            return self._whole(await workbench.call_tool(**how))
        found: ToolResult | None = None
        async for event in workbench.call_tool_stream(**how):
            if isinstance(event, ToolResult):
                found = event
            else:
                self.emit(event)
        return found or text_result(self.name, f"{self.name} answered nothing", is_error=True)

    def _whole(self, found: Any) -> ToolResult:
        """Return an answer, including a workbench's own kind."""
        if isinstance(found, ToolResult):
            return found
        return text_result(self.name, found.to_text(), is_error=bool(found.is_error))

    def with_arguments(self, arguments: Mapping[str, Any]) -> Calling:
        """Return the call with other arguments."""
        return replace(self, arguments=arguments)

    def pack(self, found: Any) -> Any:
        """Return an answer as the record keeps it."""
        if found is self.ended.recorded:
            return self.ended.value
        if not isinstance(found, ToolResult):
            return found  # a release handler's result
        return packed(found, self.ended.seen if found is self.ended.result else None)

    def unpack(self, found: Any) -> ToolResult:
        """Return the recorded answer."""
        self.ended.recorded, self.ended.value = unpacked(found, self.name), found
        return self.ended.recorded

    def told(self, found: Any) -> ToolResult:
        """Return the agent's answer."""
        if isinstance(found, ToolResult):
            return found
        return text_result(self.name, str(found)) if isinstance(found, Queued) else unpacked(found, self.name)

    def refused(self, error: Exception) -> ToolResult:
        """Return the agent's answer for a call without a result."""
        if error is self.ended.error and self.ended.result is not None:
            return self.ended.result
        if isinstance(error, Waits):
            return text_result(self.name, message_of(error))
        return text_result(self.name, words(error), is_error=True)


__all__ = ["Calling"]
