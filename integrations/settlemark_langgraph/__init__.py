"""LangGraph agents whose tool calls settle: in issuance order, exactly once, and undone together.

`SequencedToolNode` takes the place of `langgraph.prebuilt.ToolNode`, `SettlementMiddleware` is for `create_agent`,
`settled_checkpointer` settles supersteps, `reducers` has channel contracts to annotate a state with, and `analyze`
tells which channels of a graph need one. `record` leaves a history of a graph as it is, with nothing settled.
"""

from __future__ import annotations

from settlemark.hosting import missing as _missing

try:
    import langgraph.prebuilt as _langgraph
except ImportError as _error:
    raise _missing("settlemark_langgraph needs LangGraph", "langgraph", _error) from _error

from settlemark.hosting import approve, edit, reject
from settlemark_langgraph import reducers
from settlemark_langgraph._checkpointer import settled_checkpointer
from settlemark_langgraph._choose import achoose, choice, choose
from settlemark_langgraph._corrections import corrections
from settlemark_langgraph._frontier import frontier
from settlemark_langgraph._middleware import SettlementMiddleware
from settlemark_langgraph._recording import record
from settlemark_langgraph._rewind import ThreadRewind, arewind, rewind
from settlemark_langgraph._susceptibility._analysis import analyze
from settlemark_langgraph._susceptibility._findings import Finding, Kind, Report
from settlemark_langgraph._tool_node import SequencedToolNode

del _langgraph, _missing

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
    "choice",
    "choose",
    "corrections",
    "edit",
    "frontier",
    "record",
    "reducers",
    "reject",
    "rewind",
    "settled_checkpointer",
]
