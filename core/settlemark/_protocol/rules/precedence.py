"""Precedence: where a touch meets a younger's claim, one of the two gives way; and nobody acts below a floor.

* A touch that meets a younger's claim *wounds* the younger (which aborts, is undone and is retried) when the toucher
  held part of the scope before the claim was granted, or holds a claim itself; otherwise the toucher is *restamped*
  above it.
* Claims of one group on one scope commute: neither gives way.
* A restamp gives a fresh position and moves along, in their order, the younger unfinished holders of what the restamped
  one claims, transitively. The hold it works under stays behind it.

So every wait goes from a larger position to a smaller one: there is no deadlock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settlemark._protocol.holdings import AGE, Hold, Txn
from settlemark._protocol.index import BUSY, Match
from settlemark._protocol.states import UNSETTLED, Reason, State
from settlemark._protocol.ties import are_siblings

if TYPE_CHECKING:
    from settlemark._protocol.board import Board
    from settlemark._protocol.rules.abort import Aborts


class Precedence:
    """Decides who gives way."""

    def __init__(self, board: Board, aborts: Aborts) -> None:
        self._board = board
        self._aborts = aborts

    def meet_claims(self, hold: Hold, match: Match) -> None:
        """Wound younger transactions that claim what a hold's own touches, or restamp that one above them."""
        txn = hold.txn
        for other in sorted(self._board.index.members(match, BUSY), key=AGE):
            rival = other.txn
            if rival is txn or rival.state not in UNSETTLED or rival.position < txn.position or not other.claims:
                continue
            if hold.commutes_with(other) or are_siblings(self._board.by_id, txn, rival):
                continue
            if txn.claims or _held_before(txn, other) or self._is_held_for(txn):
                self._aborts.abort(rival, Reason.WOUNDED, {"scope": other.scope, "holder": txn.name})
            else:
                self.restamp(txn)

    def _is_held_for(self, txn: Txn) -> bool:
        """Whether the hold that a transaction works under covers a scope in its name: then the hold moves with it."""
        known = self._board.by_id
        return bool(txn.group and txn.group in known and known[txn.group].holds)

    def restamp(self, txn: Txn) -> None:
        """Give a transaction, and those that move with it, fresh positions in their order."""
        followers = sorted(self.behind(txn), key=lambda t: t.position)
        for moved in (txn, *followers):
            self._board.place(moved, self._board.fresh(moved.position[1]))

    def behind(self, txn: Txn) -> set[Txn]:
        """Return the younger unfinished holders of what a transaction claims, transitively.

        The hold that it works under stays behind it, and counts as a claim on what the hold covers.
        """
        board = self._board
        found: set[Txn] = set()
        todo = [txn]
        while todo:
            ahead = todo.pop()
            above = board.by_id.get(ahead.group) if ahead.group else None
            if above is not None and above.state is State.OPEN and above not in found:
                found.add(above)
                todo.append(above)
            for hold in ahead.holds.values():
                if not (hold.claims or ahead.role):
                    continue
                for position in board.index.above(board.match(hold), ahead.position):
                    other = board.live[position]
                    coming_back = other.state is State.ABORTING and other.retry
                    if other is not txn and other not in found and (other.state in UNSETTLED or coming_back):
                        found.add(other)
                        todo.append(other)
        return found


def _held_before(txn: Txn, claim: Hold) -> bool:
    return any(h.since < claim.granted and h.scope.overlaps(claim.scope) for h in txn.holds.values())


__all__ = ["Precedence"]
