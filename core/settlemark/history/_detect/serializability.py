"""Whether committed transactions are serializable, judged from a counterparty's own log.

The log shows the real order of reads and writes, not the engine's view of it. Two accesses conflict when their scopes
overlap and one of them writes; the earlier one's transaction then comes first. Writes of one group to one scope commute
and do not conflict: their order changes nothing that anybody can see (Weihl). A cycle of such edges is a proof that no
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


class Access(NamedTuple):
    """One line of a counterparty's log: which transaction did what to which resource.

    `transaction` is any unique name (with its attempt, where one may be tried again); `scope` as in declarations.
    `commutes` is the group of a write that commutes with those of its group on the same scope, as of `commutes=` in
    declarations; empty for none. What such a write itself reads of the scope is no line of its own.
    """

    transaction: Hashable
    kind: Kind
    scope: str | Scope
    commutes: str = ""


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


class Line(NamedTuple):
    """One access that counts, with its place in the log."""

    place: int
    transaction: Hashable
    kind: Kind
    scope: Scope
    group: str

    def commutes_with(self, other: Line) -> bool:
        """Whether both write, and nobody can see which came first."""
        return self.group != "" and self.group == other.group and self.scope == other.scope


def lines(log: Iterable[Access], committed: Collection[Hashable] | None) -> list[Line]:
    """Return the accesses of the transactions that count.

    Raises:
        ScopeError: a scope is malformed.
        ValueError: a read has a group.
    """
    found: list[Line] = []
    for place, access in enumerate(log, 1):
        transaction, kind, scope, group = Access(*access)
        if group and kind == "read":
            raise ValueError(
                f"line {place} of the log is a read of {scope} with commutes={group!r}: a read commutes with no write;"
                " leave commutes out"
            )
        if committed is None or transaction in committed:
            found.append(Line(place, transaction, kind, Scope.parse(scope), group))
    return found


class _Crowd:
    """Transactions that do not conflict here, and together come before one that does: told by as few pairs as can be.

    The pairs of n that add and m that then read are n times m. So where there are several, each leads to a joint, and
    that to those that come after them. Who joins later leads to the next joint only.
    """

    __slots__ = ("_joint", "_new")

    def __init__(self) -> None:
        self._new: dict[Hashable, None] = {}
        self._joint: Hashable | None = None

    def add(self, transaction: Hashable) -> None:
        if transaction != self._joint:
            self._new[transaction] = None

    def head(self, following: dict[Hashable, set[Hashable]]) -> Hashable | None:
        """Return what all of them lead to by now, or None where there are none."""
        if self._new:
            before = [*self._new, *([] if self._joint is None else [self._joint])]
            self._new = {}
            if len(before) > 1:
                self._joint = _Joint()
                following[self._joint] = set()
                for each in before:
                    following[each].add(self._joint)
            else:
                self._joint = before[0]
        return self._joint


class _Joint:
    """No transaction: what several lead to."""


@dataclass
class _Last:
    """One scope's last writers, which commute with each other; its readers since; and what came before the writers."""

    group: str = ""
    writers: _Crowd = field(default_factory=_Crowd)
    readers: _Crowd = field(default_factory=_Crowd)
    before: list[Hashable] = field(default_factory=list[Hashable])
    has_readers: bool = False


def serializability(log: Iterable[Access], committed: Collection[Hashable] | None = None) -> Serializability:
    """Return a serial order of the transactions in a log, or the shortest cycles that show there is none.

    Args:
        log: the accesses in the order in which the counterparty saw them.
        committed: the transactions that count; all of them by default. An undone transaction's writes and undos do not
            count.

    Raises:
        ScopeError: a scope is malformed.
        ValueError: a read has a group.

    >>> found = serializability([
    ...     Access("a", "read", "seat:/7"), Access("b", "read", "seat:/7"),
    ...     Access("a", "write", "seat:/7"), Access("b", "write", "seat:/7"),
    ... ])
    >>> [cycle.phenomenon for cycle in found.cycles], len(found.cycles[0].edges)
    (['G-single'], 2)

    Two that add to two sums in either order are serializable; one that reads a sum between is not.

    >>> log = [Access(name, "write", f"sum:/{n}", "add") for name, n in [("a", 1), ("b", 1), ("b", 2), ("a", 2)]]
    >>> serializability(log).serializable, serializability([*log[:1], Access("b", "read", "sum:/1"), *log[1:]]).order
    (True, ('a', 'b'))
    """
    accesses = lines(log, committed)
    following = _conflicts(accesses)
    components = [[node for node in component if not isinstance(node, _Joint)] for component in _components(following)]
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


def _conflicts(accesses: list[Line]) -> dict[Hashable, set[Hashable]]:
    """Return what each transaction leads to: enough that every conflict is a path, and no more.

    Of a scope, the last writers and the readers since are enough, and for one that commutes with the last writers, what
    came before the first of them.
    """
    following: dict[Hashable, set[Hashable]] = {line.transaction: set() for line in accesses}
    last: dict[Scope, _Last] = {}
    overlapping: dict[Scope, list[Scope]] = {}
    for _, transaction, kind, scope, group in accesses:
        if scope not in last:
            last[scope] = _Last()
            overlapping[scope] = [other for other in last if other != scope and other.overlaps(scope)]
            for other in overlapping[scope]:
                overlapping[other].append(scope)
        mine = last[scope]
        joins = kind == "write" and group != "" and group == mine.group and not mine.has_readers
        before = mine.before if joins else _heads(mine, kind, following)
        for other in overlapping[scope]:
            before = [*before, *_heads(last[other], kind, following)]
        for node in before:
            if node != transaction:
                following[node].add(transaction)
        if kind == "read":
            mine.readers.add(transaction)
            mine.has_readers = True
        else:
            if not joins:
                mine = last[scope] = _Last(group, before=_heads(mine, kind, following))
            mine.writers.add(transaction)
    return following


def _heads(known: _Last, kind: Kind, following: dict[Hashable, set[Hashable]]) -> list[Hashable]:
    """Return what an access of another kind than the last writers' comes behind."""
    crowds = (known.writers,) if kind == "read" else (known.writers, known.readers)
    return [head for crowd in crowds if (head := crowd.head(following)) is not None]


def _every_conflict(accesses: list[Line]) -> list[Edge]:
    """Return one edge for each pair of transactions and each way in which they conflict."""
    edges: dict[tuple[Hashable, Hashable, How], Edge] = {}
    first: dict[Scope, dict[tuple[Hashable, Kind, str], Line]] = {line.scope: {} for line in accesses}
    overlapping = {scope: [known for other, known in first.items() if other.overlaps(scope)] for scope in first}
    for line in accesses:
        for known in overlapping[line.scope]:
            for earlier in known.values():
                both_read = line.kind == "read" and earlier.kind == "read"
                if earlier.transaction == line.transaction or both_read or line.commutes_with(earlier):
                    continue
                how: How = "rw" if earlier.kind == "read" else "ww" if line.kind == "write" else "wr"
                key = earlier.transaction, line.transaction, how
                if key not in edges:
                    edges[key] = Edge(*key, line.scope.text, (earlier.place, line.place))
        first[line.scope].setdefault((line.transaction, line.kind, line.group), line)
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
