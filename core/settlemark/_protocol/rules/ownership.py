"""Ownership: an unfinished transaction belongs to the worker that ends it, or to nobody until a worker takes it.

A parked transaction, and those of a dead worker, belong to nobody: the next to resume one owns it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settlemark._edges.errors import StateError
from settlemark._protocol.holdings import NOBODY, Mode

if TYPE_CHECKING:
    from settlemark._protocol.board import Board
    from settlemark._protocol.holdings import Txn
    from settlemark._protocol.rules.calls import Calls
    from settlemark._protocol.rules.waiting_line import Line


class Ownership:
    """Gives transactions to workers, and takes them from dead ones."""

    def __init__(self, board: Board, calls: Calls, line: Line) -> None:
        self._board = board
        self._calls = calls
        self._line = line

    def park(self, txn: Txn, *, parked: bool, hooked: bool) -> None:
        """Record that a transaction is put aside until it is resumed, or that it was resumed."""
        txn.parked, txn.hooked, txn.judged = parked, hooked, False
        if parked:
            txn.owner = NOBODY
            self._board.wake(txn)  # nobody stands in line behind it any more

    def own(self, txn: Txn, worker: str) -> None:
        """Give a transaction to the worker that will end it.

        Raises:
            StateError: another worker has it; nothing moved.
        """
        if txn.owner != NOBODY:
            raise StateError(
                f"{txn.name} is being ended by the worker {txn.owner}: wait for it",
                transaction=txn.name,
                state=txn.state,
            )
        txn.owner = worker

    def bury(self, worker: str) -> list[Txn]:
        """Take a dead worker's transactions from it; they belong to nobody until a worker owns them.

        Their running calls are over: an act has no outcome, a read is forgotten.
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
