"""Wraps AutoGen's tools, so that their results are seen, and so that they know the call they act for.

A workbench turns its tools' results and exceptions into text, and runs a synchronous function in a thread without its
caller's context. An undo needs the result, and `settlemark.current_call()` the context.
"""

# AutoGen leaves the type parameters of its tools open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, cast

from autogen_core import CancellationToken
from autogen_core.tools import BaseTool, FunctionTool, StaticWorkbench, StreamTool, ToolOverride, Workbench
from pydantic import BaseModel

from settlemark.hosting import Patience, ended, in_thread, outcome_of, uninterrupted
from settlemark_autogen._results import Seen


def tool_of(tool: object) -> BaseTool[Any, Any]:
    """Return a tool as `AssistantAgent` makes it of a function.

    Raises:
        TypeError: it is neither a tool nor a function.
    """
    if isinstance(tool, BaseTool):
        return tool
    if callable(tool):
        return FunctionTool(tool, description=tool.__doc__ or "")
    raise TypeError(f"{tool!r} is no tool: give functions, BaseTool objects, or one Workbench")


def function_of(tool: object) -> Callable[..., Any] | None:
    """Return the function that a tool runs, or None if it runs none."""
    return getattr(tool, "_func", None)


def tools_of(workbench: Workbench) -> dict[str, BaseTool[Any, Any]]:
    """Return the tools of a static workbench by the names the model knows; those of another kind are unknown."""
    tools, overrides = made_of(workbench)
    names = {name: override.name for name, override in overrides.items()}
    return {names.get(tool.name) or tool.name: tool for tool in tools}


def made_of(workbench: Workbench) -> tuple[list[BaseTool[Any, Any]], dict[str, ToolOverride]]:
    """Return a static workbench's parts."""
    if not isinstance(workbench, StaticWorkbench):
        return [], {}
    return workbench._tools, workbench._tool_overrides  # noqa: SLF001 - it has no public attributes for them


def as_given(tool: BaseTool[Any, Any] | None, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a tool's arguments as it parses them, its defaults included, as plain data; None if unknown.

    Raises:
        ValueError: it cannot take them.

    >>> def book(hotel: str, nights: int = 1) -> str:
    ...     return hotel
    >>> as_given(tool_of(book), {"hotel": "Ada"})
    {'hotel': 'Ada', 'nights': 1}
    """
    if tool is None:
        return None
    parsed: BaseModel = tool.args_type().model_validate(arguments)
    try:
        return parsed.model_dump(mode="json")
    except ValueError:  # a value without a JSON form is for the tool alone
        return None


def watched(workbench: Workbench, seen: Seen) -> Workbench:
    """Return a workbench with the same behaviour that shows what its tool returned or raised."""
    if not isinstance(workbench, StaticWorkbench):
        return workbench
    twin = copy(workbench)
    watching = [(WatchedStream if isinstance(t, StreamTool) else Watched)(t, seen) for t in workbench._tools]  # noqa: SLF001
    twin._tools = cast("list[BaseTool[Any, Any]]", watching)  # noqa: SLF001 - a workbench takes them only at construction
    return twin


class Watched:
    """A tool that runs another, and shows what that returned or raised."""

    def __init__(self, tool: BaseTool[Any, Any], seen: Seen) -> None:
        self._tool = _with_context(tool)
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        """Run it."""
        try:
            found = await self._tool.run_json(args, cancellation_token, call_id=call_id)
        except BaseException as error:
            self._seen.error = error
            raise
        self._seen.returned, self._seen.value = True, found
        return found


class WatchedStream(Watched):
    """A tool that streams."""

    async def run_json_stream(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> AsyncGenerator[Any, None]:
        """Run it; the last item is its result."""
        tool = cast("StreamTool", self._tool)
        found: Any = None
        try:
            async for found in tool.run_json_stream(args, cancellation_token, call_id=call_id):
                yield found
        except Exception as error:
            self._seen.error = error
            raise
        # The tool makes its result's text: a run of agents has no plain value.
        self._seen.returned, self._seen.value = True, tool.return_value_as_string(found)


def _with_context(tool: BaseTool[Any, Any]) -> BaseTool[Any, Any]:
    """Return a tool whose synchronous function runs in a thread with its caller's context."""
    function = function_of(tool)
    if not isinstance(tool, FunctionTool) or function is None or inspect.iscoroutinefunction(function):
        return tool

    async def aside(**arguments: Any) -> Any:
        # A thread cannot be interrupted: a cancelled caller waits for its result, which is the answer. Its exception
        # travels as a value, since no future takes a `StopIteration`.
        running = asyncio.ensure_future(in_thread(partial(ended, partial(function, **arguments))))
        return outcome_of(await uninterrupted(running, Patience()))

    twin = copy(tool)
    twin._func = aside  # noqa: SLF001 - the tool keeps its signature separately
    return twin


def names_of(schemas: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the arguments of each tool by its name.

    >>> names_of([{"name": "book", "parameters": {"properties": {"hotel": {}}}}, {"name": "look"}])
    {'book': ['hotel'], 'look': []}
    """
    return {schema["name"]: list((schema.get("parameters") or {}).get("properties") or ()) for schema in schemas}


__all__ = [
    "Watched",
    "WatchedStream",
    "as_given",
    "function_of",
    "made_of",
    "names_of",
    "tool_of",
    "tools_of",
    "watched",
]
