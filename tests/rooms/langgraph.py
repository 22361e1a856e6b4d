"""The shim for LangGraph: supersteps, messages, visits."""

from __future__ import annotations

from settlemark_langgraph._messages.messages import answer_from, pack, plain, unpack
from settlemark_langgraph._supersteps import ending
from settlemark_langgraph._supersteps.superstep import Superstep
from settlemark_langgraph._tools.graphs_within import runs_a_settled_graph
from settlemark_langgraph._turns.turns import Turns
from settlemark_langgraph._turns.visit import Visit
from settlemark_langgraph.analysis._command import analyze

__all__ = [
    "Superstep",
    "Turns",
    "Visit",
    "analyze",
    "answer_from",
    "ending",
    "pack",
    "plain",
    "runs_a_settled_graph",
    "unpack",
]
