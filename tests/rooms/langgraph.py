"""The shim for LangGraph: supersteps, messages, visits."""

from __future__ import annotations

from settlemark_langgraph._messages import pack, unpack
from settlemark_langgraph._superstep import Superstep
from settlemark_langgraph._susceptibility._command import analyze
from settlemark_langgraph._turns import Turns
from settlemark_langgraph._visit import Visit

__all__ = ["Superstep", "Turns", "Visit", "analyze", "pack", "unpack"]
