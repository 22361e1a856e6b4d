"""Shared ledgers with one rule broken each, and the programs that must show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.core.explorer.mutants import with_part
from tests.core.explorer.stores import SteppedLedger
from tests.rooms.protocol import Board, Hold, Match
from tests.rooms.replica import Batches, Replica, StepQueue, StoreTransaction
from tests.rooms.sql import Wire, saying

from settlemark.hosting import Protocol


class KeepsUpNoMore(Replica):
    """Takes nobody's steps but its own, once it has joined."""

    def catch_up(self, wire: Wire, upto: int) -> None:
        if self.applied < 0:
            super().catch_up(wire, upto)


class KeepsUpLate(Replica):
    """Takes each of another's entries when it sees the next one."""

    _late: tuple[int, str] | None = None

    def _replay(self, number: int, text: str) -> None:
        late, self._late = self._late, (number, text)
        if late is not None:
            super()._replay(*late)
        self.applied = number


class IgnoresTheHead(StoreTransaction):
    """Numbers its entries by what it has seen: the last writer of a number wins."""

    def _lock_head(self, wire: Wire) -> int:
        if self._replica.applied < 0:
            return super()._lock_head(wire)
        number = self._replica.applied + 1
        drop = saying("DELETE FROM settlemark_log WHERE namespace = :namespace AND n = :n")
        wire.execute(drop, {"namespace": self._log.namespace, "n": number})
        return number


class LooksInVain(Batches):
    """Sees what others did, and wakes nobody."""

    def look(self) -> None:
        tickets = [(txn, dict(txn.watchers)) for txn in self._replica.protocol.by_id.values()]
        for txn, _ in tickets:
            txn.watchers.clear()
        super().look()
        for txn, watchers in tickets:
            txn.watchers.update(watchers)


class ForgetsWhatWasForLater(StepQueue):
    """Loses the steps that nobody waits for."""

    def later(self, step: Any) -> None:
        return None


class BlindToWildcards(Board):
    """Lets a wildcard overlap its own text alone."""

    def match(self, hold: Hold) -> Match:
        return hold.match


def having(broken: type[Any]) -> Callable[..., SteppedLedger]:
    """Return what makes ledgers one of whose parts is of a class that breaks a rule of that part."""

    def make(*given: Any, **named: Any) -> SteppedLedger:
        ledger = SteppedLedger(*given, **named)
        (part,) = [part for part in vars(ledger).values() if type(part) is broken.__base__]
        part.__class__ = broken
        return ledger

    return make


@dataclass(frozen=True)
class Mutant:
    programs: tuple[str, ...]
    ledger: Callable[..., SteppedLedger] = SteppedLedger
    protocol: Callable[[], Protocol] = Protocol
    options: dict[str, Any] = field(default_factory=dict)


MUTANTS = {
    "a replica that keeps up no more": Mutant(("ex", "ex"), having(KeepsUpNoMore)),
    "a replica that keeps up late": Mutant(("ex", "rx sx"), having(KeepsUpLate)),
    "an entry numbered without a look at the head": Mutant(("ex", "ex"), having(IgnoresTheHead)),
    "a look that wakes nobody": Mutant(("ex", "ex"), having(LooksInVain)),
    "a ledger that loses what was given for later": Mutant(("ex", "rx"), having(ForgetsWhatWasForLater)),
    "wildcards that overlap nothing": Mutant(("ew f", "ex"), protocol=partial(with_part, BlindToWildcards)),
}

__all__ = ["MUTANTS", "Mutant"]
