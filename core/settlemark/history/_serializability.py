"""Whether committed transactions are serializable, judged from a counterparty's own log.

The log shows the real order of reads and writes, not the engine's view of it. Two accesses conflict when their scopes
overlap and one of them writes; the earlier one's transaction then comes first. A cycle of such edges is a proof that no
serial order explains the log (Bernstein and Goodman; Atomix 3.3 and D.4, overlap-aware). Cycles are named as by Adya
and Elle: `G0` by writes alone, `G1c` by writes and reads of them, `G-single` with one anti-dependency, `G2` with
several.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from settlemark._model.scope import Scope

Kind = Literal["read", "write"]
How = Literal["ww", "wr", "rw"]
Phenomenon = Literal["G0", "G1c", "G-single", "G2"]

_PHENOMENA: tuple[Phenomenon, ...] = ("G0", "G1c", "G-single", "G2")


_Access = tuple[int, Hashable, Kind, Scope]


class Access(NamedTuple):
    """One line of a counterparty's log: which transaction did what to which resource.

    `transaction` is any unique name (with its attempt, where one may be tried again); `scope` as in declarations.
    """

    transaction: Hashable
    kind: Kind
    scope: str | Scope


class Edge(NamedTuple):
    """Why one transaction comes before another: two accesses, by their places in the log (from 1).

    `how`: `ww` overwrote, `wr` read what the other had written, `rw` overwrote what the other had read.
    """

    before: Hashable
    after: Hashable
    how: How
    scope: str
    places: tuple[int, int]

    def __str__(self) -> str:
        first, then = ("read" if way == "r" else "wrote" for way in self.how)
        return f"{self.before} {first} {self.scope} before {self.after} {then} it"


@dataclass(frozen=True)
class Cycle:
    """Transactions each of which comes before the next, and the last before the first: no serial order has them.

    Attributes:
        phenomenon: its name in Adya's terms.
        edges: the conflicts, in order.
    """

    phenomenon: Phenomenon
    edges: tuple[Edge, ...]

    def __str__(self) -> str:
        return f"{self.phenomenon}: " + "; ".join(map(str, self.edges))


@dataclass(frozen=True)
class Serializability:
    """The checker's findings.

    Attributes:
        cycles: the shortest cycle of each phenomenon found, the worst first; empty when there is a serial order.
        order: a serial order of the transactions, when there is one.
    """

    cycles: tuple[Cycle, ...] = ()
    order: tuple[Hashable, ...] = ()

    @property
    def serializable(self) -> bool:
        """Whether the log is as if one transaction had run after the other."""
        return not self.cycles


@dataclass
class _Last:
    """One scope's last writer, and its readers since."""

    write: tuple[int, Hashable] | None = None
    reads: list[tuple[int, Hashable]] = field(default_factory=list[tuple[int, Hashable]])


def serializability(log: Iterable[Access], committed: Collection[Hashable] | None = None) -> Serializability:
    """Return a serial order of the transactions in a log, or the shortest cycles that show there is none.

    Args:
        log: the accesses in the order in which the counterparty saw them.
        committed: the transactions that count; all of them by default. An undone transaction's writes and undos do not
            count.

    Raises:
        ScopeError: a scope is malformed.

    >>> found = serializability([
    ...     Access("a", "read", "seat:/7"), Access("b", "read", "seat:/7"),
    ...     Access("a", "write", "seat:/7"), Access("b", "write", "seat:/7"),
    ... ])
    >>> [cycle.phenomenon for cycle in found.cycles], len(found.cycles[0].edges)
    (['G-single'], 2)
    """
    accesses: list[_Access] = [
        (place, transaction, kind, Scope.parse(scope))
        for place, (transaction, kind, scope) in enumerate(log, 1)
        if committed is None or transaction in committed
    ]
    following: dict[Hashable, set[Hashable]] = {transaction: set() for _, transaction, _, _ in accesses}
    for edge in _conflicts(accesses):
        following[edge.before].add(edge.after)
    components = _components(following)
    knots = [component for component in components if len(component) > 1]
    if not knots:
        return Serializability(order=tuple(node for component in reversed(components) for node in component))
    found: dict[Phenomenon, Cycle] = {}
    for knot in knots:
        inside = set(knot)
        edges = _every_conflict([access for access in accesses if access[1] in inside])
        for cycle in _shortest(edges):
            known = found.get(cycle.phenomenon)
            if known is None or len(cycle.edges) < len(known.edges):
                found[cycle.phenomenon] = cycle
    return Serializability(cycles=tuple(found[name] for name in _PHENOMENA if name in found))


def _conflicts(accesses: list[_Access]) -> Iterable[Edge]:
    """Yield enough conflicts that every other one is a path of them: with the last write, and the reads since."""
    last: dict[Scope, _Last] = {}
    overlapping: dict[Scope, list[Scope]] = {}
    for place, transaction, kind, scope in accesses:
        if scope not in last:
            last[scope] = _Last()
            overlapping[scope] = [other for other in last if other.overlaps(scope)]
            for other in overlapping[scope]:
                if other != scope:
                    overlapping[other].append(scope)
        for other in overlapping[scope]:
            known = last[other]
            if known.write is not None and known.write[1] != transaction:
                how: How = "ww" if kind == "write" else "wr"
                yield Edge(known.write[1], transaction, how, scope.text, (known.write[0], place))
            for at, reader in known.reads if kind == "write" else ():
                if reader != transaction:
                    yield Edge(reader, transaction, "rw", scope.text, (at, place))
        if kind == "read":
            last[scope].reads.append((place, transaction))
        else:
            last[scope] = _Last((place, transaction))


