"""The services for what outlives one process, and how long they wait."""

from __future__ import annotations

from settlemark._lifecycle import recovery
from settlemark._lifecycle.ages import DROPPED, OLD_SECONDS, Ages
from settlemark._lifecycle.approval import Answers
from settlemark._lifecycle.asking import TRIES, Asking
from settlemark._lifecycle.entrance import Entrance
from settlemark._lifecycle.fences import Fences
from settlemark._lifecycle.gates import Gates
from settlemark._lifecycle.parking import Parking
from settlemark._lifecycle.recovery import Recovery
from settlemark._lifecycle.resolution import Resolution
from settlemark._lifecycle.rewind.rewinds import Rewinds
from settlemark._lifecycle.rewind.survey import Request
from settlemark._lifecycle.runs import Runs
from settlemark._lifecycle.selection import Selection

__all__ = [
    "DROPPED",
    "OLD_SECONDS",
    "TRIES",
    "Ages",
    "Answers",
    "Asking",
    "Entrance",
    "Fences",
    "Gates",
    "Parking",
    "Recovery",
    "Request",
    "Resolution",
    "Rewinds",
    "Runs",
    "Selection",
    "recovery",
]
