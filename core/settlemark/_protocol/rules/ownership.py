"""Ownership: an unfinished transaction is one worker's to bring to its end, or nobody's until somebody takes it.

What was put aside (parked), and what a dead worker had, is nobody's: whoever comes back to it owns it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settlemark._edges.errors import StateError
from settlemark._protocol.holdings import NOBODY, Mode

if TYPE_CHECKING:
    from settlemark._protocol.board import Board
    from settlemark._protocol.holdings import Txn
    from settlemark._protocol.rules.calls import Calls
    from settlemark._protocol.rules.line import Line


class Ownership:
    """Gives transactions to workers, and takes them from those that are gone."""

    def __init__(self, board: Board, calls: Calls, line: Line) -> None:
        self._board = board
        self._calls = calls
        self._line = line

    def park(self, txn: Txn, *, parked: bool, hooked: bool) -> None:
        """Note that a transaction is put aside until somebody comes back to it, or that this has happened."""
        txn.parked, txn.hooked, txn.judged = parked, hooked, False
        if parked:
            txn.owner = NOBODY
            self._board.wake(txn)  # nobody stands in line behind it any more

    def own(self, txn: Txn, worker: str) -> None:
        """Give a transaction to a worker that will bring it to its end.

        Raises:
            StateError: another worker has it; nothing moved.
        """
        if txn.owner != NOBODY:
            raise StateError(
                f"{txn.name} is being brought to its end by {txn.owner}: wait for it",
                transaction=txn.name,
                state=txn.state,
            )
        txn.owner = worker

    def bury(self, worker: str) -> list[Txn]:
        """Take a dead worker's transactions from it; they are nobody's until somebody owns them.

        What they were doing is over: an act that was running has no outcome, a read is forgotten.
        """
        found = [txn for txn in self._board.live.values() if txn.owner == worker]
        for txn in found:
            txn.owner = NOBODY
            self._line.leave(txn)
            for call in list(txn.calls.values()):
                if call.wanting:
                    self._calls.withdraw(call)
                elif call.admitted and not call.returned and call.mode is not Mode.HELD:
                    self._calls.acted(call, happened=True)
            self._board.wake(txn)
        return found


__all__ = ["Ownership"]
