"""The function behind a tool, and the names of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from pydantic_ai.toolsets import ToolsetTool


def function_of(tool: ToolsetTool[Any]) -> Callable[..., Any] | None:
    """Return the function that a tool runs, or None if it runs elsewhere, or is unknown."""
    found: object = getattr(schema_of(tool), "function", None)
    return cast("Callable[..., Any]", found) if callable(found) else None


def schema_of(tool: ToolsetTool[Any]) -> object:
    """Return the object that holds a tool's function: the same one, however toolsets wrap and rename the tool."""
    return getattr(getattr(_inner(tool), "call_func", None), "__self__", None)


def arguments_of(tool: ToolsetTool[Any]) -> Sequence[str]:
    """Return the names of a tool's arguments."""
    return tuple(tool.tool_def.parameters_json_schema.get("properties", {}))


def is_journaled(tool: ToolsetTool[Any]) -> bool:
    """Whether the agent's durability journals the tool's calls itself, and answers repeated ones from there."""
    toolset: object = getattr(_inner(tool), "toolset", None)
    return type(toolset).__module__.startswith("pydantic_ai.durable_exec")


def is_threaded(tool: ToolsetTool[Any]) -> bool:
    """Whether a tool's function runs in a thread."""
    return getattr(_inner(tool), "is_async", True) is False


def _inner(tool: object) -> object:
    while (source := getattr(tool, "source_tool", None)) is not None:
        tool = source
    return tool


__all__ = ["arguments_of", "function_of", "is_journaled", "is_threaded", "schema_of"]
