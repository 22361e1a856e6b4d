"""Who carries programs out, and what runs in the background."""

from __future__ import annotations

from settlemark._runtime import aio, sync
from settlemark._runtime.background import Prober, Tender
from settlemark._runtime.call_context import call_with_current
from settlemark._runtime.driver import PARTS, Parts
from settlemark._runtime.speculation import Speculation
from settlemark._runtime.sync import _do_sync

__all__ = ["PARTS", "Parts", "Prober", "Speculation", "Tender", "_do_sync", "aio", "call_with_current", "sync"]
