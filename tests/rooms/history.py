"""What detectors are made of."""

from __future__ import annotations

from settlemark.history._record import comparable
from settlemark.history._replica_reads import is_read_log
from settlemark.history._serializability import _conflicts
from settlemark.history._touches import Touch
from settlemark.history._values import compact, shows
from settlemark.history._verdict import Verdict, Witness
from settlemark.history._window import Latest, Write

__all__ = [
    "Latest",
    "Touch",
    "Verdict",
    "Witness",
    "Write",
    "_conflicts",
    "compact",
    "comparable",
    "is_read_log",
    "shows",
]
