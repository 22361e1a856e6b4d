"""Logs, line by line."""

from __future__ import annotations

from settlemark._observe.logs import JsonLines

__all__ = ["JsonLines"]
