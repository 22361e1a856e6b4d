"""Lost updates: a value read in one superstep, written over in a later one, while another node wrote in between.

One node reads the channel; what it read flows, through other channels, to a node further on that writes it.
A third node, on another branch, writes it after the read and before that. It is followed along the branches
by marks: whether the value was read, and whether it was written since, unknown to those who come after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from settlemark_langgraph.analysis._supersteps_reached import (
    Budget,
    Exhausted,
    Superstep,
    Task,
    Ways,
    names,
    supersteps,
)
from settlemark_langgraph.analysis._wiring import Wiring

_HOLDS = 1
_UNAWARE = 2
_STALE = 4


@dataclass(frozen=True)
class LostUpdate:
    """`second` writes over what `first` wrote, going by what `reader` read before; `superstep` is that of `first`."""

    channel: str
    reader: str
    first: str
    second: str
    superstep: Superstep


class _Since:
    """Marks for one reader and one writer of a channel."""

    def __init__(self, reader: str, writer: str) -> None:
        self._reader = reader
        self._writer = writer

    def leaves(self, task: Task, running: frozenset[Task]) -> int:
        mark = task.mark
        if task.node == self._reader:
            # Who reads it again knows what was written up to then.
            mark = _HOLDS
        if task.node == self._writer and not task.several:
            return mark & ~(_UNAWARE | _STALE)
        if any(other.node == self._writer for other in running):
            mark |= _UNAWARE | (_STALE if mark & _HOLDS else 0)
        return mark

    def joins(self, one: int, other: int) -> int:
        # One branch that knows of the write is enough: what comes after a join sees it, and may mend it.
        mark = ((one | other) & (_HOLDS | _STALE)) | (one & other & _UNAWARE)
        return mark if mark & _UNAWARE else mark & ~_STALE


def lost_updates(wiring: Wiring, budget: Budget | None, together: list[Superstep]) -> tuple[list[LostUpdate], bool]:
    """Return the lost updates of a graph, and whether all ways were looked at.

    Without a budget its nodes count as running together.
    """
    found: list[LostUpdate] = []
    accompanied = {node for superstep in together if len(superstep) > 1 for node in superstep}
    for channel, contract in wiring.channels.items():
        if not contract.is_plain:
            continue
        writers = sorted(name for name, node in wiring.nodes.items() if channel in node.writes)
        for reader in sorted(name for name, node in wiring.nodes.items() if channel in node.reads):
            carried = _carried(wiring, reader, channel)
            for first in writers:
                seconds = [w for w in writers if w in carried and w not in (reader, first)]
                if first == reader or not seconds:
                    continue
                if budget is None or wiring.ways is None:
                    found += [LostUpdate(channel, reader, first, w, (first, w)) for w in seconds]
                    continue
                if first not in accompanied:
                    continue
                try:
                    found += _followed(wiring.ways, budget, channel, reader, first, seconds, together)
                except Exhausted:
                    return lost_updates(wiring, None, together)[0], False
    return found, True


def _followed(
    ways: Ways, budget: Budget, channel: str, reader: str, first: str, seconds: list[str], together: list[Superstep]
) -> Iterator[LostUpdate]:
    told: set[str] = set()
    for running in supersteps(ways, budget, _Since(reader, first)):
        for task in running:
            if task.node in seconds and task.mark & _STALE and task.node not in told:
                told.add(task.node)
                shared = [step for step in together if first in step and len(set(step)) > 1]
                best = next((step for step in shared if reader in step), shared[0] if shared else names(running))
                yield LostUpdate(channel, reader, first, task.node, best)


def _carried(wiring: Wiring, reader: str, channel: str) -> frozenset[str]:
    """Return the nodes that what a node reads may flow to, through other channels or in what is sent."""
    reached: set[str] = set()
    todo = [reader]
    while todo:
        name = todo.pop()
        flowing = wiring.nodes[name].writes - {channel}
        following = {other for other, node in wiring.nodes.items() if flowing & node.reads} | _sent_to(wiring, name)
        todo += following - reached
        reached |= following
    return frozenset(reached)


def _sent_to(wiring: Wiring, name: str) -> frozenset[str]:
    groups = () if wiring.ways is None else wiring.ways.groups.get(name, ())
    return frozenset(node for routes in groups for route in routes for node in route.sent | route.fanned)


__all__ = ["LostUpdate", "lost_updates"]
