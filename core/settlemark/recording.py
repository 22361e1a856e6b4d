"""Building blocks to record a framework's own runs: plans, graphs, messages, and what the tools touched.

`settlemark_langgraph` records a stock graph with these, for the anomaly detectors.
"""

from __future__ import annotations

from settlemark.history._importers.graphs import NODE_TAG, Graphs, Place
from settlemark.history._importers.messages import Result, ToolCall, arguments, is_mapping, messages_in
from settlemark.history._importers.plans import ANYWHERE, Plans, Registry, signature
from settlemark.history._importers.turns import Turns
from settlemark.history._recording.cells import Cells, Pair, Seen
from settlemark.history._recording.recorder import Operation
from settlemark.history._recording.touches import Said, Tools
from settlemark.history._recording.values import plain

__all__ = [
    "ANYWHERE",
    "NODE_TAG",
    "Cells",
    "Graphs",
    "Operation",
    "Pair",
    "Place",
    "Plans",
    "Registry",
    "Result",
    "Said",
    "Seen",
    "ToolCall",
    "Tools",
    "Turns",
    "arguments",
    "is_mapping",
    "messages_in",
    "plain",
    "signature",
]
