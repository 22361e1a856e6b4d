"""Whether a tool runs a graph, an agent say, whose calls settle: as far as its function can reach one."""

# Whatever a tool can reach comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any

from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.pregel import Pregel

from settlemark_langgraph._tools.standing_in import real_tool

_MOST = 1_000
"""How many objects are looked at: a tool with a graph that is hidden deeper runs in order."""
_LOOKED_INTO = (Runnable, list, tuple, dict, MethodType, FunctionType)
_OURS = __name__.partition(".")[0]


def runs_a_settled_graph(tool: BaseTool) -> bool:
    """Whether the function of a tool can reach a graph with tools that settle: by its variables, arguments, or object.

    >>> from langchain_core.tools import tool
    >>> from langgraph.graph import START, MessagesState, StateGraph
    >>> from settlemark_langgraph import SequencedToolNode
    >>> @tool
    ... def look(what: str) -> str:
    ...     "Look."
    ...     return what
    >>> builder = StateGraph(MessagesState).add_node("tools", SequencedToolNode([look]))
    >>> graph = builder.add_edge(START, "tools").compile()
    >>> @tool
    ... def task(what: str) -> str:
    ...     "Have it done."
    ...     return graph.invoke({"messages": [what]})["messages"][-1].text
    >>> runs_a_settled_graph(task), runs_a_settled_graph(look)
    (True, False)
    """
    functions = [getattr(tool, "func", None), getattr(tool, "coroutine", None)]
    if not any(functions):
        functions = [type(tool)._run, type(tool)._arun, tool]  # noqa: SLF001 - what a tool overrides
    graphs: list[Any] = [found for found in _reachable(functions) if _is(found, Pregel)]
    return any(_settles(found) for graph in graphs for found in _reachable(_looked_into(graph)))


def _nodes(graph: Pregel[Any, Any, Any, Any]) -> list[object]:
    return [node.bound for node in graph.nodes.values()]


def _settles(found: Any) -> bool:
    ours = type(found).__module__.partition(".")[0] == _OURS
    return ours or (_is(found, BaseTool) and real_tool(found) is not found)


def _reachable(roots: Iterable[object]) -> Iterator[object]:
    """Yield what can be reached from these, the nearest first; what a graph runs is reached from its nodes."""
    seen: set[int] = set()
    left: deque[Any] = deque(roots)
    while left and len(seen) < _MOST:
        found = left.popleft()
        if id(found) not in seen:
            seen.add(id(found))
            yield found
            left.extend(_looked_into(found))


def _is(found: object, kind: Any) -> bool:
    return issubclass(type(found), kind)  # and not what an object says of itself


def _looked_into(found: Any) -> list[object]:
    """Return what is reached from an object of anybody's, as far as that lets itself be looked into.

    A proxy may answer in a request only, and other threads may be at work on a mapping.
    """
    reached: list[object] = []
    with suppress(Exception):
        reached.extend(_nodes(found) if _is(found, Pregel) else _reached_from(found))
    return reached


def _reached_from(found: Any) -> Iterator[object]:
    if _is(found, MethodType):
        yield from (found.__func__, found.__self__)
    elif _is(found, functools.partial):
        yield from (found.func, *found.args, *found.keywords.values())
    elif _is(found, FunctionType):
        yield from _variables(found)
    elif _is(found, dict):
        yield from dict.copy(found).values()  # at once: other threads may write to it
    elif _is(found, Mapping):
        yield from found.values()
    elif _is(found, list | tuple | set):
        yield from list(found)
    elif _is(found, Runnable) or hasattr(found, "__dict__"):
        yield from (value for value in _own(found) if _is(value, _LOOKED_INTO))


def _own(found: Any) -> Iterable[object]:
    return [] if _is(found, type) else list(dict(getattr(found, "__dict__", {})).values())


def _variables(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is not set yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield wrapped
    for name in _names(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            if not _is(value, type):
                yield value


def _names(code: CodeType) -> Iterator[str]:
    """Return the names of globals that a function uses, and those within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


__all__ = ["runs_a_settled_graph"]
