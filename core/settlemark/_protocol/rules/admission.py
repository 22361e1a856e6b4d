"""Admission: who may touch a scope now, and who waits for whom.

* A transaction *holds* what it touches from its first request until it is finished.
* *Claim*: an effect that runs before commit takes its scope exclusively. The claim waits for another's claim, undo or
  release, for an older one's held effect or waiting request, for a read in flight; an effect that cannot be undone
  cleanly waits for every older holder too.
* *Read*: of settled state only; it waits for another's claim, undo or release. An early read depends on the author of
  what it read (`ties`).
* *Commuting* effects, of one group on one scope, claim it together: they wait for each other in nothing, and meet
  everything else as any claim does. A transaction that touches the scope in any other way, too, claims it alone; that
  touch counts as its first there, since others of the group may have settled above it.
* A held effect waits for nobody before the commit. A touch below the floor is restamped (`precedence`).

A blocked request asks again when the holder it waits for has moved. Every wait goes from a larger position to a smaller
one, or for an undo, release or read that waits for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from settlemark._edges.errors import Entangled
from settlemark._protocol import ties
from settlemark._protocol.holdings import AGE, AT_ONCE, Blocked, Call, Hold, Mode, Txn
from settlemark._protocol.index import ACTIVE, BUSY, HOLDS, READING, Match
from settlemark._protocol.states import UNSETTLED, State
from settlemark._protocol.ties import are_siblings, refuse_callers, refuse_circle, refuse_siblings

if TYPE_CHECKING:
    from settlemark._model.scope import Scope
    from settlemark._protocol.board import Board
    from settlemark._protocol.rules.calls import Calls
    from settlemark._protocol.rules.frontier import Halts
    from settlemark._protocol.rules.precedence import Precedence
    from settlemark._protocol.rules.staleness import Staleness
    from settlemark._protocol.rules.tools import Tools
    from settlemark._protocol.rules.waiting_line import Line


class Admission:
    """Admits requests, or says whom they wait for."""

    def __init__(
        self,
        board: Board,
        calls: Calls,
        tools: Tools,
        staleness: Staleness,
        precedence: Precedence,
        line: Line,
        halts: Halts,
    ) -> None:
        self._board = board
        self._calls = calls
        self._tools = tools
        self._staleness = staleness
        self._precedence = precedence
        self._line = line
        self._halts = halts

    def admit(self, call: Call, planned: tuple[str, str, int] | None, patient: bool) -> Blocked | None:
        """Admit a request and return None, or return whom it waits for; ask again when that one has moved.

        Raises:
            LateAppend, Refused, Halted, Revoked, Entangled, StateError: see `Protocol.admit`.
        """
        txn, scope, mode, board = call.txn, call.scope, call.mode, self._board
        if txn.state is not State.OPEN:
            self._calls.refuse_append(txn, scope)
        if board.halts:
            self._halts.refuse_call(txn, scope)
        tied = txn.parent or txn.group
        if tied:
            refuse_callers(board.by_id, txn.name, txn.parent, scope)
            refuse_siblings(board.by_id, call)
        if planned is not None:
            self._tools.plan(txn, *planned)
            if self._tools.bindings:
                self._staleness.refuse(txn, self._staleness.found_tool(txn))
        if not call.number:
            self._calls.number(call)
        if txn.begins_again:
            self._line.leave(txn)
        txn.writes = txn.writes or mode is not Mode.READ
        if mode in AT_ONCE:
            wrong = self._staleness.found(txn, planned=True)
            if wrong is not None:
                self._staleness.refuse(txn, wrong)
        hold = call.hold or self._touch(txn, scope, call.commutes)
        hold.stands_for(call.commutes)
        call.hold = hold
        match = board.match(hold)
        self._precedence.meet_claims(hold, match)
        blocked = None if mode is Mode.HELD else self.blocked(mode, hold, match)
        if blocked is None and mode is not Mode.HELD and patient and board.index.lined:
            blocked = self._line.stand(txn, mode, hold, match)
        if (blocked is not None) is not call.wanting:
            self._note_wait(call, hold, waits=blocked is not None)
        if blocked is None:
            self._grant(call, hold, match)
        board.refresh(hold)
        if blocked is not None and tied:
            self.refuse_circle(call, blocked)
        return blocked

    def declare(self, txn: Txn, scopes: Iterable[Scope]) -> None:
        """Hold what an open transaction may touch; a transaction in another state holds nothing new."""
        if txn.state is State.OPEN:
            for scope in scopes:
                self._touch(txn, scope, None)

    def in_the_way(self, call: Call) -> Blocked | None:
        """Return whom a waiting request waits for; nothing moves."""
        hold = call.hold
        if not call.wanting or hold is None:
            return None
        match = self._board.match(hold)
        blocked = self.blocked(call.mode, hold, match)
        return blocked or (self._line.before(call.txn, call.mode, hold, match) if self._board.index.lined else None)

    def blocked(self, mode: Mode, hold: Hold, match: Match) -> Blocked | None:
        """Return whom a read, or an eager effect, has to wait for."""
        board, txn, scope = self._board, hold.txn, hold.scope
        if mode is not Mode.READ:
            # The nearest older one: waiters form a chain, and a departure wakes one of them.
            older = self._older(hold, match, HOLDS if mode is Mode.FINAL else ACTIVE)
            if older is not None:
                return Blocked(older, scope)
        if mode is Mode.FINAL:
            ahead = ties.unsettled(board.by_id, txn)  # the work it saw may be undone, and this effect cannot be
            if ahead is not None:
                return ahead
        early = mode is Mode.READ and ties.reads_through(txn)
        for other in sorted(board.index.members(match, BUSY), key=AGE):
            passes = hold.commutes_with(other) or (early and ties.is_open_to(other))
            if other.txn is not txn and not passes:
                return Blocked(other.txn, scope)
        if mode is not Mode.READ:
            for other in sorted(board.index.members(match, READING), key=AGE):
                if other.txn is not txn:
                    return Blocked(other.txn, scope)
        return None

    def refuse_circle(self, call: Call, blocked: Blocked) -> None:
        """Withdraw a request that would wait for ever.

        Raises:
            Entangled: the holder it would wait for cannot end before it.
        """
        board = self._board
        try:
            refuse_circle(board.by_id, board.live, board.index, board.tied, call.txn, blocked)
        except Entangled:
            self._calls.withdraw(call)
            raise

    def _touch(self, txn: Txn, scope: Scope, group: str | None) -> Hold:
        """Return a hold on a scope that an effect of a group touches (empty: anything else), or declares (None)."""
        index, versions, position = self._board.index, self._board.versions, txn.position
        path = index.enter(scope)
        # No floor of the scope's whole type reaches the position: the common case, decided without a walk.
        reached = versions.base >= position or path[0].all_floor >= position or bool(versions.folded)
        if reached and not (txn.holds and self._is_covered(txn, scope, group)):
            match = index.match(scope) if index.wildcards else Match(path[:-1], path[-1:])
            if versions.floor(scope, match) >= position:
                self._precedence.restamp(txn)
        return self._board.hold_at(txn, scope, path, declared=group is None)

    def _is_covered(self, txn: Txn, scope: Scope, group: str | None) -> bool:
        match = self._board.index.match(scope)
        held = txn.holds
        # A node on the way covers the scope, unless a wildcard branched the way to it.
        return any(
            node in held and held[node].scope.covers(scope) and self.stands_alone(held[node], scope, group)
            for nodes in (match.ways, match.ends)
            for node in nodes
        )

    @staticmethod
    def stands_alone(hold: Hold, scope: Scope, group: str | None) -> bool:
        """Whether nobody can have settled above a hold with what does not commute with a group's effect on a scope.

        Where it stands for commuting effects alone, others of their group can have.
        """
        return not hold.commutes or hold.declared or (hold.commutes == group and hold.scope == scope)

    def _older(self, hold: Hold, match: Match, layer: int) -> Txn | None:
        index, live, txn = self._board.index, self._board.live, hold.txn
        position = index.below(match, layer, txn.position)
        while position is not None:
            older = live[position]
            branch = txn.group and older.state in UNSETTLED and are_siblings(self._board.by_id, txn, older)
            if not (branch or all_commute(hold, older, layer)):
                return older
            position = index.below(match, layer, position)
        return None

    def _note_wait(self, call: Call, hold: Hold, *, waits: bool) -> None:
        call.wanting = waits
        call.since = call.since or self._board.time
        hold.wants += 1 if waits else -1
        if waits:
            self._board.tell_tied()

    def _grant(self, call: Call, hold: Hold, match: Match) -> None:
        txn = call.txn
        call.admitted = hold.touched = True
        hold.declared = False  # not earlier: a withdrawn request keeps its declared hold
        if call.mode is Mode.READ:
            self._grant_read(txn, hold, match)
            return
        txn.wrote = True
        if call.mode is Mode.HELD:
            hold.held += 1
            return
        self._board.tick += 1
        hold.claims += 1
        hold.granted = hold.granted or self._board.tick
        txn.claims += 1
        txn.running += 1

    def _grant_read(self, txn: Txn, hold: Hold, match: Match) -> None:
        board = self._board
        hold.readings += 1
        txn.reading += 1
        first = hold.scope not in txn.reads
        board.versions.read(txn, hold.scope)
        if board.chronicle is not None:
            board.chronicle.read(txn, hold.scope)
        if txn.guards.reads != "settled":
            claims = sorted(board.index.members(match, BUSY), key=AGE)
            seen = ties.depend(txn, hold.scope, claims, first=first)
            if board.chronicle is not None:
                board.chronicle.saw(txn, seen, first=first)


def all_commute(hold: Hold, other: Txn, layer: int = HOLDS) -> bool:
    """Whether a hold commutes with all that another transaction holds (or is active on) where the two overlap."""
    return bool(hold.commutes) and all(
        hold.commutes_with(theirs)
        for theirs in other.holds.values()
        if (layer == HOLDS or theirs.active) and theirs.scope.overlaps(hold.scope)
    )


__all__ = ["Admission", "all_commute"]
