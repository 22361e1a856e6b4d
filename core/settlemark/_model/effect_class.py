"""The six effect classes, which say how an effect can be undone, and the outcomes of an effect.

Sources: Atomix §2.3 (taxonomy), Gray 1978.
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
"""A probe's answer when it cannot tell; `None` means the effect is absent."""


class Outcome(StrEnum):
    """What is known of an effect, which moves from intended or queued to one of the others.

    `suspended`: the framework stopped the call before it acted (to ask a person, for example); the call runs again.
    """

    INTENDED = "intended"
    SUSPENDED = "suspended"
    QUEUED = "queued"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNDONE = "undone"
    DROPPED = "dropped"
