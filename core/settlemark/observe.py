"""The events for an observer: `Settlement(observe=…)`.

Events carry names, scopes, keys and outcomes, never arguments or results. `settlemark.telemetry` is one observer.

>>> from contextlib import nullcontext
>>> from settlemark import Settlement
>>> from settlemark.observe import Ended
>>> class Counting:
...     ended = 0
...     def tell(self, event): self.ended += isinstance(event, Ended)
...     def around(self, acting): return nullcontext()
>>> observer = Counting()
>>> with Settlement("memory:", observe=observer) as settlement, settlement.transaction("trip-42"): pass
>>> observer.ended
1
"""

from __future__ import annotations

from settlemark._observe.events import (
    Acted,
    Acting,
    Aging,
    Began,
    Ended,
    Event,
    LostLease,
    Observer,
    Overlooked,
    Recovered,
    Recovery,
    Waited,
)

__all__ = [
    "Acted",
    "Acting",
    "Aging",
    "Began",
    "Ended",
    "Event",
    "LostLease",
    "Observer",
    "Overlooked",
    "Recovered",
    "Recovery",
    "Waited",
]
