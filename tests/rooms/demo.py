"""The demo: its worlds, scenarios, trials and reports."""

from __future__ import annotations

from settlemark_demo import _report, _scenarios, _tools, _trials, _world
from settlemark_demo._evidence import Entry, Evidence
from settlemark_demo._limits import Limits
from settlemark_demo._world import World, two_worlds

__all__ = ["Entry", "Evidence", "Limits", "World", "_report", "_scenarios", "_tools", "_trials", "_world", "two_worlds"]
