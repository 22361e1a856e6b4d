"""The adapter for MCP: the server that it starts."""

from __future__ import annotations

from settlemark_adapters import _mcp_server

__all__ = ["_mcp_server"]
