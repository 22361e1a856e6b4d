"""Retention: which payloads leave a ledger, and for how long their keys stay."""

from __future__ import annotations

from typing import NamedTuple

from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import Tag


class Age(NamedTuple):
    """The limits of age, in seconds since 1970 except `keys`.

    Attributes:
        now: the present time.
        before: payloads of what settled before this are removed.
        keys: seconds for which a key stays at least if no tool declares how long its counterparty remembers it.
    """

    now: float
    before: float
    keys: float


Cursor = tuple[float, str, int]
"""Where a sweep continues: the last attempt's settling time, name and number."""

BEGINNING: Cursor = (-1e300, "", 0)


class Swept(NamedTuple):
    """The result of a sweep, in attempts: payloads removed, removed entirely, kept; and where to continue.

    And how many entries' bodies were removed.
    """

    payloads: int = 0
    keys: int = 0
    kept: int = 0
    after: Cursor | None = None
    entries: int = 0


def is_kept(tag: Tag | None, outcome: Outcome) -> bool:
    """Whether an operator must look at an effect, or there may still be news of it."""
    return tag not in (None, Tag.CLEAN) or outcome in (Outcome.UNKNOWN, Outcome.INTENDED)


def forget_at(settled: float, window: float | None, keys: float, *, unsaid: bool) -> float:
    """Return when an attempt's keys may be removed: no counterparty remembers them, as far as declared.

    `window` is the longest declared for its effects; `unsaid` says that some effect declares none.

    >>> forget_at(100.0, 30.0, 365.0, unsaid=False), forget_at(100.0, 30.0, 365.0, unsaid=True)
    (130.0, 465.0)
    """
    ends = [settled]
    if window is not None:
        ends.append(settled + window)
    if unsaid:
        ends.append(settled + keys)
    return max(ends)


__all__ = ["BEGINNING", "Age", "Cursor", "Swept", "forget_at", "is_kept"]
