"""Which tools of a graph nobody declared: what they do to the world is unknown, so it cannot be undone."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any, cast

from langgraph.prebuilt import ToolNode

from settlemark import Settlement
from settlemark.agents import declared_at
from settlemark_langgraph._tool_node import SequencedToolNode
from settlemark_langgraph._tools.declarations import places_of
from settlemark_langgraph.analysis._findings import Finding, Kind

_DEEP = 12
_MANY = 10_000


def undeclared_tools(node: str, tools: ToolNode, settlement: Settlement | None, *, alone: bool) -> Iterator[Finding]:
    """Yield a finding for each tool of a node without a declared effect.

    Declarations are looked for on the tool (`@effect`), in the settlement given, in the node's own, and in
    that of a middleware around its calls. `alone`: each call of a turn is sent to the node on its own, as
    `create_agent` does; the node then never sees a turn, and only a middleware does.
    """
    sequenced = isinstance(tools, SequencedToolNode)
    around = [settlement] if settlement is not None else []
    around += _settlements(tools)
    for name, tool in tools.tools_by_name.items():
        if any(one.declared(name) is not None for one in around) or declared_at(*places_of(tool)) is not None:
            continue
        if sequenced:
            how = f'settlement.declare("{name}", …), or effects={{"{name}": …}} for the node'
            suggestion = "settlement.declare"
        elif around:
            how = f'settlement.declare("{name}", …)'
            suggestion = "settlement.declare"
        elif alone:
            how = f'create_agent(…, middleware=[SettlementMiddleware(settlement)]), and settlement.declare("{name}", …)'
            suggestion = "SettlementMiddleware"
        else:
            swap = "swap the stock ToolNode for SequencedToolNode(tools, settlement=…)"
            how = f'{swap}, and settlement.declare("{name}", …)'
            suggestion = "SequencedToolNode"
        why = f"what {name} does to the world is not declared, so it cannot be held back or undone: {how}"
        yield Finding(Kind.UNDECLARED_TOOL, None, (node,), (node,), suggestion, why, name)


def unsettled(tools: ToolNode) -> bool:
    """Say whether nothing settles the calls of a node: it is a stock one, without a middleware of a settlement."""
    return not isinstance(tools, SequencedToolNode) and not list(_settlements(tools))


def _settlements(tools: ToolNode) -> Iterator[Settlement]:
    """Yield the settlements a node's calls go through: its own, and those of what wraps them."""
    yield from _reached(vars(tools), _DEEP, set())


def _reached(value: Any, deep: int, seen: set[int]) -> Iterator[Settlement]:
    if isinstance(value, Settlement):
        if id(value) not in seen:
            seen.add(id(value))
            yield value
        return
    if (
        deep == 0
        or len(seen) > _MANY
        or id(value) in seen
        or isinstance(value, str | bytes | int | type | types.ModuleType)
    ):
        return
    seen.add(id(value))
    for part in _held_by(value):
        yield from _reached(part, deep - 1, seen)


def _held_by(value: Any) -> Iterator[Any]:
    """Yield what a wrapper may keep its settlement in: a closure, a bound object, a container."""
    match value:
        case types.FunctionType():
            for cell in value.__closure__ or ():
                try:
                    yield cell.cell_contents
                except ValueError:
                    continue
        case types.MethodType():
            yield value.__self__
        case Mapping():
            yield from (entry for key, entry in _entries(value) if key != "_tools_by_name")
        case list() | tuple():
            yield from cast("list[Any]", value)
        case _:
            yield from getattr(value, "__dict__", {}).values()


def _entries(value: Any) -> Iterator[tuple[object, Any]]:
    yield from list(value.items())


__all__ = ["undeclared_tools", "unsettled"]
