"""One thing a doctor found: how bad it is, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is: `danger` weakens durability, so that what was acknowledged may be lost."""

    OK = "ok"
    NOTE = "note"
    ATTENTION = "attention"
    DANGER = "danger"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and what to do about it; `advice` is empty when there is nothing to do."""

    check: str
    severity: Severity
    found: str
    advice: str = ""


__all__ = ["Finding", "Severity"]
