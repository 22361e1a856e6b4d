"""The whole state of a protocol as plain data: a replica begins with an image, so that the log can be cut.

An image is loaded *in place*: known transactions and calls keep their objects, so that their users see them as the
store has them. A transaction that the store does not have is aborted.
"""
# ruff: noqa: SLF001 - an image contains the log's internals

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

from settlemark._model.guards import Guards
from settlemark._model.scope import Scope
from settlemark._protocol import commands as c
from settlemark._protocol.holdings import DETACHED, Binding, Call, Halt, Hold, Mode, Txn
from settlemark._protocol.index import HOLDS, Match, Positions, ScopeIndex
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State
from settlemark._protocol.versions import Versions
from settlemark.ledger._detached import let_go


def image(protocol: Protocol) -> dict[str, Any]:
    """Return the state of a protocol as plain data."""
    board, tools, versions = protocol.board, protocol.tools, protocol.board.versions
    return {
        "time": board.time,
        "epoch": board.next_epoch,
        "serial": board.serial,
        "tick": board.tick,
        "fenced": sorted(board.fenced),
        "halted": board.halted,
        "halts": [
            [h.number, h.scope and h.scope.text, h.run, h.agent, h.by, h.because, h.since] for h in board.halts.values()
        ],
        "changes": tools.changes,
        "bindings": tools.bindings,
        "revoked": sorted(tools.revoked),
        "owed": sorted(tools.owed),
        "sequence": versions.sequence,
        "base": versions.base,
        "folded": versions.folded,
        "log": [
            [e.number, e.position, [s.text for s in e.written], [s.text for s in e.covered]] for e in versions._log
        ],
        "plans": [[run, _reads(plan), versions.standing(run)[1]] for run, plan in versions.plans.items()],
        "live": [_txn_image(txn, versions) for txn in board.live.values()],
    }


def _reads(reads: dict[Scope, int]) -> list[Any]:
    return [[scope.text, seen] for scope, seen in reads.items()]


def _txn_image(txn: Txn, versions: Versions) -> dict[str, Any]:
    low, late = versions.standing(txn)
    detail = {key: {"s": v.text} if isinstance(v, Scope) else v for key, v in txn.detail.items()}
    return {
        "id": txn.id, "since": txn.since, "moved": txn.moved,
        "owner": txn.owner, "parent": txn.parent, "group": txn.group, "role": txn.role,
        "name": txn.name, "run": txn.run, "attempt": txn.attempt, "position": txn.position, "state": txn.state.value,
        "retry": txn.retry, "parked": txn.parked, "hooked": txn.hooked, "judged": txn.judged,
        "low": low, "late": late, "agents": txn.agents,
        "queues": txn.queues, "mends": txn.mends, "again": txn.begins_again, "writes": txn.writes,
        "wrote": txn.wrote, "released": txn.released, "reason": txn.reason and txn.reason.value, "detail": detail,
        "running": txn.running, "reading": txn.reading, "numbered": txn.numbered,
        "reads": _reads(txn.reads), "plan": _reads(txn.plan),
        "guards": list(txn.guards), "tools": txn.tools, "acts": txn.acts,
        "preds": [[number, _reads(scopes)] for number, scopes in txn.preds.items()],
        "holds": [
            [h.scope.text, h.since, h.declared, h.claims, h.granted, h.held, h.wants, h.readings, h.touched, h.last_act,
             h.lined, h.commutes]
            for h in txn.holds.values()
        ],
        "calls": [
            [call.number, call.scope.text, call.mode.value, call.place, call.wanting, call.admitted, call.returned,
             call.since, call.turned, int(call.leaves), call.commutes]
            for call in txn.calls.values()
        ],
    }  # fmt: skip # a table of fields


