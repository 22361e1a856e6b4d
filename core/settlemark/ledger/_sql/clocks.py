"""The stores' own clocks, as SQL: seconds since 1970."""

from __future__ import annotations

CLOCKS = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "extract(epoch from clock_timestamp())::float8",
}

__all__ = ["CLOCKS"]
