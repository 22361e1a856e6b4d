"""The shim for CrewAI."""

from __future__ import annotations

from settlemark_crewai import _job
from settlemark_crewai._hooks import ensure_hooks

__all__ = ["_job", "ensure_hooks"]