def load(
    protocol: Protocol, found: dict[str, Any], *, worker: str | None = None, tried: Iterable[c.Command] = ()
) -> None:
    """Put a protocol into the state of an image; this worker's lost transactions can move nothing any more.

    Users of a transaction or a call continue with that very object, also if it had ended since. `tried` are the
    commands of a failed store transaction: they gave this worker nothing.
    """
    known = _known(protocol)
    never = {command.txn for command in tried if isinstance(command, c.Own)}
    waiters = [txn for txn in known.values() if txn.watchers]
    board, tools = protocol.board, protocol.tools
    index = board.index = ScopeIndex(board.index.clock)
    board.next_epoch, board.serial, board.tick = found["epoch"], found["serial"], found["tick"]
    board.time, board.fenced = found["time"], set(found["fenced"])
    board.halted, board.halts = found["halted"], _halts(found["halts"])
    tools.changes, tools.bindings = found["changes"], _bindings(found["bindings"])
    tools.revoked, tools.owed = set(found["revoked"]), set(found["owed"])
    board.live, board.by_id, board.named, board.tied = {}, {}, {}, set()
    board.order = Positions()
    board.aborted = []
    board.versions = _versions(index, found, board.versions)
    for data in found["live"]:
        txn = known.get(data["id"])
        if txn is not None and txn.owner == worker and data["owner"] != worker and txn.id not in never:
            let_go(txn, Reason.LEASE)
            txn = None
        if txn is None:
            position = (data["position"][0], data["position"][1])
            txn = Txn(data["id"], data["name"], data["run"], data["attempt"], position, retry=False, owner="")
        _load_txn(protocol, txn, data)
    for txn in protocol.by_id.values():
        protocol.board.join_group(txn)
        for number in txn.preds:
            protocol.by_id[number].dependents.add(txn.id)
    for txn in known.values():
        if txn.id != DETACHED and protocol.by_id.get(txn.id) is not txn and not txn.finished:
            let_go(txn, Reason.LOST)
    # The owner has to conclude an abort: it may have been aborted without this replica.
    aborting = [txn for txn in protocol.live.values() if txn.state is State.ABORTING]
    protocol.board.aborted = [txn for txn in aborting if protocol.may_conclude(txn)]
    if protocol.chronicle is not None:
        protocol.chronicle.keep(protocol.by_id)
    for txn in waiters:
        protocol.wake_watchers(txn)  # whatever they waited for may have changed: they look again


def _known(protocol: Protocol) -> dict[int, Txn]:
    """Return the transactions whose objects somebody may have, with calls that had ended put back."""
    if not protocol.board.closed:
        return protocol.by_id
    ended, protocol.board.closed = protocol.board.closed, []
    known = {item.id: item for item in ended if isinstance(item, Txn)} | protocol.by_id
    for item in ended:
        if isinstance(item, Call) and item.number:
            item.txn.calls.setdefault(item.number, item)
    return known


class Own:
    """What a worker knows of its own transactions, for repairs if the store has lost some of it in a power cut.

    `tried` are the commands of a failed store transaction: they are taken again, or their callers were told.
    """

    def __init__(self, protocol: Protocol, worker: str, tried: Iterable[c.Command]) -> None:
        mine = [txn for txn in protocol.by_id.values() if txn.owner == worker]
        self._worker = worker
        self._read = {txn: set(txn.reads) for txn in mine}
        self._out = {(txn.id, call.number) for txn in mine for call in txn.calls.values() if not call.returned}
        self._out.update((acted.call.txn, acted.call.number) for acted in tried if isinstance(acted, c.Acted))

    def repairs(self, protocol: Protocol) -> list[Callable[[Protocol], None]]:
        """Return the repairs for what the loaded state has lost.

        What changed after an unrecorded read cannot be known. A call that is no longer in flight, and has no recorded
        return, may have happened.
        """
        lost = [txn for txn, scopes in self._read.items() if txn.id != DETACHED and not scopes <= txn.reads.keys()]
        mine = [txn for txn in protocol.by_id.values() if txn.owner == self._worker]
        back = [
            call
            for txn in mine
            for call in txn.calls.values()
            if call.admitted and not call.returned and call.mode is not Mode.HELD
            if (txn.id, call.number) not in self._out
        ]
        return [*(partial(_abort_lost, txn) for txn in lost), *(partial(_restore_acted, call) for call in back)]


def _abort_lost(txn: Txn, protocol: Protocol) -> None:
    protocol.abort(txn, Reason.LOST)


def _restore_acted(call: Call, protocol: Protocol) -> None:
    if call.hold is not None and call.admitted and not call.returned:
        protocol.acted(call, happened=True)


