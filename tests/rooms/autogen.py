"""The shim for AutoGen."""

from __future__ import annotations

from settlemark_autogen import _config
from settlemark_autogen._tools import tool_of

__all__ = ["_config", "tool_of"]
