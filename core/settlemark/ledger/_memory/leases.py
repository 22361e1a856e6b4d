"""The rows of leases in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from functools import partial

from settlemark._model.scope import Scope
from settlemark.ledger._leased.rows import LeaseRow, place_of, places_of

_LAST = "\U0010ffff"


class MemoryLeases:
    """The rows of leases in memory.

    Args:
        on_rollback: takes functions that undo a step's changes.
    """

    def __init__(self, on_rollback: Callable[[Callable[[], object]], None]) -> None:
        self._on_rollback = on_rollback
        self._rows: dict[str, LeaseRow] = {}
        self._places: list[tuple[str, str]] = []  # of each lease its place, and its scope, sorted
        self._ends: list[tuple[float, str]] = []  # of each lease when it ends, and its scope, sorted

    def every(self) -> list[LeaseRow]:
        """Return all leases that were not released or taken, by scope."""
        return sorted(self._rows.values())

    def near(self, scope: Scope) -> list[LeaseRow]:
        """Return, by scope, the leases that may overlap a scope, and few others."""
        above, low, high = places_of(scope)
        found = [row for place in above for row in self._between((place, ""), (place, _LAST))]
        return sorted([*found, *self._between((low, _LAST), (high, ""))])

    def on(self, scope: str) -> LeaseRow | None:
        """Return the lease on exactly this scope, or None."""
        return self._rows.get(scope)

    def put(self, row: LeaseRow) -> None:
        """Write a lease, in place of the one on the same scope."""
        self._change(row.scope, row)

    def drop(self, row: LeaseRow) -> None:
        """Remove a lease: the one with its scope and its token."""
        found = self._rows.get(row.scope)
        if found is not None and found.token == row.token:
            self._change(row.scope, None)

    def forget(self, before: float) -> None:
        """Remove the leases that have ended before this time."""
        while self._ends and self._ends[0][0] < before:
            self._change(self._ends[0][1], None)

    def _between(self, low: tuple[str, str], high: tuple[str, str]) -> list[LeaseRow]:
        first, last = bisect_left(self._places, low), bisect_right(self._places, high)
        return [self._rows[scope] for _, scope in self._places[first:last]]

    def _change(self, scope: str, row: LeaseRow | None) -> None:
        self._on_rollback(partial(self._set, scope, self._rows.get(scope)))
        self._set(scope, row)

    def _set(self, scope: str, row: LeaseRow | None) -> None:
        before, place = self._rows.pop(scope, None), (place_of(scope), scope)
        if before is not None:
            del self._places[bisect_left(self._places, place)]
            del self._ends[bisect_left(self._ends, (before.until, scope))]
        if row is not None:
            self._rows[scope] = row
            insort(self._places, place)
            insort(self._ends, (row.until, scope))


__all__ = ["MemoryLeases"]
