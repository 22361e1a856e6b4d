"""How much is tested: each time what takes minutes altogether, and with SETTLEMARK_TESTS=all everything."""

from __future__ import annotations

import os

ALL = os.environ.get("SETTLEMARK_TESTS") == "all"

__all__ = ["ALL"]
