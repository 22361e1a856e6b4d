"""One act on the world: what a program asks for, and what is known of a failure or an answer."""

from __future__ import annotations

from settlemark._acts.current import _current
from settlemark._acts.failure import Ask, Verdict
from settlemark._acts.gate import Approval, would
from settlemark._acts.judged import Judged
from settlemark._acts.perform import CUT_OFF, SILENT, perform
from settlemark._acts.requests import Act, Pending, Recorded, Sleep, Together

__all__ = [
    "CUT_OFF",
    "SILENT",
    "Act",
    "Approval",
    "Ask",
    "Judged",
    "Pending",
    "Recorded",
    "Sleep",
    "Together",
    "Verdict",
    "_current",
    "perform",
    "would",
]
