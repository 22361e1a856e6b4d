"""The decision: a sealed transaction commits when nobody older can still change what it is based on.

*Commit*: sealed, the oldest unfinished holder on every scope it touched, no undo running where its held effects will
land, every read current and every tool as planned (`staleness`, asked last, in the same step). One that wrote nothing
skips the first. Writers commit in position order on each scope, so committed transactions are conflict-serializable.
Older holders that do nothing on a scope but commute with what it did there are passed by: the order of the two is no
conflict, and one that touches the scope in another way afterwards is restamped above the floor first (`admission`).
The commit raises the floors of the whole footprint and the versions of what was written, in the step of the decision.

Two more things keep it waiting: unfinished branches of its choice, and work that it read early and is not settled.

One rule is stronger than the checked model: claims are kept through `releasing`, so that a transaction whose first
release is refused for good can still be undone whole (see `states`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settlemark._edges.errors import StateError
from settlemark._protocol import ties
from settlemark._protocol.holdings import AGE, Blocked, Hold, Txn
from settlemark._protocol.index import BUSY, HOLDS, Match
from settlemark._protocol.rules.admission import all_commute
from settlemark._protocol.states import Event, State
from settlemark._protocol.ties import refuse_callers, refuse_circle, siblings

if TYPE_CHECKING:
    from settlemark._protocol.board import Board
    from settlemark._protocol.rules.abort import Aborts
    from settlemark._protocol.rules.tools import Tools


class Decision:
    """Seals, decides and finishes transactions."""

    def __init__(self, board: Board, tools: Tools, aborts: Aborts) -> None:
        self._board = board
        self._tools = tools
        self._aborts = aborts

    def seal(self, txn: Txn, hooked: bool) -> None:
        """Freeze the footprint; declared scopes that stayed untouched are dropped.

        Raises:
            Refused: the transaction was aborted.
            StateError: the transaction was sealed or settled before.
        """
        if txn.state in (State.ABORTING, State.ABORTED):
            raise self._board.refusal(txn)
        self._board.move_state(txn, Event.SEAL)
        txn.hooked, txn.begins_again = hooked, False
        for hold in [h for h in txn.holds.values() if h.declared and not h.wants]:
            self._board.drop_hold(hold)
        self._board.wake(txn)
        self._board.tell_tied()

    def require_sealed(self, txn: Txn) -> None:
        """Check that a transaction is sealed.

        Raises:
            Refused: the transaction was aborted.
            StateError: the transaction is still open, or has settled.
        """
        if txn.state in (State.ABORTING, State.ABORTED):
            raise self._board.refusal(txn)
        if txn.state is not State.SEALED:
            raise StateError(
                f"{txn.name} is {txn.state}: only a sealed transaction can commit",
                transaction=txn.name,
                state=txn.state,
            )

    def waits_for(self, txn: Txn) -> Blocked | None:
        """Return whom a sealed transaction waits for, or None; nothing moves.

        Raises:
            Entangled: its caller touched one of its scopes meanwhile, or it would wait for one that cannot end before
                it.
        """
        board = self._board
        for sibling in siblings(board.by_id, txn):
            for hold in (*sibling.holds.values(), *txn.holds.values()):
                return Blocked(sibling, hold.scope)  # no floor rises before every losing branch is finished
        blocked = self.unsettled(txn)
        if blocked is None and txn.wrote:
            blocked = self._waits_behind(txn)
        if blocked is not None and txn.parent:
            refuse_circle(board.by_id, board.live, board.index, board.tied, txn, blocked)
        return blocked

    def unsettled(self, txn: Txn) -> Blocked | None:
        """Return an unsettled transaction whose work this one has seen, or None."""
        return ties.unsettled(self._board.by_id, txn)

    def _waits_behind(self, txn: Txn) -> Blocked | None:
        board = self._board
        for hold in txn.holds.values() if txn.parent else ():
            refuse_callers(board.by_id, txn.name, txn.parent, hold.scope)
        for hold in txn.holds.values():
            match = board.match(hold)
            older = self.older(txn, hold, match)
            if older is not None:
                return Blocked(older, hold.scope)
            for other in sorted(board.index.members(match, BUSY), key=AGE) if hold.held else ():
                if other.txn is txn or hold.commutes_with(other):
                    continue
                if other.txn.state is State.ABORTING or not txn.guards.current:
                    return Blocked(other.txn, hold.scope)  # a release must not meet an undo
        return None

    def older(self, txn: Txn, hold: Hold, match: Match) -> Txn | None:
        """Return the nearest older holder of a scope that a transaction has to wait for."""
        index, live = self._board.index, self._board.live
        position = index.below(match, HOLDS, txn.position) if txn.guards.current else None
        while position is not None:
            older = live[position]
            # The author of work it saw need not come first if that author only reads here.
            passes = txn.guards.reads == "any" and not (hold.claims or hold.held)
            if not (passes and hold.scope in txn.preds.get(older.id, ())) and not all_commute(hold, older):
                return older
            position = index.below(match, HOLDS, position)
        return None

    def commit(self, txn: Txn, releasing: bool) -> None:
        """Commit a transaction that waits for nobody; with nothing to release, and not `releasing`, it is finished."""
        board = self._board
        board.move_state(txn, Event.DECIDE)
        written = [hold for hold in txn.holds.values() if hold.claims or hold.held] if txn.wrote else []
        if board.chronicle is not None:
            board.chronicle.decided(txn, written, self._tools.bindings, self._tools.revoked)
        if txn.wrote:
            current = ties.readers_of(board.by_id, board.index, txn, written) if txn.dependents else ()
            board.versions.wrote(written, position=txn.position, footprint=txn.holds.values())
            for reader, scope in current:
                reader.reads[scope] = board.versions.sequence
        if not releasing and not any(hold.held for hold in txn.holds.values()):
            self.finish(txn)
            return
        for hold in txn.holds.values():
            board.refresh(hold)

    def finish(self, txn: Txn) -> None:
        """Record that every release is done: the transaction is committed and holds nothing."""
        board = self._board
        board.move_state(txn, Event.FINISH)
        if txn.wrote:
            board.versions.consume_plan(txn)
        elif txn.reads:
            board.versions.keep_plan(txn)
        if board.chronicle is not None:
            board.chronicle.committed(txn)
        self._aborts.retire(txn)


__all__ = ["Decision"]
