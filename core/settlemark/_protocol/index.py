"""Finds the holds, floors and versions that overlap a scope, at the cost of the scope's depth, not of the crowd.

A trie over scopes' segments. Overlapping entries stand on the way to a scope (its prefixes) or below it. So every node
keeps its *own* entries and those of its whole subtree (*all*): a query reads `own` along the way and `all` at the end.
Wildcards branch the way.

Positions are sorted, so that "the nearest older holder" is one bisection: a waiter watches that one, and a departure
wakes one waiter instead of all (10,000 waiters drain in linear time).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, MutableSequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from sortedcontainers import SortedList

if TYPE_CHECKING:
    from settlemark._model.scope import Scope

Position = tuple[int, str]
"""An epoch, with an ordinal that orders the siblings of one superstep."""

NOWHERE: Position = (0, "")

HOLDS, ACTIVE, LINE = 0, 1, 2
BUSY, READING, LATE = 0, 1, 2

# Up to this size a list's insertion (one memmove) is faster than a balanced structure.
_LIST_LIMIT = 1024


class Positions(msgspec.Struct, eq=False):
    """An ordered multiset of positions.

    Attributes:
        left: when its smallest position was last removed; shown to people, read by no decision.
    """

    items: MutableSequence[Position] = []
    left: float = 0.0

    def add(self, position: Position) -> None:
        """Insert a position."""
        items = self.items
        if isinstance(items, list):
            if not items or position >= items[-1]:
                items.append(position)
            else:
                insort(items, position)
            if len(items) > _LIST_LIMIT:
                self.items = SortedList(items)
        else:
            cast("Any", items).add(position)

    def discard(self, position: Position) -> None:
        """Remove a position that is there."""
        items = self.items
        if isinstance(items, list):
            del items[bisect_left(items, position)]
        else:
            items.remove(position)

    def below(self, position: Position) -> Position | None:
        """Return the largest position smaller than `position`, or None."""
        items = self.items
        if not items or items[0] >= position:
            return None
        at = bisect_left(items, position) if isinstance(items, list) else cast("Any", items).bisect_left(position)
        return items[at - 1]

    def above(self, position: Position) -> Position | None:
        """Return the smallest position greater than `position`, or None."""
        items = self.items
        at = bisect_right(items, position) if isinstance(items, list) else cast("Any", items).bisect_right(position)
        return items[at] if at < len(items) else None

    def all_above(self, position: Position) -> list[Position]:
        """Return every greater position, in order."""
        items = self.items
        at = bisect_right(items, position) if isinstance(items, list) else cast("Any", items).bisect_right(position)
        return list(items[at:])

    def least(self) -> Position | None:
        """Return the smallest position, or None."""
        return self.items[0] if self.items else None


_NONE_YET: Callable[[], list[Any]] = partial(list[Any], (None, None, None))
"""What a node has in each layer at first."""


class Node(msgspec.Struct, eq=False):
    """One segment of the trie."""

    key: str
    parent: Node | None
    children: dict[str, Node] = {}
    uses: int = 0
    own_positions: list[Positions | None] = msgspec.field(default_factory=_NONE_YET)
    all_positions: list[Positions | None] = msgspec.field(default_factory=_NONE_YET)
    own_sets: list[dict[Any, None] | None] = msgspec.field(default_factory=_NONE_YET)
    all_sets: list[dict[Any, None] | None] = msgspec.field(default_factory=_NONE_YET)
    floor: Position = NOWHERE
    all_floor: Position = NOWHERE
    write: int = 0
    all_write: int = 0

    __repr__ = object.__repr__  # the fields lead to all other nodes


class Match(msgspec.Struct, eq=False):
    """The nodes on the way to a scope, and those at its end."""

    ways: list[Node]
    ends: list[Node]


class ScopeIndex:
    """Holds, floors and versions by scope, queried by overlap.

    Attributes:
        clock: the time at which the oldest holder of a scope left it.
        lined: how many holds stand in a line.
    """

    __slots__ = ("clock", "lined", "root", "wildcards")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.root = Node("", None)
        self.wildcards = 0
        self.lined = 0
        self.clock = clock or _no_clock

    # ---- nodes

    def enter(self, scope: Scope) -> list[Node]:
        """Return the path of nodes to a scope, creating missing ones, and count one use of the last node."""
        node = self.root
        path: list[Node] = []
        for key in scope.parts:
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = Node(key, node)
                if key == "*":
                    self.wildcards += 1
            path.append(child)
            node = child
        node.uses += 1
        return path

    def leave(self, end: Node) -> None:
        """Drop one use of a node, and every node that is no longer needed."""
        end.uses -= 1
        node = end
        while node.uses == 0 and not node.children and node.parent is not None:
            del node.parent.children[node.key]
            if node.key == "*":
                self.wildcards -= 1
            node = node.parent

    def match(self, scope: Scope) -> Match:
        """Return the nodes on the way to a scope and at its end."""
        if self.wildcards or scope.has_wildcard:
            return self._match_wild(scope)
        node = self.root
        ways: list[Node] = []
        parts = scope.parts
        for key in parts:
            child = node.children.get(key)
            if child is None:
                return Match(ways, [])
            ways.append(child)
            node = child
        return Match(ways, [ways.pop()])

    def _match_wild(self, scope: Scope) -> Match:
        level = [self.root]
        ways: list[Node] = []
        for depth, key in enumerate(scope.parts):
            if depth:
                ways.extend(level)
            following: list[Node] = []
            for node in level:
                if key == "*":
                    following.extend(node.children.values())
                    continue
                for wanted in (key, "*"):
                    child = node.children.get(wanted)
                    if child is not None:
                        following.append(child)
            level = following
        return Match(ways, level)

    # ---- positions (holders, and among them the active ones) and sets of holds

    def add_position(self, path: list[Node], layer: int, position: Position) -> None:
        """Add a position at a scope."""
        for layers in (path[-1].own_positions, *[node.all_positions for node in path]):
            found = layers[layer]
            if found is None:
                found = layers[layer] = Positions()
            if found.items:
                found.add(position)
            else:
                found.items = [position]

    def drop_position(self, path: list[Node], layer: int, position: Position) -> None:
        """Remove a position from a scope."""
        if layer == HOLDS:
            self._note_leaving(path, position)
        for layers in (path[-1].own_positions, *[node.all_positions for node in path]):
            found = layers[layer]
            assert found is not None
            if len(found.items) > 1:
                found.discard(position)
            else:
                found.items.clear()

    def _note_leaving(self, path: list[Node], position: Position) -> None:
        """Note when the oldest holder of a scope leaves it, unless it was alone there: then nobody waits."""
        everybody = path[0].all_positions[HOLDS]
        assert everybody is not None, "who leaves is among them"
        if len(everybody.items) == 1:
            return
        now = self.clock()
        for found in (path[-1].own_positions[HOLDS], *(node.all_positions[HOLDS] for node in path)):
            assert found is not None
            if found.items[0] == position:
                found.left = now

    def left(self, match: Match) -> float:
        """Return when an overlapping holder that was the oldest at its scope last left."""
        found = [node.own_positions[HOLDS] for node in match.ways]
        found += [node.all_positions[HOLDS] for node in match.ends]
        return max((positions.left for positions in found if positions is not None), default=0.0)

    def add_hold(self, path: list[Node], layer: int, hold: object) -> None:
        """Add a hold, or another entry, to one of the sets at its scope."""
        end = path[-1]
        own = end.own_sets[layer]
        if own is None:
            own = end.own_sets[layer] = {}
        own[hold] = None
        for node in path:
            found = node.all_sets[layer]
            if found is None:
                found = node.all_sets[layer] = {}
            found[hold] = None

    def drop_hold(self, path: list[Node], layer: int, hold: object) -> None:
        """Remove a hold from one of the sets at its scope."""
        own = path[-1].own_sets[layer]
        assert own is not None
        del own[hold]
        for node in path:
            found = node.all_sets[layer]
            assert found is not None
            del found[hold]

    def below(self, match: Match, layer: int, position: Position) -> Position | None:
        """Return the nearest smaller overlapping position, or None."""
        best: Position | None = None
        for node in match.ways:
            found = node.own_positions[layer]
            if found is not None and found.items and found.items[0] < position:
                nearest = found.below(position)
                if nearest is not None and (best is None or nearest > best):
                    best = nearest
        for node in match.ends:
            found = node.all_positions[layer]
            if found is not None and found.items and found.items[0] < position:
                nearest = found.below(position)
                if nearest is not None and (best is None or nearest > best):
                    best = nearest
        return best

    def above(self, match: Match, position: Position) -> set[Position]:
        """Return every greater position of an overlapping holder."""
        found: set[Position] = set()
        for node in match.ways:
            own = node.own_positions[HOLDS]
            if own is not None:
                found.update(own.all_above(position))
        for node in match.ends:
            below = node.all_positions[HOLDS]
            if below is not None:
                found.update(below.all_above(position))
        return found

    def least(self, match: Match) -> Position | None:
        """Return the smallest position of an overlapping holder, or None: the frontier."""
        candidates = [node.own_positions[HOLDS] for node in match.ways]
        candidates += [node.all_positions[HOLDS] for node in match.ends]
        least = [found.items[0] for found in candidates if found is not None and found.items]
        return min(least, default=None)

    def members(self, match: Match, layer: int) -> list[Any]:
        """Return the overlapping members of one of the sets, in an order that does not depend on history."""
        found: list[Any] = []
        for node in match.ways:
            own = node.own_sets[layer]
            if own:
                found += own
        for node in match.ends:
            below = node.all_sets[layer]
            if below:
                found += below
        return found

    # ---- floors and versions: high-water marks

    def raise_floor(self, path: list[Node], position: Position) -> None:
        """Record that a writer committed at `position` with this scope in its footprint."""
        end = path[-1]
        end.floor = max(end.floor, position)
        for node in path:
            node.all_floor = max(node.all_floor, position)

    def note_write(self, path: list[Node], number: int) -> None:
        """Record that the write with this sequence number, larger than any before, touched the scope."""
        path[-1].write = number
        for node in path:
            node.all_write = number

    def floor(self, match: Match) -> Position:
        """Return the highest overlapping floor."""
        best = NOWHERE
        for node in match.ways:
            best = max(best, node.floor)
        for node in match.ends:
            best = max(best, node.all_floor)
        return best

    def version(self, match: Match) -> int:
        """Return the sequence number of the last overlapping committed write."""
        best = 0
        for node in match.ways:
            best = max(best, node.write)
        for node in match.ends:
            best = max(best, node.all_write)
        return best


def _no_clock() -> float:
    return 0.0
