"""The conformance kit of adapters: its kills and undos, and its command."""

from __future__ import annotations

from settlemark_adapters.testing import _crashing, _undoing
from settlemark_adapters.testing._command import fuzz, subjects

__all__ = ["_crashing", "_undoing", "fuzz", "subjects"]
