"""What a record says, in words and as verdicts."""

from __future__ import annotations

from settlemark._report import sentences
from settlemark._report.verdicts import because_in

__all__ = ["because_in", "sentences"]
