"""What of the demo wants the whole of its extra: the graph, a live model, the picture."""

from __future__ import annotations

from settlemark_demo import _graph, _plot
from settlemark_demo._live import LiveModel, ModelFailed
from settlemark_demo._turns import ByTurn, Call, Turn

__all__ = ["ByTurn", "Call", "LiveModel", "ModelFailed", "Turn", "_graph", "_plot"]
