"""Where a transaction takes its place: after all others, under its hold, or in the place of its earlier attempt.

A transaction gets one position for its whole footprint: a fresh epoch, or one that has become free. A transaction under
a hold comes before that hold, which stands for it until dropped. A branch that is split off from a parked transaction
begins parked, holds nothing, and depends on what the whole had read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from settlemark._edges.errors import StateError
from settlemark._model.guards import Guards
from settlemark._protocol.holdings import NOBODY, PLANNED, Binding, Txn
from settlemark._protocol.states import State
from settlemark._protocol.ties import refuse_callers
from settlemark._protocol.versions import LAST

if TYPE_CHECKING:
    from settlemark._model.scope import Scope
    from settlemark._protocol.board import Board
    from settlemark._protocol.holdings import Role
    from settlemark._protocol.index import Position
    from settlemark._protocol.rules.frontier import Fences, Halts


class Beginnings:
    """Puts transactions on the board."""

    def __init__(self, board: Board, fences: Fences, halts: Halts) -> None:
        self._board = board
        self._fences = fences
        self._halts = halts

    def begin(  # noqa: PLR0913, PLR0917 - one keyword for each property
        self,
        name: str,
        run: str | None,
        attempt: int,
        declared: Iterable[Scope],
        position: Position | None,
        retry: bool,
        owner: str,
        parent: int,
        group: int,
        role: Role,
        guards: Guards,
        queues: bool,
        mends: bool,
        agents: tuple[str, ...] = (),
        into: Txn | None = None,
    ) -> Txn:
        """Return a new open transaction; see `Protocol.begin`.

        Raises:
            Cancelled: the run is fenced.
            Halted: the run, or everything, is halted.
            Entangled: it declares what its parent holds.
            StateError: its hold has been dropped.
        """
        board = self._board
        run = run or name.split("/", 1)[0]
        self._fences.refuse(name, run)
        caller = board.by_id.get(parent)
        if not agents and caller is not None:
            agents = caller.agents  # what begins in an agent's call, and names no other, is that agent's
        if board.halts:
            self._halts.refuse(name, run, agents, mends=mends)
        declared = list(declared)
        for scope in declared:
            refuse_callers(board.by_id, name, parent, scope)
        if group:
            epoch, ordinal = self._open_hold(name, group).position
            position = (epoch, f"{ordinal.removesuffix(LAST)}{board.serial + 1:012d}")
        if position is None or position in board.live:
            position = board.fresh()
        if role:
            position = (position[0], position[1] + LAST)  # after everything that works under it
        txn = into or Txn(
            PLANNED,
            name,
            run,
            attempt,
            position,
            retry=retry,
            owner=owner,
            parent=parent,
            group=group,
            role=role,
            guards=Guards(*guards),
            queues=queues,
            mends=mends,
            agents=agents,
        )
        txn.id, txn.position, txn.owner = board.next_serial(), position, owner
        txn.since = board.time
        board.enter(txn)
        board.join_group(txn)
        board.order.add(position)
        board.versions.take_plan(txn)
        for scope in declared:
            board.hold(txn, scope, declared=True)
        if board.chronicle is not None:
            board.chronicle.began(txn)
        return txn

    def _open_hold(self, name: str, group: int) -> Txn:
        hold = self._board.by_id.get(group)
        if hold is None or hold.state is not State.OPEN:
            raise StateError(
                f"{name} was to work under a hold that has been dropped: nothing was run; place another hold",
                transaction=name,
                state=None if hold is None else hold.state,
            )
        return hold

    def split(
        self,
        name: str,
        run: str,
        reads: list[Scope],
        guards: Guards,
        tools: Iterable[Any],
        *,
        hooked: bool,
        agents: tuple[str, ...] = (),
        attempt: int = 1,
    ) -> Txn:
        """Return a new transaction, parked, that holds nothing and depends on these scopes; see `Protocol.split`."""
        board = self._board
        serial, guards = board.next_serial(), Guards(*guards)
        txn = Txn(serial, name, run, attempt, board.fresh(), retry=False, owner=NOBODY, guards=guards)
        txn.tools = {tool: Binding(number, signature) for tool, number, signature in tools}
        board.enter(txn)
        board.order.add(txn.position)
        for scope in reads:
            board.versions.read(txn, scope)
        txn.parked, txn.hooked, txn.judged, txn.since, txn.agents = True, hooked, True, board.time, agents
        return txn


__all__ = ["Beginnings"]
