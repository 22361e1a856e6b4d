"""How a guess is marked that a person has not decided."""

from __future__ import annotations

from settlemark.lint._undecided import marked

__all__ = ["marked"]
