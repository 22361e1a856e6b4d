"""The line: a transaction that lost a race begins again behind the transactions that would make it lose another.

A transaction with `queues` that lost a race waits, before it begins again, for every older holder of what it had read
or claimed. A younger claim there waits until it has begun, as for a request of its own: granted, the claim would be
wounded by the repeated request. Until it is finished, a first read by another such transaction waits for it there, and
joins the line. Correctness does not depend on the line: it saves attempts that would be lost, and a waiter whose time
is up goes ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settlemark._protocol.holdings import Blocked, Hold, Mode, Txn
from settlemark._protocol.index import HOLDS, LINE, Match

if TYPE_CHECKING:
    from settlemark._protocol.board import Board


class Line:
    """Decides who stands in line, and behind whom."""

    def __init__(self, board: Board) -> None:
        self._board = board

    @staticmethod
    def lines_up(txn: Txn) -> bool:
        """Whether it may stand in a line: not if tied, since those it is tied to may be behind others in it."""
        return txn.queues and txn.guards.current and not (txn.parent or txn.group or txn.role)

    def leave(self, txn: Txn) -> None:
        """Record that a transaction has begun again, or never will: its holds no longer count as requests."""
        if txn.begins_again:
            txn.begins_again = False
            self._board.wake(txn)

    def stand(self, txn: Txn, mode: Mode, hold: Hold, match: Match) -> Blocked | None:
        """Return who is before a request in a line, and put a read into the line."""
        before = self.before(txn, mode, hold, match)
        if before is not None and mode is Mode.READ:
            self._board.enter_line(hold)
        return before

    def before(self, txn: Txn, mode: Mode, hold: Hold, match: Match) -> Blocked | None:
        """Return whom a read waits for, since it would else be out of date before its transaction commits.

        Or whom a claim waits for, since it would else be wounded by the other's repeated request.
        """
        # Not during a read of its own, perhaps of the same call: those ahead may wait for that read.
        if txn.reading:
            return None
        if mode is not Mode.READ:
            # Only those that can be waited for: standing in no line saves nobody from being wounded.
            tied = txn.parent or txn.group or txn.role
            older = None if tied else self._older(txn, match, LINE, waiting=True)
            return None if older is None else Blocked(older, hold.scope, in_line=True)
        if hold.scope in txn.reads or not self.lines_up(txn):
            return None
        older = self._older(txn, match, LINE)
        return None if older is None else Blocked(older, hold.scope, in_line=True)

    def ahead(self, txn: Txn) -> Blocked | None:
        """Return whom a transaction waits for before it begins again, or None."""
        if not txn.begins_again:
            return None
        for hold in txn.holds.values():
            older = self._older(txn, self._board.match(hold), HOLDS) if hold.lined else None
            if older is not None:
                return Blocked(older, hold.scope)
        return None

    def _older(self, txn: Txn, match: Match, layer: int, *, waiting: bool = False) -> Txn | None:
        """Return the nearest older transaction that works or is `waiting`; when a parked one resumes is unknown."""
        index, live = self._board.index, self._board.live
        position = index.below(match, layer, txn.position)
        while position is not None and (live[position].parked or (waiting and not live[position].begins_again)):
            position = index.below(match, layer, position)
        return None if position is None else live[position]


__all__ = ["Line"]
