"""A call after its admission, or after it gave up waiting: each return frees what is no longer needed.

A *claim* is kept from its admission until the commit, or the end of its undo; an effect that did not happen frees it.
What an abort could not undo stays in the world, and counts as a write. A broad claim may be refined to what was
touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from settlemark._edges.errors import InternalError, LateAppend, OutsideDeclared
from settlemark._protocol.holdings import Call, Hold, Mode, Txn
from settlemark._protocol.states import UNSETTLED, Reason, State

if TYPE_CHECKING:
    from settlemark._model.scope import Scope
    from settlemark._protocol.board import Board
    from settlemark._protocol.rules.abort import Aborts
    from settlemark._protocol.rules.frontier import Halts


class Calls:
    """Follows each call from its request to its end."""

    def __init__(self, board: Board, aborts: Aborts, halts: Halts) -> None:
        self._board = board
        self._aborts = aborts
        self._halts = halts

    @staticmethod
    def number(call: Call) -> None:
        """Number a call within its transaction."""
        txn = call.txn
        txn.numbered += 1
        call.number = txn.numbered
        txn.calls[call.number] = call

    def refuse_append(self, txn: Txn, scope: Scope) -> None:
        """Refuse a call of a transaction that is not open any more; a sealed transaction is aborted for it.

        Raises:
            LateAppend: the transaction was sealed, or has settled.
            Refused: the transaction was aborted.
        """
        if txn.state is State.SEALED:
            self._aborts.abort(txn, Reason.VIOLATION, {"scope": scope})
            raise LateAppend(
                f"a call on {scope} came after {txn.name} was sealed: it was refused and {txn.name} was aborted;"
                " wait for every call before the step ends",
                transaction=txn.name,
                scope=scope,
            )
        if txn.state in (State.ABORTING, State.ABORTED):
            raise self._board.refusal(txn)
        raise LateAppend(
            f"a call on {scope} came after {txn.name} had settled: it was refused; use a new transaction",
            transaction=txn.name,
            scope=scope,
        )

    def withdraw(self, call: Call) -> None:
        """Withdraw a waiting request; a hold that served nothing else is dropped with it."""
        hold = call.hold
        if not call.wanting or hold is None:
            return
        call.wanting = False
        self._close(call)
        if call.txn.state is not State.OPEN:
            return
        hold.wants -= 1
        self._board.refresh(hold)
        if not (hold.touched or hold.active or hold.declared):
            self._board.drop_hold(hold)
            self._board.wake(call.txn)

    def acted(self, call: Call, happened: bool) -> None:
        """Record that an admitted read or effect has returned; an effect that did not happen frees its claim."""
        txn, hold, board = call.txn, call.hold, self._board
        if hold is None or not call.admitted:
            raise InternalError(f"{txn.name}: {call.scope} returned without having been admitted")
        call.returned = True
        if call.mode is Mode.READ:
            self._close(call)
            txn.reading -= 1
            if txn.state is State.OPEN:
                hold.readings -= 1
                board.refresh(hold)
            return
        txn.running -= 1
        board.wake(txn, siblings=False)  # what it did stands there now, for who reads early
        if not happened:
            self._close(call)
            self._drop_claim(hold)
        else:
            txn.acts += 1
            hold.last_act = txn.acts
            if board.chronicle is not None:
                board.chronicle.left(txn, call)
        if txn.state is State.ABORTING:
            self._aborts.conclude(txn)

    def resumed(self, calls: Iterable[Call]) -> None:
        """Record that a suspended effect, whose claims are still held, runs again.

        Raises:
            Refused: the transaction was aborted meanwhile.
            LateAppend: the transaction is sealed or settled.
            Halted: a scope, the run or everything is halted; nothing moved.
        """
        calls = list(calls)
        for call in calls:
            if call.txn.state is not State.OPEN:
                self.refuse_append(call.txn, call.scope)
            if self._board.halts:
                self._halts.refuse_call(call.txn, call.scope)
        for call in calls:
            call.txn.running += 1
            call.returned = False

    def released(self, call: Call) -> None:
        """Record that a held effect has left, or may have: from here on the transaction cannot be undone."""
        hold = call.hold
        if hold is None or call.returned:
            return
        call.returned = True
        hold.txn.released = True
        if self._board.chronicle is not None:
            self._board.chronicle.left(hold.txn, call)
        hold.held -= 1
        self._board.refresh(hold)

    def drop_call(self, call: Call) -> None:
        """Record that a held effect will never leave (it was refused, or could not be recorded)."""
        hold = call.hold
        if hold is None:
            return
        self._close(call)
        # After an abort the hold may be a retry's, and is not ours to drop.
        if hold.held and hold.txn is call.txn:
            hold.held -= 1
            self._board.refresh(hold)

    def undone(self, call: Call, *, clean: bool) -> None:
        """Record that an abort dealt with one executed effect; what stays in the world counts as a write."""
        hold = call.hold
        if hold is None:
            return
        self._close(call)
        if not clean:
            self._board.versions.wrote([hold])
        self._drop_claim(hold)

    def refine(self, call: Call, to: Iterable[Scope]) -> list[Call]:
        """Replace an effect's broad claim by the scopes it really touched; return the narrower calls.

        Raises:
            OutsideDeclared: a refined scope lies outside the declared one; nothing moved.
        """
        txn, broad, board = call.txn, call.hold, self._board
        assert broad is not None
        to = tuple(to)
        for scope in to:
            if not call.scope.covers(scope):
                raise OutsideDeclared(
                    f"{txn.name} refined {call.scope} to {scope}, which lies outside it:"
                    " declare a may_touch= scope that covers what the tool touches",
                    scope=scope,
                    declared=call.scope,
                )
        if txn.state not in UNSETTLED:
            return [call]
        narrower: list[Call] = []
        for scope in to:
            hold = board.hold(txn, scope, declared=False)
            hold.declared = False
            hold.stands_for(call.commutes)
            hold.granted = min(hold.granted or broad.granted, broad.granted)
            hold.last_act = max(hold.last_act, broad.last_act)
            hold.claims += 1
            txn.claims += 1
            board.refresh(hold)
            following = Call(txn, scope, call.mode, call.place, turned=call.turned, commutes=call.commutes)
            following.hold, following.admitted, following.returned = hold, True, True
            self.number(following)
            narrower.append(following)
        self._close(call)
        self._drop_claim(broad)
        if not (broad.active or broad.scope in txn.reads or broad.scope in to):
            board.drop_hold(broad)
            board.wake(txn)
        return narrower

    def _close(self, call: Call) -> None:
        """Record that a call is closed."""
        call.hold = None
        call.txn.calls.pop(call.number, None)
        if self._board.closed is not None:
            self._board.closed.append(call)

    def _drop_claim(self, hold: Hold) -> None:
        hold.claims -= 1
        hold.txn.claims -= 1
        if not hold.claims:
            hold.granted = 0
        self._board.refresh(hold)


__all__ = ["Calls"]
