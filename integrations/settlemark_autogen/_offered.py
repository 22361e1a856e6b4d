"""A settled workbench's tools as a client sees them: they name who settles their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autogen_core.tools import Tool, ToolSchema

if TYPE_CHECKING:
    from settlemark_autogen._calls import Calls


class Offered(dict[str, Any]):
    """A tool's schema that knows who settles its calls; a copy of it is a plain one."""

    __slots__ = ("calls",)

    def __init__(self, schema: ToolSchema, calls: Calls) -> None:
        super().__init__(schema)
        self.calls = calls

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


def owners(tools: Sequence[Tool | ToolSchema]) -> dict[str, Calls | None]:
    """Return who settles the calls of each offered tool, by name; None if nobody does.

    An agent looks for a call among its handoffs, which are tools of their own, then in one workbench after the other.
    """
    found: dict[str, Calls | None] = {}
    for tool in tools:
        if isinstance(tool, dict):
            found.setdefault(tool["name"], tool.calls if isinstance(tool, Offered) else None)
    for tool in tools:
        if isinstance(tool, Tool):
            found[tool.name] = None
    return found


__all__ = ["Offered", "owners"]
