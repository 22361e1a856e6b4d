"""What a record says, in words and as verdicts."""

from __future__ import annotations

from settlemark._report import sentences
from settlemark._report.approval_rejected_on_replay import because_in, refuse_rejected
from settlemark._report.judged import body_of

__all__ = ["because_in", "body_of", "refuse_rejected", "sentences"]
