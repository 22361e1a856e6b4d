"""How an effect can be undone, and what is known of one: the six classes and the outcomes.

Sources: Atomix §2.3 (taxonomy), Gray 1978; the six classes are those of the design's table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


class EffectClass(StrEnum):
    """When an effect runs, and how it can be undone."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    REVERSIBLE = "reversible"
    STAGED = "staged"
    IRREVERSIBLE = "irreversible"
    OPAQUE = "opaque"


EffectName = Literal["read", "idempotent", "reversible", "staged", "irreversible", "opaque"]
HELD_CLASSES = frozenset({EffectClass.STAGED, EffectClass.IRREVERSIBLE})
UNKNOWN = object()
"""What a probe returns when it cannot tell; `None` means the effect is absent."""


class Outcome(StrEnum):
    """What is known of an effect: it goes from intended or queued to one of the others.

    `suspended`: its framework stopped it (to ask a person, say) before it acted; it runs again.
    """

    INTENDED = "intended"
    SUSPENDED = "suspended"
    QUEUED = "queued"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNDONE = "undone"
    DROPPED = "dropped"
