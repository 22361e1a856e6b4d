"""What is known of one attempt."""

from __future__ import annotations

from settlemark._attempt import attempt
from settlemark._attempt.attempt import WAITS, Hook, OnFailure
from settlemark._attempt.live_read import LiveRead
from settlemark._attempt.revival import revive
from settlemark._attempt.turn import Seat

__all__ = ["WAITS", "Hook", "LiveRead", "OnFailure", "Seat", "attempt", "revive"]
