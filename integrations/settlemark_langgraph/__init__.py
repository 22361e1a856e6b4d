"""LangGraph agents whose tool calls settle: in issuance order, exactly once, and undone together.

`SequencedToolNode` takes the place of `langgraph.prebuilt.ToolNode`.
"""

from __future__ import annotations

try:
    import langgraph.prebuilt as _langgraph
except ImportError as _error:
    raise ImportError(
        'settlemark_langgraph needs LangGraph: pip install "settlemark[langgraph]"', name="langgraph"
    ) from _error

from settlemark_langgraph._tool_node import SequencedToolNode

del _langgraph

__all__ = ["SequencedToolNode"]