def _versions(index: ScopeIndex, found: dict[str, Any], old: Versions) -> Versions:
    versions = Versions(index, plans=old.plan_limit, floors=old.floors)
    for number, position, written, footprint in found["log"]:
        scopes, covered = [Scope.parse(text) for text in written], [Scope.parse(text) for text in footprint]
        versions.restore(number, (position[0], position[1]), scopes, covered)
    versions.sequence, versions.base = found["sequence"], (found["base"][0], found["base"][1])
    versions.folded = {kind: (at[0], at[1]) for kind, at in found["folded"].items()}
    for run, plan, late in found["plans"]:
        versions.put_plan(run, _parsed(plan), late=late)
    return versions


def _halts(plain: list[Any]) -> dict[int, Halt]:
    return {
        number: Halt(number, None if scope is None else Scope.parse(scope), run, by, because, since, agent=agent)
        for number, scope, run, agent, by, because, since in plain
    }


def _bindings(plain: dict[str, Any]) -> dict[str, Binding]:
    return {tool: Binding(*binding) for tool, binding in plain.items()}


def _parsed(reads: list[Any]) -> dict[Scope, int]:
    return {Scope.parse(text): seen for text, seen in reads}


def _load_txn(protocol: Protocol, txn: Txn, data: dict[str, Any]) -> None:
    txn.owner, txn.attempt = data["owner"], data["attempt"]
    txn.since, txn.moved = data["since"], data["moved"]
    txn.parent, txn.group, txn.role, txn.members = data["parent"], data["group"], data["role"], {}
    txn.retry, txn.parked, txn.hooked, txn.judged = data["retry"], data["parked"], data["hooked"], data["judged"]
    txn.position = (data["position"][0], data["position"][1])
    txn.state = State(data["state"])
    txn.wrote, txn.released, txn.successor = data["wrote"], data["released"], None
    txn.queues, txn.begins_again = data["queues"], data["again"]
    txn.mends, txn.agents = data["mends"], tuple(data["agents"])
    txn.writes = data["writes"]
    txn.reason = None if data["reason"] is None else Reason(data["reason"])
    detail: dict[str, Any] = data["detail"]
    txn.detail = {k: Scope.parse(str(cast("Any", v)["s"])) if isinstance(v, dict) else v for k, v in detail.items()}
    txn.running, txn.reading, txn.numbered = data["running"], data["reading"], data["numbered"]
    txn.reads, txn.plan = _parsed(data["reads"]), _parsed(data["plan"])
    txn.guards, txn.acts = Guards(*data["guards"]), data["acts"]
    txn.tools = _bindings(data["tools"])
    txn.preds, txn.dependents = {number: _parsed(seen) for number, seen in data["preds"]}, set()
    txn.holds, txn.claims, txn.low = {}, 0, None
    protocol.board.enter(txn)
    protocol.board.order.add(txn.position)
    protocol.board.versions.go_on(txn, data["low"], late=data["late"])
    holds: dict[str, Hold] = {}
    for text, since, declared, claims, granted, held, wants, readings, touched, last_act, lined, group in data["holds"]:
        scope = Scope.parse(text)
        path = protocol.board.index.enter(scope)
        hold = txn.holds[path[-1]] = holds[text] = Hold(txn, scope, path, Match(path[:-1], path[-1:]), since, declared)
        hold.claims, hold.granted, hold.held, hold.wants = claims, granted, held, wants
        hold.readings, hold.touched, hold.last_act, hold.commutes = readings, touched, last_act, group
        txn.claims += claims
        protocol.board.index.add_position(path, HOLDS, txn.position)
        if lined:
            protocol.board.enter_line(hold)
        protocol.board.refresh(hold)
    calls, txn.calls = txn.calls, {}
    for number, text, mode, place, wanting, admitted, returned, since, turned, leaves, group in data["calls"]:
        call = calls.pop(number, None) or Call(
            txn, Scope.parse(text), Mode(mode), place, turned=turned, leaves=leaves, commutes=group
        )
        call.number, call.hold = number, holds.get(text)
        call.wanting, call.admitted, call.returned, call.since = wanting, admitted, returned, since
        txn.calls[number] = call
    for call in calls.values():
        call.number, call.hold = 0, None
        call.wanting = call.admitted = False
