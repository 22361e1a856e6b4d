"""A history of a stock agent: what its model issued, in which order that was done, and what it knew by then."""

# AutoGen leaves the type parameters of its tools open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from autogen_core import CancellationToken
from autogen_core.memory import Memory, MemoryContent, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelCapabilities,  # pyright: ignore[reportDeprecated] - the contract has it
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import BaseTool, StaticStreamWorkbench, Tool, ToolResult, ToolSchema, Workbench
from pydantic import BaseModel

from settlemark.history import Recorder
from settlemark.history._messages import ToolCall, arguments
from settlemark.history._touches import Said, Tools
from settlemark.history._turns import Turns
from settlemark.history._values import plain
from settlemark_autogen._tools import made_of, tool_of

Choice = Tool | Literal["auto", "required", "none"]


class RecordedAgent:
    """Makes an agent's model client, tools and memory tell a recorder what they do, and changes nothing of it.

    Nothing is settled: it is there to find out what goes wrong before settlemark is adopted. What the agent reads, with
    tools or from its memory, goes into what it writes next; the order in which a model issued the calls of a turn is
    kept beside that in which they ended. With the model client alone the latter is not known: a transcript does not
    have it.

    Args:
        recorder: records; the agents of a team share one.
        name: of the agent.
        effects: what tools do, as in `{"audit": "read", "wire": {"kind": "write", "scope": "account:/{to}"}}`; those
            that are not named do what their names say, unless `@effect` declares them.

    >>> import asyncio
    >>> def get_date() -> str:
    ...     "Look."
    ...     return "14 June"
    >>> recorder = Recorder()
    >>> ada = RecordedAgent(recorder, "ada")
    >>> workbench = ada.workbench([get_date])
    >>> _ = asyncio.run(workbench.call_tool("get_date", {}))
    >>> recorder.records[0].write_values
    {'date': '14 June'}
    """

    def __init__(self, recorder: Recorder, name: str, *, effects: Mapping[str, Said] | None = None) -> None:
        from settlemark._effect import declared_as

        self.name = name
        self.turns = Turns(recorder, Tools(effects, declared_as))
        self._turn: object = None
        self._alone: object = None
        self._together = 0

    def client(self, client: ChatCompletionClient) -> ChatCompletionClient:
        """Return a client that answers as this one does: `AssistantAgent(model_client=…)`."""
        return _Client(self, client)

    def workbench(self, tools: Workbench | Sequence[BaseTool[Any, Any] | Callable[..., Any]]) -> StaticStreamWorkbench:
        """Return a workbench with these tools, or that acts as this one: `AssistantAgent(workbench=…)`."""
        return _Workbench(self, tools)

    def memory(self, memory: Memory, cell: str = "memory") -> Memory:
        """Return a memory that remembers as this one does: `AssistantAgent(memory=[…])`.

        Args:
            memory: what is wrapped.
            cell: its name in the history: the same for all agents that share it.
        """
        return _Memory(self, memory, cell)

    # ---- what the wrappers tell

    def asked(self, messages: Sequence[LLMMessage]) -> None:
        """Note what the model is shown: answers of calls that no workbench has told of."""
        for message in messages:
            for result in message.content if isinstance(message, FunctionExecutionResultMessage) else ():
                self.turns.ended(result.call_id, result.content, failed=bool(result.is_error))
        self.turns.over(self._turn)

    def answered(self, answer: CreateResult) -> None:
        """Note what the model has answered."""
        if isinstance(answer.content, str):
            self.turns.answered(self.name)
            return
        self._turn = object()
        calls = [ToolCall(call.id, call.name, arguments(call.arguments)) for call in answer.content]
        self.turns.issued(self.name, calls, turn=self._turn)

    def began(self, tool: str, given: Mapping[str, Any], call: str | None) -> tuple[str, int]:
        """Note that a call began; return its id, and the moment."""
        if call is None or not self.turns.knows(call):
            # Nobody saw the model: calls that run together were issued together, in the order in which they come.
            self._alone = self._alone if self._together else object()
            call = call or f"call {self.turns.now()}"
            self.turns.issued(self.name, [ToolCall(call, tool, plain(given))], turn=self._alone)
        self._together += 1
        return call, self.turns.moment

    def ended(self, call: str, since: int, result: ToolResult | None) -> None:
        """Note that a call has ended; without a result, that it was cut short."""
        self._together -= 1
        failed = result is None or result.is_error
        said = None if result is None else result.to_text(replace_image="[image]")
        self.turns.ended(call, said, failed=failed, since=since, at=self.turns.now())
        if not self._together:
            self.turns.over(self._alone)


