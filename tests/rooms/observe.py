"""Logs, line by line."""

from __future__ import annotations

from settlemark._observe.logs import JsonLines, log_failure

__all__ = ["JsonLines", "log_failure"]
