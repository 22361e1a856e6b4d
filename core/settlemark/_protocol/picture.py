"""A hashable picture of the protocol's state: equal for two states that behave alike.

Epochs and ticks are replaced by their ranks, versions by whether a read is out of date: numbers that only count up do
not make a state new.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Txn
from settlemark._protocol.index import NOWHERE, Node, Position, ScopeIndex
from settlemark._protocol.versions import Versions


def picture(
    index: ScopeIndex,
    versions: Versions,
    live: Mapping[Position, Txn],
    rules: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Return the picture of these parts of a protocol; `rules` adds the settings of its rules."""
    positions = sorted(live)
    names = {txn.id: txn.name for txn in live.values()}
    ticks = sorted({t for txn in live.values() for h in txn.holds.values() for t in (h.since, h.granted)})
    rank = {tick: number for number, tick in enumerate(ticks)}
    floors = sorted(
        (scope, behind) for scope, floor in _floors(index.root, "") if (behind := bisect_right(positions, floor))
    )
    plans = sorted((run, *_read(index, scope, seen)) for run, scope, seen in versions.planned())
    return (
        tuple(_transaction(index, live[position], rank, names) for position in positions),
        tuple(floors),
        tuple(plans),
        rules,
        bisect_right(positions, versions.base),
        tuple(sorted((kind, bisect_right(positions, floor)) for kind, floor in versions.folded.items())),
    )


def _floors(node: Node, text: str) -> Iterator[tuple[str, Position]]:
    for key, child in node.children.items():
        path = f"{text}/{key}"
        if child.floor != NOWHERE:
            yield path, child.floor
        yield from _floors(child, path)


def _read(index: ScopeIndex, scope: Scope, seen: int) -> tuple[str, bool]:
    return scope.text, index.version(index.match(scope)) > seen


def _transaction(index: ScopeIndex, txn: Txn, rank: Mapping[int, int], names: Mapping[int, str]) -> tuple[Any, ...]:
    holds = sorted(
        (
            h.scope.text,
            rank[h.since],
            rank[h.granted],
            h.declared,
            h.claims,
            h.held,
            h.wants,
            h.readings,
            h.lined,
            h.commutes is None,
            h.commutes or "",
        )
        for h in txn.holds.values()
    )
    reads = sorted(_read(index, scope, seen) for known in (txn.reads, txn.plan) for scope, seen in known.items())
    flags = (txn.state, txn.reason, txn.wrote, txn.writes, txn.released, txn.retry, txn.running, txn.begins_again)
    ties = (names.get(txn.parent), names.get(txn.group), txn.role)
    early = _early(txn, names) if txn.preds or txn.dependents else ()
    return (
        txn.name,
        txn.attempt,
        txn.agents,
        *ties,
        *flags,
        tuple(holds),
        tuple(reads),
        early,
        tuple(txn.tools.items()),
    )


def _early(txn: Txn, names: Mapping[int, str]) -> tuple[Any, ...]:
    preds = sorted(
        (names.get(number), scope.text, acts) for number, seen in txn.preds.items() for scope, acts in seen.items()
    )
    return (tuple(preds), txn.acts, tuple(sorted((h.scope.text, h.last_act) for h in txn.holds.values())))
