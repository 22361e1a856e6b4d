"""State shared by the nodes, middleware and checkpointer of one settlement."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from settlemark._api.settlement import Settlement

T = TypeVar("T")


class OfSettlement(Generic[T]):
    """One value for each settlement, made at the first request and collected with the settlement.

    >>> common, settlement = OfSettlement(lambda _: []), Settlement("memory:")
    >>> common(settlement) is common(settlement)
    True
    """

    def __init__(self, make: Callable[[Settlement], T]) -> None:
        self._make = make
        self._known: weakref.WeakKeyDictionary[Settlement, T] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def __call__(self, settlement: Settlement) -> T:
        """Return a settlement's value."""
        with self._lock:
            found = self._known.get(settlement)
            if found is None:
                found = self._known[settlement] = self._make(settlement)
            return found


__all__ = ["OfSettlement"]
