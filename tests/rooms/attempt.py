"""What is known of one attempt."""

from __future__ import annotations

from settlemark._attempt import attempt
from settlemark._attempt.attempt import Hook, OnFailure
from settlemark._attempt.effect_records import EffectRecords
from settlemark._attempt.expected import Expected
from settlemark._attempt.live_read import LiveRead
from settlemark._attempt.part import current_of
from settlemark._attempt.revival import revive
from settlemark._attempt.turn import Seat
from settlemark._attempt.wait_log import WAITS, WaitLog

__all__ = [
    "WAITS",
    "EffectRecords",
    "Expected",
    "Hook",
    "LiveRead",
    "OnFailure",
    "Seat",
    "WaitLog",
    "attempt",
    "current_of",
    "revive",
]
