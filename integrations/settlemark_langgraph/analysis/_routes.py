"""The ways on from a node: by edges, by `Send`, and by several of them at once."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langgraph.constants import END

_WIDE = 8


@dataclass(frozen=True)
class Route:
    """One way to go on: nodes reached by an edge, nodes sent to once, and nodes sent to several times."""

    to: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    fanned: frozenset[str] = frozenset()

    def beside(self, other: Route) -> Route:
        """Return both at once."""
        twice = self.sent & other.sent
        return Route(self.to | other.to, self.sent | other.sent, self.fanned | other.fanned | twice)

    def without_end(self) -> Route:
        """Return the nodes it names, less the end of the graph."""
        return Route(self.to - {END}, self.sent - {END}, self.fanned - {END})


Routes = frozenset[Route]
NOWHERE: Routes = frozenset({Route()})


class TooManyRoutes(Exception):
    """There are more ways to go on than can be told one by one."""


@dataclass(frozen=True)
class Ends:
    """The ends there are: what a router returns, and the node it means."""

    named: Mapping[Hashable, str]
    types: Mapping[str, Any]
    """The channels' types: `state["next"]` is one end when `next` is a text."""
    beyond: Mapping[Hashable, str] = field(default_factory=dict[Hashable, str])
    """Ends that are not announced, and are reached when they are named."""

    def one(self) -> Routes:
        """Return every end, each alone."""
        return frozenset(Route(frozenset({end})) for end in self.named.values())

    def any(self, *, sends: bool = True, edges: bool = True) -> Routes:
        """Return every set of ends.

        Raises:
            TooManyRoutes: there are more than can be told one by one.
        """
        ends = sorted(set(self.named.values()) - {END})
        if len(ends) > _WIDE:
            raise TooManyRoutes(f"{len(ends)} ends, any of them together")
        chosen = [frozenset(some) for size in range(len(ends) + 1) for some in itertools.combinations(ends, size)]
        return _by_sends_alone(
            Route(some if edges else frozenset(), fanned=some if sends else frozenset()) for some in chosen
        )

    def as_nodes(self) -> Ends:
        """Return the ends as a `Send` names them: by their nodes."""
        return Ends({end: end for end in self.named.values()}, self.types, self.beyond)

    def at(self, value: Hashable) -> Routes:
        """Return the end of that name; when there is none, the run fails there."""
        end = self.named.get(value) or self.beyond.get(value)
        return frozenset() if end is None else frozenset({Route(frozenset({end}))})


def fanned(routes: Routes) -> Routes:
    """Return what a list of any length makes of its possible parts."""
    alone: dict[frozenset[str], Route] = {}
    for route in routes:
        nodes = route.to | route.sent | route.fanned
        part = Route(route.to, fanned=route.sent | route.fanned)
        alone[nodes] = alone.get(nodes, Route()).beside(part)
    parts = list(alone.values())
    if len(parts) > _WIDE:
        raise TooManyRoutes(f"{len(parts)} ends, any of them together")
    return _by_sends_alone(
        functools.reduce(Route.beside, some, Route())
        for size in range(len(parts) + 1)
        for some in itertools.combinations(parts, size)
    )


def _by_sends_alone(routes: Iterable[Route]) -> Routes:
    """Return the routes, and each without its edges: deferred nodes wait for edges, and not for sends."""
    return frozenset(way for route in routes for way in (route, Route(sent=route.sent, fanned=route.fanned)))


def product(parts: Iterable[Routes]) -> Routes:
    """Return the ways on where one of each of these is taken at once."""
    return functools.reduce(lambda some, more: frozenset(a.beside(b) for a in some for b in more), parts, NOWHERE)


__all__ = ["NOWHERE", "Ends", "Route", "Routes", "TooManyRoutes", "fanned", "product"]
