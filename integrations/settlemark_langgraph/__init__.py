"""LangGraph agents whose tool calls settle: in issuance order, exactly once, and undone together.

`SequencedToolNode` takes the place of `langgraph.prebuilt.ToolNode`, `SettlementMiddleware` is for `create_agent`,
`settled_checkpointer` settles supersteps. `record` leaves a history of a graph as it is, with nothing settled.

Two rooms stand beside the swap, and are loaded when they are asked for: `settlemark_langgraph.channels` (here called
`reducers`) has channel contracts to annotate a state with, `settlemark_langgraph.analysis` tells which channels of a
graph need one (`analyze`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settlemark.hosting import missing as _missing

try:
    import langgraph.prebuilt as _langgraph
except ImportError as _error:
    raise _missing("settlemark_langgraph needs LangGraph", "langgraph", _error) from _error

from settlemark.hosting import approve, edit, reject
from settlemark_langgraph._calls.one_tool import settled
from settlemark_langgraph._candidates.choose import achoose, choice, choose
from settlemark_langgraph._corrections import corrections
from settlemark_langgraph._frontier import frontier
from settlemark_langgraph._middleware import SettlementMiddleware
from settlemark_langgraph._recording.record import record
from settlemark_langgraph._rewind.rewind import ThreadRewind, arewind, rewind
from settlemark_langgraph._rewind.steered import asteered, steered
from settlemark_langgraph._supersteps.checkpointer import settled_checkpointer
from settlemark_langgraph._tool_node import SequencedToolNode

if TYPE_CHECKING:
    from settlemark_langgraph import channels as reducers
    from settlemark_langgraph.analysis import Finding, Kind, Report, analyze

del _langgraph, _missing


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "reducers":
        return import_module("settlemark_langgraph.channels")
    if name in {"Finding", "Kind", "Report", "analyze"}:
        found: object = getattr(import_module("settlemark_langgraph.analysis"), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Finding",
    "Kind",
    "Report",
    "SequencedToolNode",
    "SettlementMiddleware",
    "ThreadRewind",
    "achoose",
    "analyze",
    "approve",
    "arewind",
    "asteered",
    "choice",
    "choose",
    "corrections",
    "edit",
    "frontier",
    "record",
    "reducers",
    "reject",
    "rewind",
    "settled",
    "settled_checkpointer",
    "steered",
]
