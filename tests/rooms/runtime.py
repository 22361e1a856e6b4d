"""Who carries programs out, and what runs in the background."""

from __future__ import annotations

from settlemark._runtime import aio, sync
from settlemark._runtime.background import Maintenance, Prober
from settlemark._runtime.block import Block
from settlemark._runtime.call_context import call_with_current
from settlemark._runtime.choice import chosen_in
from settlemark._runtime.driver import PARTS, Parts
from settlemark._runtime.speculation import Speculation
from settlemark._runtime.sync import carry_out

__all__ = [
    "PARTS",
    "Block",
    "Maintenance",
    "Parts",
    "Prober",
    "Speculation",
    "aio",
    "call_with_current",
    "carry_out",
    "chosen_in",
    "sync",
]
