"""What is final: positions below a scope's floor, and cancelled runs.

The *frontier* of a scope (who may settle next there) is derived from the holds, so known work cannot be overtaken.
`advance` raises a floor explicitly, never past a live hold. A *fence* aborts what of a run has not settled, and keeps
the run from acting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from settlemark._edges.errors import Cancelled, ContractViolation
from settlemark._protocol.states import Reason
from settlemark._protocol.versions import LAST

if TYPE_CHECKING:
    from settlemark._model.scope import Scope
    from settlemark._protocol.board import Board
    from settlemark._protocol.holdings import Blocked, Txn
    from settlemark._protocol.rules.abort import Aborts


class Frontier:
    """Tells how far each scope has settled."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def of(self, scope: Scope) -> int:
        """Return the smallest epoch among holds overlapping a scope; with none, the next epoch."""
        index = self._board.index
        least = index.least(index.match(scope))
        return self._board.next_epoch if least is None else least[0]

    def floor(self, scope: Scope) -> int:
        """Return the epoch at or below which nobody may newly touch a scope."""
        return self._board.versions.floor(scope, self._board.index.match(scope))[0]

    def version(self, scope: Scope) -> int:
        """Return the number of the last committed write overlapping a scope, 0 if none is still needed."""
        return self._board.index.version(self._board.index.match(scope))

    def first(self, txn: Txn, blocked: Blocked) -> tuple[str, float]:
        """Return the name of the first transaction that this one waits for, and when one before that left."""
        index = self._board.index
        match = index.match(blocked.scope)
        least = index.least(match)
        first = blocked.holder if least is None or least >= txn.position else self._board.live[least]
        return first.name, index.left(match)

    def advance(self, scope: Scope, epoch: int) -> None:
        """Raise the floor of a scope: everything at or below this epoch is final there.

        Raises:
            ContractViolation: work at or below it may still come; nothing moved.
        """
        board = self._board
        least = board.index.least(board.index.match(scope))
        if least is not None and least[0] <= epoch:
            holder = board.live[least]
            raise ContractViolation(
                f"{scope} cannot be advanced past epoch {epoch}: {holder.name}, at {least[0]}, may still touch it;"
                f" nothing moved; wait until it has ended, or advance to {least[0] - 1}",
                scope=scope,
                epoch=epoch,
                holder=holder.name,
                frontier=least[0],
            )
        if epoch >= board.next_epoch:
            raise ContractViolation(
                f"{scope} cannot be advanced past epoch {epoch}: this epoch has not been given yet; nothing moved;"
                f" advance to {board.next_epoch - 1}",
                scope=scope,
                epoch=epoch,
                holder=None,
                frontier=board.next_epoch,
            )
        board.versions.advance(scope, (epoch, LAST))


class Fences:
    """Cancels runs."""

    def __init__(self, board: Board, aborts: Aborts) -> None:
        self._board = board
        self._aborts = aborts

    def refuse(self, name: str, run: str) -> None:
        """Check that a run is not fenced.

        Raises:
            Cancelled: the run is fenced.
        """
        if run in self._board.fenced:
            raise Cancelled(
                f"{run} was cancelled: nothing of it acts any more; start again under another run id",
                transaction=name,
                epoch=None,
            )

    def unfence(self, runs: Iterable[str]) -> None:
        """Remove the fences of runs that are long over."""
        self._board.fenced.difference_update(runs)

    def cancel(self, run: str) -> list[Txn]:
        """Fence a run: abort everything of it that has not settled, and return its unfinished transactions."""
        self._board.fenced.add(run)
        found = [txn for txn in self._board.live.values() if txn.run == run]
        for txn in found:
            self._aborts.abort(txn, Reason.CANCELLED, {})
        return found


__all__ = ["Fences", "Frontier"]
