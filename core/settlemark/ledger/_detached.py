"""Transactions that this process has lost: the objects stay with their programs, and can move nothing more."""

from __future__ import annotations

from copy import copy

from settlemark._protocol.holdings import DETACHED, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State

LOST = "the ledger failed before its last step was recorded"


def detach(protocol: Protocol, txn: Txn, reason: Reason) -> Txn:
    """Put another object in a transaction's place, and return it: the old object can move nothing more."""
    again = copy(txn)
    again.watchers = {}  # they wait for the old object, and are woken below
    for hold in again.holds.values():
        hold.txn = again
    again.calls = {number: copy(call) for number, call in txn.calls.items()}
    for call in again.calls.values():
        call.txn = again
    low, late = protocol.board.versions.standing(txn)
    protocol.board.versions.forget(txn)
    protocol.board.versions.go_on(again, low, late=late)
    protocol.board.enter(again)
    protocol.board.join_group(again)
    protocol.board.aborted = [again if other is txn else other for other in protocol.board.aborted]
    protocol.wake_watchers(txn)
    let_go(txn, reason)
    return again


def let_go(txn: Txn, reason: Reason) -> None:
    """Cut an object off from the protocol: its calls are over, and it is aborted for this reason."""
    for call in txn.calls.values():
        call.hold, call.wanting, call.admitted = None, False, False
    txn.calls = {}
    txn.id, txn.state, txn.reason, txn.detail, txn.holds = DETACHED, State.ABORTED, reason, {"cause": LOST}, {}


__all__ = ["LOST", "detach", "let_go"]
