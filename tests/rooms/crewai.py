"""The shim for CrewAI."""

from __future__ import annotations

from settlemark_crewai import _job
from settlemark_crewai._private import NATIVE, STEPS, WRITTEN

__all__ = ["NATIVE", "STEPS", "WRITTEN", "_job"]
