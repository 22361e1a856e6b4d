"""The abort rule: readers of undone work are undone first, and a retry keeps its predecessor's place.

* Held effects are dropped at once; claims stay until each effect is undone, so that nobody meets a half-done undo.
* An undo begins when no call of the transaction runs any more, and no reader of its work is left (`conclude`).
* A retry takes over position and footprint in the same step in which the old attempt finishes: it cannot starve.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from settlemark._edges.errors import InternalError, StateError
from settlemark._edges.text import CAUSE, prose
from settlemark._protocol import ties
from settlemark._protocol.holdings import Txn
from settlemark._protocol.states import RETRIED, UNSETTLED, Event, Reason, State

if TYPE_CHECKING:
    from settlemark._protocol.board import Board
    from settlemark._protocol.rules.waiting_line import Line

_Cascade = Generator["_Cascade", None, None]


class Aborts:
    """Aborts transactions, and removes finished ones from the board."""

    def __init__(self, board: Board, line: Line) -> None:
        self._board = board
        self._line = line

    def abort(self, txn: Txn, reason: Reason, detail: dict[str, Any]) -> None:
        """Abort a transaction that has not settled; any other is left alone."""
        if txn.state in UNSETTLED:
            self._strike_all(txn, reason, detail)

    def revert(self, txn: Txn, reason: Reason, detail: dict[str, Any]) -> None:
        """Abort a releasing transaction of which nothing has left.

        Raises:
            StateError: something has left, or the transaction is not releasing; nothing moved.
        """
        if txn.state is not State.RELEASING or txn.released:
            raise StateError(
                f"{txn.name} is {txn.state}: what has left cannot be undone", transaction=txn.name, state=txn.state
            )
        self._strike_all(txn, reason, detail)

    def _strike_all(self, txn: Txn, reason: Reason, detail: dict[str, Any]) -> None:
        struck = [self.strike(txn, reason, detail)]
        while struck:  # depth first, with a list: there may be more readers than the interpreter has frames
            follower = next(struck[-1], None)
            if follower is None:
                struck.pop()
            else:
                struck.append(follower)

    def strike(self, txn: Txn, reason: Reason, detail: dict[str, Any]) -> _Cascade:
        """Abort one transaction after the readers of its work, each of which is yielded to be struck first."""
        board = self._board
        board.move_state(txn, Event.ABORT)
        txn.reason = reason
        # Every replica, and its image, keeps this text.
        txn.detail = {key: prose(said, CAUSE) if isinstance(said, str) else said for key, said in detail.items()}
        for follower in list(ties.dependents(board.by_id, txn)) if txn.dependents else ():
            scopes = follower.preds.get(txn.id)
            # Else the follower has ended with another transaction, in this same step.
            if scopes is not None and follower.state in UNSETTLED:
                yield self.strike(follower, Reason.CASCADED, {"scope": next(iter(scopes)), "holder": txn.name})
        for hold in txn.holds.values():
            hold.held = hold.wants = hold.readings = 0
            board.refresh(hold)
        board.wake(txn)
        self.conclude(txn)

    def may_conclude(self, txn: Txn) -> bool:
        """Whether the undo of an aborted transaction can begin: no call of it runs, no reader of its work is left."""
        return not txn.running and not (txn.dependents and any(ties.dependents(self._board.by_id, txn)))

    def conclude(self, txn: Txn) -> None:
        """Begin to undo an aborted transaction, if no call of it is out any more."""
        if not self.may_conclude(txn):
            return
        self._board.aborted.append(txn)
        if not txn.claims:
            self.finish(txn)

    def finish(self, txn: Txn) -> None:
        """Record that its undos are done; a retry takes its position and footprint in this same step."""
        if txn.claims or txn.running:
            raise InternalError(f"{txn.name} cannot finish: {txn.claims} claims, {txn.running} calls")
        board = self._board
        board.move_state(txn, Event.FINISH)
        if txn.reason in (Reason.STALE, Reason.CASCADED):
            board.versions.drop_plan(txn.run)
        elif txn.reads and txn.reason is not Reason.WOUNDED:
            board.versions.keep_plan(txn)
        if board.chronicle is not None:
            board.chronicle.aborted(txn)
        if txn.retry and txn.reason in RETRIED and not self._is_stopped(txn):
            self.succeed(txn)
        else:
            self.retire(txn)

    def _is_stopped(self, txn: Txn) -> bool:
        """Whether an operator keeps its run, or an agent in it, from acting, for good or for now."""
        board = self._board
        return txn.run in board.fenced or any(halt.covers(txn.run, (), txn.agents) for halt in board.halts.values())

    def succeed(self, txn: Txn) -> None:
        """Begin the next attempt in the old one's place, with its holds as declared holds."""
        board = self._board
        again = Txn(
            board.next_serial(),
            txn.name,
            txn.run,
            txn.attempt + 1,
            txn.position,
            retry=True,
            owner=txn.owner,
            parent=txn.parent,
            group=txn.group,
            role=txn.role,
            guards=txn.guards,
            queues=txn.queues,
            agents=txn.agents,
        )
        txn.successor = again
        if board.chronicle is not None:
            board.chronicle.began(again)
        again.since = board.time
        del board.by_id[txn.id]
        board.note_end(txn)
        board.enter(again)
        board.join_group(again)
        board.versions.forget(txn)
        board.versions.take_plan(again)
        again.holds, txn.holds = txn.holds, {}
        lines_up = txn.writes and self._line.lines_up(again)  # a reader need not stand in line
        for hold in again.holds.values():
            hold.txn = again
            if lines_up and (hold.scope in txn.reads or hold.last_act):
                board.enter_line(hold)
                again.begins_again = True
            hold.declared, hold.last_act = True, 0
            # Who has touched it in another way, too, holds it alone from the first: else it would claim it beside an
            # older one of its group that waits, be wounded by that again, and so on without end.
            hold.commutes = None if hold.commutes else hold.commutes
        if again.begins_again:
            board.tell_tied()
        board.wake(txn)
        self._part(txn)
        board.prune()

    def retire(self, txn: Txn) -> None:
        """Remove a finished transaction, and its holds, from the board."""
        board = self._board
        for hold in list(txn.holds.values()):
            board.drop_hold(hold)
        board.drop(txn)
        board.versions.forget(txn)
        board.wake(txn)
        self._part(txn)
        board.prune()

    @staticmethod
    def drop_retry(txn: Txn) -> None:
        """Record that nobody will retry a transaction: its abort frees its place."""
        txn.retry = False

    def retract(self, name: str, attempt: int) -> None:
        """Record that a committed transaction is undone on request: histories hear of it, and nothing moves."""
        if self._board.chronicle is not None:
            self._board.chronicle.retracted(name, attempt)

    def _part(self, txn: Txn) -> None:
        if not (txn.preds or txn.dependents):
            return
        for pred in ties.part(self._board.by_id, txn):
            if pred.state is State.ABORTING:
                self.conclude(pred)  # its undo waited for this one


__all__ = ["Aborts"]
