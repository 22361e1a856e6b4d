"""Which channels of a graph are open to lost updates, fail-stops and stale reads, by its reachable supersteps.

`analyze(graph)` tells, before anything runs; so does `settlemark analyze module:graph`. Who swaps a node imports none
of this.
"""

from __future__ import annotations

from settlemark_langgraph.analysis._analysis import analyze
from settlemark_langgraph.analysis._findings import Finding, Kind, Report

__all__ = ["Finding", "Kind", "Report", "analyze"]
