"""What a primer's text is made of."""

from __future__ import annotations

from settlemark._claims import telling

__all__ = ["telling"]
