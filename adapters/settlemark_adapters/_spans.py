"""Lengths of time that whoever makes an adapter sets: what is none is refused there, before anything acts by it."""

from __future__ import annotations

import threading
from typing import Literal, cast

_SECONDS = {"seconds": 1.0, "days": 86_400.0}


def span(name: str, given: float, unit: Literal["seconds", "days"] = "seconds") -> float:
    """Return a length of time that a clock, a lock and a connection can wait for.

    Raises:
        ValueError: it is no number above 0, or more than any of them can.

    >>> span("timeout", 30)
    30
    >>> span("timeout", float("nan"))
    Traceback (most recent call last):
    ValueError: timeout=nan: give a number of seconds above 0, as in timeout=30
    """
    fits = isinstance(cast("object", given), int | float) and not isinstance(given, bool)
    if not (fits and given > 0 and given * _SECONDS[unit] <= threading.TIMEOUT_MAX):
        raise ValueError(f"{name}={given!r:.80}: give a number of {unit} above 0, as in {name}=30")
    return given


__all__ = ["span"]
