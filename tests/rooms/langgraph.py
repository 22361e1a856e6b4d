"""The shim for LangGraph: supersteps, messages, visits."""

from __future__ import annotations

from settlemark_langgraph._messages.messages import pack, unpack
from settlemark_langgraph._supersteps.superstep import Superstep
from settlemark_langgraph._turns.turns import Turns
from settlemark_langgraph._turns.visit import Visit
from settlemark_langgraph.analysis._command import analyze

__all__ = ["Superstep", "Turns", "Visit", "analyze", "pack", "unpack"]
