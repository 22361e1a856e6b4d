"""The shim for CrewAI."""

from __future__ import annotations

from settlemark_crewai import _job

__all__ = ["_job"]