def _every_conflict(accesses: list[_Access]) -> list[Edge]:
    """Return one edge for each pair of transactions and each way in which they conflict."""
    edges: dict[tuple[Hashable, Hashable, How], Edge] = {}
    first: dict[Scope, dict[tuple[Hashable, Kind], int]] = {scope: {} for *_, scope in accesses}
    overlapping = {scope: [known for other, known in first.items() if other.overlaps(scope)] for scope in first}
    for place, transaction, kind, scope in accesses:
        for known in overlapping[scope]:
            for (other, earlier), before in known.items():
                if other == transaction or (kind == "read" and earlier == "read"):
                    continue
                how: How = "rw" if earlier == "read" else "ww" if kind == "write" else "wr"
                key = other, transaction, how
                if key not in edges:
                    edges[key] = Edge(other, transaction, how, scope.text, (before, place))
        first[scope].setdefault((transaction, kind), place)
    return list(edges.values())


def _shortest(edges: list[Edge]) -> Iterable[Cycle]:
    """Yield the shortest cycle of each phenomenon in a strongly connected component."""
    writes = [edge for edge in edges if edge.how == "ww"]
    informed = [edge for edge in edges if edge.how != "rw"]
    plain: tuple[tuple[Phenomenon, list[Edge], list[Edge]], ...] = (
        ("G0", writes, writes),
        ("G1c", [edge for edge in edges if edge.how == "wr"], informed),
        ("G-single", [edge for edge in edges if edge.how == "rw"], informed),
    )
    single = False
    for name, starts, rest in plain:
        best = _closed(starts, rest)
        if best is not None:
            single = single or name == "G-single"
            yield Cycle(name, best)
    anti = [edge for edge in edges if edge.how == "rw"]
    best = None if single else _closed(anti, edges)
    if best is not None:
        yield Cycle("G2", best)


def _closed(starts: list[Edge], rest: list[Edge]) -> tuple[Edge, ...] | None:
    """Return the shortest cycle of one of the first edges and any of the rest, or None.

    There may be as many edges as pairs of transactions: so sets of transactions are the bits of a number, and all first
    edges that lead to one transaction take one search, no deeper than the best cycle is long.
    """
    number = {name: n for n, name in enumerate(dict.fromkeys(name for edge in [*starts, *rest] for name in edge[:2]))}
    edges: dict[tuple[int, int], Edge] = {}
    onwards, backwards = [0] * len(number), [0] * len(number)
    for edge in rest:
        before, after = number[edge.before], number[edge.after]
        edges.setdefault((before, after), edge)
        onwards[before] |= 1 << after
        backwards[after] |= 1 << before
    first: dict[tuple[int, int], Edge] = {}
    closing: dict[int, int] = {}
    for edge in starts:
        before, after = number[edge.before], number[edge.after]
        first.setdefault((before, after), edge)
        closing[after] = closing.get(after, 0) | 1 << before
    best: list[int] = []
    for source, ends in closing.items():
        path = _path(onwards, backwards, source, ends, most=len(best) - 1 if best else len(number))
        if path:
            best = path
    return (first[best[-1], best[0]], *(edges[step] for step in pairwise(best))) if best else None


def _path(onwards: list[int], backwards: list[int], source: int, ends: int, *, most: int) -> list[int]:
    """Return the shortest path from a node to any of the targets, with at most so many nodes; or nothing."""
    levels = [1 << source]
    reached = levels[0]
    while not levels[-1] & ends:
        following = 0
        for node in _bits(levels[-1]):
            following |= onwards[node]
        following &= ~reached
        if not following or len(levels) >= most:
            return []
        levels.append(following)
        reached |= following
    path = [next(_bits(levels.pop() & ends))]
    while levels:
        path.append(next(_bits(levels.pop() & backwards[path[-1]])))
    return path[::-1]


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _components(following: dict[Hashable, set[Hashable]]) -> list[list[Hashable]]:
    """Return the strongly connected components, each after all that it leads to (Tarjan, without recursion)."""
    index: dict[Hashable, int] = {}
    low: dict[Hashable, int] = {}
    open_: dict[Hashable, None] = {}
    found: list[list[Hashable]] = []
    for root, after in following.items():
        if root in index:
            continue
        index[root] = low[root] = len(index)
        open_[root] = None
        work = [(root, iter(after))]
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    open_[successor] = None
                    work.append((successor, iter(following[successor])))
                    break
                if successor in open_:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[Hashable] = []
                    while True:
                        member, _ = open_.popitem()
                        component.append(member)
                        if member == node:
                            break
                    found.append(component)
    return found


__all__ = ["Access", "Cycle", "Edge", "Serializability", "serializability"]
