"""What a record says, in words and as verdicts."""

from __future__ import annotations

from settlemark._report import sentences
from settlemark._report.approval_rejected_on_replay import because_in, refuse_rejected

__all__ = ["because_in", "refuse_rejected", "sentences"]
