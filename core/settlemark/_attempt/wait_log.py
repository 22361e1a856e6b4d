"""For whom a transaction waited, and for how long: what its record tells of that."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from settlemark.ledger._contract import Waited

WAITS = 8
"""How many waits the record of a transaction has."""


class WaitLog(msgspec.Struct, eq=False):
    """The last waits of an attempt, the latest last."""

    waits: dict[tuple[str, str], Waited] = {}

    def begins(self, holder: str, scope: str, since: float) -> None:
        """Note a wait for a holder of a scope: since the first time, when that one was waited for there before."""
        earlier = self.waits.pop((holder, scope), None)
        self.waits[holder, scope] = Waited(holder, scope, since if earlier is None else earlier.since)
        for oldest in list(self.waits)[:-WAITS]:  # calls of it wait in threads of their own
            self.waits.pop(oldest, None)

    def ends(self, holder: str, scope: str, until: float) -> None:
        """Note that a wait is over."""
        waited = self.waits.get((holder, scope))
        if waited is not None:
            self.waits[holder, scope] = waited._replace(until=until)

    def told(self) -> tuple[Waited, ...]:
        """Return the waits, for the record."""
        return tuple(self.waits.values())

    def take_over(self, waits: Iterable[Waited]) -> None:
        """Go on from the waits that another process put on record."""
        self.waits = {(waited.holder, waited.scope): waited for waited in waits}


__all__ = ["WaitLog"]
