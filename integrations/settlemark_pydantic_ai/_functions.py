"""What is behind a tool: the function that it runs, and the names of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from pydantic_ai.toolsets import ToolsetTool


def function_of(tool: ToolsetTool[Any]) -> Callable[..., Any] | None:
    """Return the function that a tool runs, or None: it runs elsewhere, or the framework does not tell."""
    found: object = getattr(schema_of(tool), "function", None)
    return cast("Callable[..., Any]", found) if callable(found) else None


def schema_of(tool: ToolsetTool[Any]) -> object:
    """Return what holds the function of a tool: the same object, however toolsets wrap and rename the tool."""
    return getattr(getattr(_inner(tool), "call_func", None), "__self__", None)


def arguments_of(tool: ToolsetTool[Any]) -> Sequence[str]:
    """Return the names of a tool's arguments."""
    return tuple(tool.tool_def.parameters_json_schema.get("properties", {}))


def is_journaled(tool: ToolsetTool[Any]) -> bool:
    """Whether the agent's durability has the tool's calls in its own journal, and answers repeated ones from there."""
    toolset: object = getattr(_inner(tool), "toolset", None)
    return type(toolset).__module__.startswith("pydantic_ai.durable_exec")


def is_threaded(tool: ToolsetTool[Any]) -> bool:
    """Whether a tool's function is run in a thread."""
    return getattr(_inner(tool), "is_async", True) is False


def _inner(tool: object) -> object:
    while (source := getattr(tool, "source_tool", None)) is not None:
        tool = source
    return tool


__all__ = ["arguments_of", "function_of", "is_journaled", "is_threaded", "schema_of"]