class _Client(ChatCompletionClient):
    """A client that tells of its answers."""

    component_provider_override = "settlemark_autogen.RecordedAgent"

    def __init__(self, agent: RecordedAgent, client: ChatCompletionClient) -> None:
        self._agent = agent
        self._client = client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._client, name)

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
        self._agent.asked(messages)
        answer = await self._client.create(
            messages, tools=tools, tool_choice=tool_choice, json_output=json_output,
            extra_create_args=extra_create_args or {}, cancellation_token=cancellation_token,
        )  # fmt: skip
        self._agent.answered(answer)
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
        """Ask the model, and hand on what it streams."""
        self._agent.asked(messages)
        stream = self._client.create_stream(
            messages, tools=tools, tool_choice=tool_choice, json_output=json_output,
            extra_create_args=extra_create_args or {}, cancellation_token=cancellation_token,
        )  # fmt: skip
        async for answer in stream:
            if isinstance(answer, CreateResult):
                self._agent.answered(answer)
            yield answer

    async def close(self) -> None:
        """Close the wrapped client."""
        await self._client.close()

    def actual_usage(self) -> RequestUsage:
        """Return the wrapped client's."""
        return self._client.actual_usage()

    def total_usage(self) -> RequestUsage:
        """Return the wrapped client's."""
        return self._client.total_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Return the wrapped client's count."""
        return self._client.count_tokens(messages, tools=tools)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Return the wrapped client's count."""
        return self._client.remaining_tokens(messages, tools=tools)

    @property
    def capabilities(self) -> ModelCapabilities:  # pyright: ignore[reportDeprecated] - the contract has it
        """The wrapped client's."""
        return self._client.capabilities

    @property
    def model_info(self) -> ModelInfo:
        """The wrapped client's."""
        return self._client.model_info

    def _to_config(self) -> NoReturn:
        raise NotImplementedError("a recorded agent has no configuration: dump the client that it wraps")


class _Workbench(StaticStreamWorkbench):
    """A workbench that tells of its calls."""

    component_provider_override = "settlemark_autogen.RecordedAgent"

    def __init__(
        self, agent: RecordedAgent, tools: Workbench | Sequence[BaseTool[Any, Any] | Callable[..., Any]]
    ) -> None:
        self._agent = agent
        self._inner = StaticStreamWorkbench([tool_of(t) for t in tools]) if isinstance(tools, Sequence) else tools
        super().__init__(*made_of(self._inner))

    async def list_tools(self) -> list[ToolSchema]:
        """Return the wrapped workbench's tools."""
        return await self._inner.list_tools()

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Run a call."""
        call, since = self._agent.began(name, arguments or {}, call_id)
        try:
            result = await self._inner.call_tool(
                name, arguments=arguments, cancellation_token=cancellation_token, call_id=call_id
            )
        except BaseException:
            self._agent.ended(call, since, None)
            raise
        self._agent.ended(call, since, result)
        return result

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any | ToolResult, None]:
        """Run a call, and hand on what its tool streams."""
        if not isinstance(self._inner, StaticStreamWorkbench):
            yield await self.call_tool(name, arguments, cancellation_token, call_id)
            return
        call, since = self._agent.began(name, arguments or {}, call_id)
        result: ToolResult | None = None
        try:
            async for event in self._inner.call_tool_stream(
                name, arguments=arguments, cancellation_token=cancellation_token, call_id=call_id
            ):
                if isinstance(event, ToolResult):
                    result = event
                    self._agent.ended(call, since, result)
                yield event
        finally:
            if result is None:
                self._agent.ended(call, since, None)

    async def start(self) -> None:
        """Start the wrapped workbench."""
        await self._inner.start()

    async def stop(self) -> None:
        """Stop the wrapped workbench."""
        await self._inner.stop()

    async def reset(self) -> None:
        """Reset the wrapped workbench."""
        await self._inner.reset()

    async def save_state(self) -> Mapping[str, Any]:
        """Return the wrapped workbench's state."""
        return await self._inner.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Have the wrapped workbench load a state."""
        await self._inner.load_state(state)

    def _to_config(self) -> NoReturn:
        raise NotImplementedError("a recorded agent has no configuration: dump the workbench that it wraps")


class _Memory(Memory):
    """A memory that tells of what is read from it and added to it."""

    component_provider_override = "settlemark_autogen.RecordedAgent"

    def __init__(self, agent: RecordedAgent, memory: Memory, cell: str) -> None:
        self._agent = agent
        self._memory = memory
        self._cell = cell

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Give an agent what is remembered."""
        since = self._agent.turns.moment
        found = await self._memory.update_context(model_context)
        self._read(found.memories, since)
        return found

    async def query(
        self, query: str | MemoryContent, cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """Return what is remembered of something."""
        since = self._agent.turns.moment
        found = await self._memory.query(query, cancellation_token, **kwargs)
        self._read(found, since)
        return found

    def _read(self, found: MemoryQueryResult, since: int) -> None:
        contents = [plain(each.content) for each in found.results]
        self._agent.turns.read(self._agent.name, self._cell, contents, since=since)

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Remember something."""
        await self._memory.add(content, cancellation_token)
        self._agent.turns.wrote(self._agent.name, self._cell, plain(content.content))

    async def clear(self) -> None:
        """Forget everything."""
        await self._memory.clear()
        self._agent.turns.wrote(self._agent.name, self._cell, None)

    async def close(self) -> None:
        """Close the wrapped memory."""
        await self._memory.close()

    def _to_config(self) -> NoReturn:
        raise NotImplementedError("a recorded agent has no configuration: dump the memory that it wraps")


__all__ = ["RecordedAgent"]
