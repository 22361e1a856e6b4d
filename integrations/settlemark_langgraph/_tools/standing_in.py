"""A copy of a tool that is the same to everybody who looks at it, and whose calls go another way."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool

_REAL: WeakKeyDictionary[type, BaseTool] = WeakKeyDictionary()


def stand_in(
    tool: BaseTool,
    way: Callable[[Any, RunnableConfig | None], Any],
    away: Callable[[Any, RunnableConfig | None], Awaitable[Any]],
) -> BaseTool:
    """Return a copy of a tool whose calls go one of these ways, the second where they are awaited."""

    def invoke(_: BaseTool, input: Any, config: RunnableConfig | None = None, **__: Any) -> Any:  # noqa: A002 - LangChain's name
        return way(input, config)

    async def ainvoke(_: BaseTool, input: Any, config: RunnableConfig | None = None, **__: Any) -> Any:  # noqa: A002 - LangChain's name
        return await away(input, config)

    def run(self: BaseTool, tool_input: Any, *_: Any, **named: Any) -> Any:
        return way(_call(self, tool_input, named), named.get("config"))

    async def arun(self: BaseTool, tool_input: Any, *_: Any, **named: Any) -> Any:
        return await away(_call(self, tool_input, named), named.get("config"))

    kind: Any = type(tool)
    methods = {"invoke": invoke, "ainvoke": ainvoke, "run": run, "arun": arun}
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    made_kind = type(kind)(kind.__name__, (kind,), {**names, **methods})
    made = copy.copy(tool)
    object.__setattr__(made, "__class__", made_kind)
    _REAL[made_kind] = tool
    return made


def real_tool(tool: BaseTool) -> BaseTool:
    """Return the tool that a stand-in is a copy of; any other tool itself."""
    return _REAL.get(type(tool), tool)


def _call(tool: BaseTool, given: Any, named: dict[str, Any]) -> Any:
    """Return what `run` was given as `invoke` takes it."""
    id_ = named.get("tool_call_id")
    return given if id_ is None else {"name": tool.name, "args": given, "id": id_, "type": "tool_call"}


__all__ = ["real_tool", "stand_in"]
