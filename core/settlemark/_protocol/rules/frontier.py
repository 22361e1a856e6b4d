"""What is final: positions below a scope's floor, and cancelled runs; and what an operator has halted for now.

The *frontier* of a scope (who may settle next there) is derived from the holds, so known work cannot be overtaken.
`advance` raises a floor explicitly, never past a live hold. A *fence* aborts what of a run has not settled, and keeps
the run from acting.

A *halt* keeps a scope, runs, an agent, or everything from acting until it is lifted. What is open there is aborted;
what is sealed or decided stays as it is, put aside by its program between two acts; what a framework had put aside
stays so. An undo is no act that a halt stops, nor is a transaction whose purpose it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from settlemark._edges.errors import Cancelled, ContractViolation, UsageError
from settlemark._protocol.holdings import Halt
from settlemark._protocol.refusals import detail_of, halted
from settlemark._protocol.states import Reason, State
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


class Halts:
    """Halts scopes, runs, agents or everything, and lifts halts."""

    def __init__(self, board: Board, aborts: Aborts) -> None:
        self._board = board
        self._aborts = aborts

    def over(self, run: str, scopes: Iterable[Scope] = (), agents: Iterable[str] = ()) -> Halt | None:
        """Return a halt that keeps work of a run, and of agents, on these scopes from acting, or None."""
        return next((halt for halt in self._board.halts.values() if halt.covers(run, scopes, agents)), None)

    def on(self, txn: Txn) -> Halt | None:
        """Return a halt of a transaction's run, of an agent in it, or of a scope that it has touched, or None."""
        if not self._board.halts or txn.mends:
            return None
        return self.over(txn.run, txn.touched, txn.agents)

    def refuse(self, name: str, run: str, agents: Iterable[str] = (), *, mends: bool) -> None:
        """Check that a run may begin a transaction in which these agents act.

        Raises:
            Halted: the run, one of the agents, or everything is halted.
        """
        halt = None if mends else self.over(run, (), agents)
        if halt is not None:
            raise halted(name, None, halt)

    def refuse_call(self, txn: Txn, scope: Scope) -> None:
        """Check that a transaction may touch a scope.

        Raises:
            Halted: the scope, the run, an agent in it or everything is halted.
        """
        halt = None if txn.mends else self.over(txn.run, (scope,), txn.agents)
        if halt is not None:
            raise halted(txn.name, txn.epoch, halt)

    def join(self, txn: Txn, agent: str) -> None:
        """Note that an agent begins to act in a transaction: from here on a halt of it covers the whole.

        Raises:
            Halted: the agent is halted; nothing moved.
        """
        halt = None if txn.mends else self.over(txn.run, (), (agent,))
        if halt is not None:
            raise halted(txn.name, txn.epoch, halt)
        if agent not in txn.agents:
            txn.agents = (*txn.agents, agent)

    def halt(
        self, scope: Scope | None, run: str | None, by: str, because: str, since: float, agent: str | None = None
    ) -> Halt:
        """Halt a scope, a run, an agent, or with none of them everything; return the halt.

        What is open there is aborted; but not what a framework has put aside, which acts on nothing.
        """
        board = self._board
        board.halted += 1
        halt = board.halts[board.halted] = Halt(board.halted, scope, run, by, because, since, agent=agent)
        for txn in list(board.live.values()):
            if self.on(txn) is None or txn.finished:
                continue
            if (txn.state is State.OPEN and not txn.parked) or (txn.state is State.SEALED and txn.hooked):
                self._aborts.abort(txn, Reason.HALTED, detail_of(halt))
            else:
                board.wake(txn)
        return halt

    def lift(self, number: int) -> Halt:
        """Lift a halt, and return it.

        Raises:
            UsageError: there is none of this number; nothing moved.
        """
        halt = self._board.halts.pop(number, None)
        if halt is None:
            raise UsageError(f"there is no halt {number}: it was lifted before, or never made; nothing moved")
        return halt


__all__ = ["Fences", "Frontier", "Halts"]
