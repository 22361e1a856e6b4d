"""How old is too old: which payloads leave a ledger, and for how long their keys stay after them."""

from __future__ import annotations

from typing import NamedTuple

from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import Tag


class Age(NamedTuple):
    """What is old: in seconds since 1970, but for `keys`.

    Attributes:
        now: when this is asked.
        before: payloads of what settled before this go.
        keys: seconds for which a key stays at least where nobody said how long its counterparty remembers it.
    """

    now: float
    before: float
    keys: float


Cursor = tuple[float, str, int]
"""Where a sweep goes on: when the last attempt it looked at had settled, its name and number."""

BEGINNING: Cursor = (-1e300, "", 0)


class Swept(NamedTuple):
    """What a sweep did, in attempts: whose payloads went, which went whole, which stay; and where to go on."""

    payloads: int = 0
    keys: int = 0
    kept: int = 0
    after: Cursor | None = None


def is_kept(tag: Tag | None, outcome: Outcome) -> bool:
    """Whether an effect is one that somebody must look at, or may still hear of."""
    return tag not in (None, Tag.CLEAN) or outcome in (Outcome.UNKNOWN, Outcome.INTENDED)


def forget_at(settled: float, window: float | None, keys: float, *, unsaid: bool) -> float:
    """Return when an attempt's keys may go: no counterparty remembers them, as far as anybody said.

    `window` is the longest that was declared of its effects, `unsaid` that there is one without.

    >>> forget_at(100.0, 30.0, 365.0, unsaid=False), forget_at(100.0, 30.0, 365.0, unsaid=True)
    (130.0, 465.0)
    """
    return settled + max(window or 0.0, keys if unsaid else 0.0)


__all__ = ["BEGINNING", "Age", "Cursor", "Swept", "forget_at", "is_kept"]
