"""How far the scopes of the world are settled, for a tool that asks through its runtime."""

from __future__ import annotations

from typing import Any

from langgraph.prebuilt import ToolRuntime

from settlemark import UsageError
from settlemark_langgraph._turns.seated import SeatedCall


def frontier(runtime: ToolRuntime[Any, Any], scope: str) -> int:
    """Return the epoch before which nothing more touches a scope; a tool's own is `current_call().epoch`.

    It advances when nodes have settled: what a tool reads on a scope whose frontier is its own epoch, or later, is
    not changed any more by a node of an earlier superstep.

    Args:
        runtime: what LangGraph gives to a tool with a parameter `runtime: ToolRuntime`.
        scope: such as `"room:/Ada"`.

    Raises:
        UsageError: the tool was not called by a `SequencedToolNode`, or beside a `SettlementMiddleware`.
        ScopeError: `scope` is none.
    """
    seated = SeatedCall.of(runtime)
    if seated is None:
        raise UsageError(
            "frontier(runtime, …) is for tools that a SequencedToolNode, or an agent with SettlementMiddleware, calls:"
            " this one was called by neither"
        )
    return seated.turn.settlement.frontier(scope)


__all__ = ["frontier"]
