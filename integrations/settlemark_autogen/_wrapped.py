"""Base classes of the wrapped client and workbench: they delegate to the inner object."""

# AutoGen leaves the type parameters of its tools open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autogen_core.models import (
    ChatCompletionClient,
    LLMMessage,
    ModelCapabilities,  # pyright: ignore[reportDeprecated] - the interface has it
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import BaseTool, StaticStreamWorkbench, Tool, ToolSchema, Workbench

from settlemark_autogen._tools import made_of, tool_of


class WrappedClient(ChatCompletionClient):
    """A client around another one, to which it delegates everything else.

    Attributes:
        client: the inner one.
    """

    def __init__(self, client: ChatCompletionClient) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "client":
            raise AttributeError(name)
        return getattr(self.client, name)

    async def close(self) -> None:
        """Close the wrapped client."""
        await self.client.close()

    def actual_usage(self) -> RequestUsage:
        """Return the wrapped client's."""
        return self.client.actual_usage()

    def total_usage(self) -> RequestUsage:
        """Return the wrapped client's."""
        return self.client.total_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Return the wrapped client's count."""
        return self.client.count_tokens(messages, tools=tools)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Return the wrapped client's count."""
        return self.client.remaining_tokens(messages, tools=tools)

    @property
    def capabilities(self) -> ModelCapabilities:  # pyright: ignore[reportDeprecated] - the interface has it
        """The wrapped client's."""
        return self.client.capabilities

    @property
    def model_info(self) -> ModelInfo:
        """The wrapped client's."""
        return self.client.model_info


class WrappedWorkbench(StaticStreamWorkbench):
    """A workbench around another one, or around tools.

    Agents stream only from a `StaticStreamWorkbench`, so it is one, whatever is inside.

    Attributes:
        inner: the inner one.
    """

    def __init__(self, tools: Workbench | Sequence[BaseTool[Any, Any] | Callable[..., Any]]) -> None:
        self.inner = StaticStreamWorkbench([tool_of(t) for t in tools]) if isinstance(tools, Sequence) else tools
        super().__init__(*made_of(self.inner))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def start(self) -> None:
        """Start the wrapped workbench."""
        await self.inner.start()

    async def stop(self) -> None:
        """Stop the wrapped workbench."""
        await self.inner.stop()

    async def reset(self) -> None:
        """Reset the wrapped workbench."""
        await self.inner.reset()

    async def save_state(self) -> Mapping[str, Any]:
        """Return the wrapped workbench's state."""
        return await self.inner.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Load a state into the wrapped object."""
        await self.inner.load_state(state)


__all__ = ["WrappedClient", "WrappedWorkbench"]
