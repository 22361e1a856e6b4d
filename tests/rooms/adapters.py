"""Adapters: what several are made of, and their own records."""

from __future__ import annotations

from settlemark_adapters._addresses import one_address, one_line, suppressed_among
from settlemark_adapters._keyed import Order, digest_of, mark_of
from settlemark_adapters._marks import Mark
from settlemark_adapters._running import run
from settlemark_adapters._schemas import Arguments
from settlemark_adapters._spans import span
from settlemark_adapters.filesystem._plans import Plans
from settlemark_adapters.filesystem._records import Desk
from settlemark_adapters.git._repository import Repository
from settlemark_adapters.objects._acts import Acts

__all__ = [
    "Acts",
    "Arguments",
    "Desk",
    "Mark",
    "Order",
    "Plans",
    "Repository",
    "digest_of",
    "mark_of",
    "one_address",
    "one_line",
    "run",
    "span",
    "suppressed_among",
]
