"""What detectors are made of."""

from __future__ import annotations

from settlemark.history._detect.cascade import CausalCascade
from settlemark.history._detect.replica_reads import is_read_log
from settlemark.history._detect.serializability import _conflicts, lines
from settlemark.history._detect.verdict import Verdict, Witness
from settlemark.history._detect.window import Beside, Latest, Write
from settlemark.history._importers.messages import seconds
from settlemark.history._recording.record import comparable
from settlemark.history._recording.touches import Touch
from settlemark.history._recording.values import compact, shows

__all__ = [
    "Beside",
    "CausalCascade",
    "Latest",
    "Touch",
    "Verdict",
    "Witness",
    "Write",
    "_conflicts",
    "compact",
    "comparable",
    "is_read_log",
    "lines",
    "seconds",
    "shows",
]
