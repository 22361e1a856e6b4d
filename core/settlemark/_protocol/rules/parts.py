"""All rules of the protocol, over one board, and the one table from commands to the methods that take them.

A command names transactions and calls by number; `restored` finds them. One that names something ended is skipped: it
moved nothing where it was taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import structs

from settlemark._edges.errors import InternalError
from settlemark._protocol import commands as c
from settlemark._protocol.holdings import Call, Txn
from settlemark._protocol.rules.abort import Aborts
from settlemark._protocol.rules.admission import Admission
from settlemark._protocol.rules.beginnings import Beginnings
from settlemark._protocol.rules.calls import Calls
from settlemark._protocol.rules.decision import Decision
from settlemark._protocol.rules.frontier import Fences, Frontier, Halts
from settlemark._protocol.rules.ownership import Ownership
from settlemark._protocol.rules.precedence import Precedence
from settlemark._protocol.rules.staleness import Staleness
from settlemark._protocol.rules.tools import Tools
from settlemark._protocol.rules.waiting_line import Line

if TYPE_CHECKING:
    from settlemark._protocol.board import Board


class Parts:
    """Every rule, over one board."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.line = Line(board)
        self.aborts = Aborts(board, self.line)
        self.tools = Tools(board, self.aborts)
        self.staleness = Staleness(board, self.tools, self.aborts)
        self.precedence = Precedence(board, self.aborts)
        self.halts = Halts(board, self.aborts)
        self.calls = Calls(board, self.aborts, self.halts)
        self.admission = Admission(
            board, self.calls, self.tools, self.staleness, self.precedence, self.line, self.halts
        )
        self.decision = Decision(board, self.tools, self.aborts)
        self.fences = Fences(board, self.aborts)
        self.beginnings = Beginnings(board, self.fences, self.halts)
        self.frontier = Frontier(board)
        self.ownership = Ownership(board, self.calls, self.line)

    @cached_property
    def handlers(self) -> dict[type[c.Command], Callable[..., object]]:
        """The method that takes each command; its parameters are the command's fields."""
        return {
            c.Begin: self.beginnings.begin,
            c.Split: self.beginnings.split,
            c.Cancel: self.fences.cancel,
            c.Unfence: self.fences.unfence,
            c.Halt: self.halts.halt,
            c.Lift: self.halts.lift,
            c.Joined: self.halts.join,
            c.Admit: self.admission.admit,
            c.Declare: self.admission.declare,
            c.Withdraw: self.calls.withdraw,
            c.Acted: self.calls.acted,
            c.Resumed: self.calls.resumed,
            c.Released: self.calls.released,
            c.DropCall: self.calls.drop_call,
            c.Undone: self.calls.undone,
            c.Refine: self.calls.refine,
            c.Seal: self.decision.seal,
            c.Commit: self.decision.commit,
            c.Finish: self.decision.finish,
            c.Abort: self.aborts.abort,
            c.Revert: self.aborts.revert,
            c.FinishAbort: self.aborts.finish,
            c.DropRetry: self.aborts.drop_retry,
            c.Retract: self.aborts.retract,
            c.Rebind: self.tools.rebind,
            c.Revoke: self.tools.revoke,
            c.Reinstate: self.tools.reinstate,
            c.Owe: self.tools.owe,
            c.Park: self.ownership.park,
            c.Own: self.ownership.own,
            c.Bury: self.ownership.bury,
            c.Advance: self.frontier.advance,
            c.SkipEpochs: self.board.skip_epochs,
            c.TellTime: self.board.tell_time,
        }


# ---- references in a command


class _OverError(Exception):
    """The transaction or call that a command names has ended."""


def restored(board: Board, command: c.Command) -> dict[str, Any] | None:
    """Return a command's arguments for its rule's method; None when it names something that has ended.

    Raises:
        InternalError: it names a transaction or call that never existed.
    """
    given = structs.asdict(command)
    try:
        for name, find in _FINDS[type(command)]:
            given[name] = find(board, given[name])
    except _OverError:
        return None
    return given


def _transaction(board: Board, number: int) -> Txn:
    txn = board.by_id.get(number)
    if txn is not None:
        return txn
    if number > board.serial:
        raise InternalError(f"no transaction has had the number {number}: {board.serial} have begun")
    raise _OverError


def _call(board: Board, ref: c.CallRef) -> Call:
    txn = _transaction(board, ref.txn)
    found = txn.calls.get(ref.number)
    if found is not None:
        return found
    if ref.number > txn.numbered + 1:
        raise InternalError(f"no call of {txn.name} has had the number {ref.number}: it has made {txn.numbered}")
    if 0 < ref.number <= txn.numbered:
        raise _OverError
    return Call(txn, ref.scope, ref.mode, ref.place, turned=ref.turned, leaves=ref.leaves, commutes=ref.commutes)


def _calls(board: Board, refs: tuple[c.CallRef, ...]) -> tuple[Call, ...]:
    return tuple(_call(board, ref) for ref in refs)


def _detail(_board: Board, said: dict[str, c.Said]) -> dict[str, Any]:
    return c.detail_of(said)


_FIND: dict[object, Callable[[Board, Any], object]] = {
    c.TxnId: _transaction,
    c.CallRef: _call,
    tuple[c.CallRef, ...]: _calls,
    dict[str, c.Said]: _detail,
}
_FINDS = {
    kind: [(field.name, _FIND[field.type]) for field in structs.fields(kind) if field.type in _FIND]
    for kind in c.COMMANDS
}

__all__ = ["Parts", "restored"]
