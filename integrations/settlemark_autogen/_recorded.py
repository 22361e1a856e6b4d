"""A model client, a workbench and a memory that report what they do for a recorded agent, and change nothing."""

# AutoGen leaves the type parameters of its tools open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from autogen_core import CancellationToken
from autogen_core.memory import Memory, MemoryContent, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage
from autogen_core.tools import BaseTool, StaticStreamWorkbench, Tool, ToolResult, ToolSchema, Workbench
from pydantic import BaseModel

from settlemark.recording import plain
from settlemark_autogen._witness import Witness
from settlemark_autogen._wrapped import WrappedClient, WrappedWorkbench

Choice = Tool | Literal["auto", "required", "none"]


class RecordedClient(WrappedClient):
    """A client that reports its answers."""

    component_provider_override = "settlemark_autogen.RecordedAgent"

    def __init__(self, witness: Witness, client: ChatCompletionClient) -> None:
        super().__init__(client)
        self._witness = witness

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Choice = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Ask the model."""
        self._witness.asked(messages)
        answer = await self.client.create(
            messages,
            tools=tools,
            tool_choice=tool_choice,
            json_output=json_output,
            extra_create_args=extra_create_args or {},
            cancellation_token=cancellation_token,
        )
        self._witness.answered(answer, tools)
        return answer

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Choice = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Ask the model, and pass on its stream."""
        self._witness.asked(messages)
        stream = self.client.create_stream(
            messages,
            tools=tools,
            tool_choice=tool_choice,
            json_output=json_output,
            extra_create_args=extra_create_args or {},
            cancellation_token=cancellation_token,
        )
        async for answer in stream:
            if isinstance(answer, CreateResult):
                self._witness.answered(answer, tools)
            yield answer

    def _to_config(self) -> NoReturn:
        raise NotImplementedError("a recorded agent has no configuration: dump the client that it wraps")


class RecordedWorkbench(WrappedWorkbench):
    """A workbench that reports its calls."""

    component_provider_override = "settlemark_autogen.RecordedAgent"

    def __init__(self, witness: Witness, tools: Workbench | Sequence[BaseTool[Any, Any] | Callable[..., Any]]) -> None:
        super().__init__(tools)
        self._witness = witness

    async def list_tools(self) -> list[ToolSchema]:
        """Return the wrapped workbench's tools."""
        found = await self.inner.list_tools()
        self._witness.listed(self, found)
        return found

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Run a call."""
        call = self._witness.began(name, arguments or {}, call_id)
        try:
            result = await self.inner.call_tool(
                name, arguments=arguments, cancellation_token=cancellation_token, call_id=call_id
            )
        except BaseException:
            self._witness.ended(call, None)
            raise
        self._witness.ended(call, result)
        return result

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any | ToolResult, None]:
        """Run a call, and pass on its tool's stream."""
        if not isinstance(self.inner, StaticStreamWorkbench):
            yield await self.call_tool(name, arguments, cancellation_token, call_id)
            return
        call = self._witness.began(name, arguments or {}, call_id)
        result: ToolResult | None = None
        try:
            async for event in self.inner.call_tool_stream(
                name, arguments=arguments, cancellation_token=cancellation_token, call_id=call_id
            ):
                if isinstance(event, ToolResult):
                    result = event
                    self._witness.ended(call, result)
                yield event
        finally:
            if result is None:
                self._witness.ended(call, None)

    def _to_config(self) -> NoReturn:
        raise NotImplementedError("a recorded agent has no configuration: dump the workbench that it wraps")


class RecordedMemory(Memory):
    """A memory that reports what is read from it and added to it."""

    component_provider_override = "settlemark_autogen.RecordedAgent"

    def __init__(self, witness: Witness, memory: Memory, cell: str) -> None:
        self._witness = witness
        self._memory = memory
        self._cell = cell

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add the memories to an agent's context."""
        since = self._witness.turns.moment
        found = await self._memory.update_context(model_context)
        self._read(found.memories, since)
        return found

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """Return the memories that match a query."""
        since = self._witness.turns.moment
        found = await self._memory.query(query, cancellation_token, **kwargs)
        self._read(found, since)
        return found

    def _read(self, found: MemoryQueryResult, since: int) -> None:
        contents = [plain(each.content) for each in found.results]
        self._witness.turns.read(self._witness.name, self._cell, contents, since=since)

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Add a memory."""
        await self._memory.add(content, cancellation_token)
        self._witness.turns.wrote(self._witness.name, self._cell, plain(content.content))

    async def clear(self) -> None:
        """Forget everything."""
        await self._memory.clear()
        self._witness.turns.wrote(self._witness.name, self._cell, None)

    async def close(self) -> None:
        """Close the wrapped memory."""
        await self._memory.close()

    def _to_config(self) -> NoReturn:
        raise NotImplementedError("a recorded agent has no configuration: dump the memory that it wraps")


__all__ = ["RecordedClient", "RecordedMemory", "RecordedWorkbench"]
