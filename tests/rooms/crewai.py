"""The shim for CrewAI."""

from __future__ import annotations

from settlemark_crewai import _job, _steps

__all__ = ["_job", "_steps"]
