"""The rows of leases in a SQL store, as seen by one open transaction."""

from __future__ import annotations

from functools import cache

from settlemark._model.scope import Scope
from settlemark.ledger._leased.rows import LeaseRow, place_of, places_of
from settlemark.ledger._sql.wire import Statement, Wire


class SqlLeases:
    """The rows of leases of one namespace, in the open transaction of a wire."""

    __slots__ = ("_namespace", "_wire")

    def __init__(self, wire: Wire, namespace: str) -> None:
        self._wire = wire
        self._namespace = namespace

    def every(self) -> list[LeaseRow]:
        """Return all leases that were not released or taken, by scope."""
        return sorted(LeaseRow(*row) for row in self._wire.query(_ALL, {"namespace": self._namespace}))

    def near(self, scope: Scope) -> list[LeaseRow]:
        """Return, by scope, the leases that may overlap a scope, and few others: no more of the store is read."""
        above, low, high = places_of(scope)
        at = {f"p{number}": place for number, place in enumerate(above)}
        found = self._wire.query(_near(len(above)), {"namespace": self._namespace, "low": low, "high": high, **at})
        return sorted(LeaseRow(*row) for row in found)

    def on(self, scope: str) -> LeaseRow | None:
        """Return the lease on exactly this scope, or None."""
        found = self._wire.query(_ON, {"namespace": self._namespace, "scope": scope})
        return next((LeaseRow(*row) for row in found), None)

    def put(self, row: LeaseRow) -> None:
        """Write a lease, in place of the one on the same scope."""
        self._wire.execute(_PUT, {"namespace": self._namespace, "place": place_of(row.scope), **row._asdict()})

    def drop(self, row: LeaseRow) -> None:
        """Remove a lease: the one with its scope and its token."""
        self._wire.execute(_DROP, {"namespace": self._namespace, "scope": row.scope, "token": row.token})

    def forget(self, before: float) -> None:
        """Remove the leases that have ended before this time."""
        self._wire.execute(_FORGET, {"namespace": self._namespace, "before": before})


_ROWS = (
    "SELECT scope, token, holder, since_seconds, until_seconds, period_seconds, grace_seconds, asked_seconds"
    " FROM settlemark_lease WHERE namespace = :namespace"
)
_ALL = Statement(_ROWS)
_ON = Statement(f"{_ROWS} AND scope = :scope")


@cache
def _near(above: int) -> Statement:
    """Return the statement for a scope with so many places above it: two ranges of one index."""
    places = ", ".join(f":p{number}" for number in range(above))
    return Statement(f"{_ROWS} AND place IN ({places}) UNION ALL {_ROWS} AND place > :low AND place < :high")


_PUT = Statement(
    "INSERT INTO settlemark_lease (namespace, scope, place, token, holder, since_seconds, until_seconds,"
    " period_seconds, grace_seconds, asked_seconds)"
    " VALUES (:namespace, :scope, :place, :token, :holder, :since, :until, :period, :grace, :asked)"
    " ON CONFLICT (namespace, scope)"
    " DO UPDATE SET token = excluded.token, holder = excluded.holder, since_seconds = excluded.since_seconds,"
    " until_seconds = excluded.until_seconds, period_seconds = excluded.period_seconds,"
    " grace_seconds = excluded.grace_seconds, asked_seconds = excluded.asked_seconds"
)
_DROP = Statement("DELETE FROM settlemark_lease WHERE namespace = :namespace AND scope = :scope AND token = :token")
_FORGET = Statement("DELETE FROM settlemark_lease WHERE namespace = :namespace AND until_seconds < :before")

__all__ = ["SqlLeases"]
