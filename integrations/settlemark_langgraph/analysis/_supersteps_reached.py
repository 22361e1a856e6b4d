"""Which nodes can run together: the supersteps a graph can reach, one after the other, as LangGraph takes them.

A state is what runs now, how far the joins are, and what is deferred. Layers would not do: a loop beside
a longer chain meets nodes of several layers. A running node carries a mark that a question may follow
along its branch; without a question, all marks are 0.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from langgraph.constants import START

from settlemark_langgraph.analysis._routes import NOWHERE, Route, Routes

Superstep = tuple[str, ...]


class Task(NamedTuple):
    """A node that runs: `several` when it may run more than once in the superstep."""

    node: str
    several: bool = False
    mark: int = 0


class State(NamedTuple):
    """What runs, what joins have seen (join, source, mark), and which deferred nodes wait (node, mark)."""

    running: frozenset[Task]
    joined: frozenset[tuple[int, str, int]] = frozenset()
    waiting: frozenset[tuple[str, int]] = frozenset()


class _Next(NamedTuple):
    """What is to run next: by an edge (node, mark), and by being sent to (node, several, mark)."""

    edges: frozenset[tuple[str, int]] = frozenset()
    sends: frozenset[tuple[str, bool, int]] = frozenset()


@dataclass(frozen=True)
class Ways:
    """How a graph goes on: each node's alternatives (one of each group), its joins, and what stands in for what.

    Attributes:
        groups: for each node, START included, groups of routes; it takes one of every group.
        joins: (sources, target): the target runs when all sources have.
        deferred: nodes that run when nothing else is left.
        handlers: for a node, the one that runs in its place when it fails.
    """

    groups: Mapping[str, tuple[Routes, ...]]
    joins: tuple[tuple[frozenset[str], str], ...] = ()
    deferred: frozenset[str] = frozenset()
    handlers: Mapping[str, str] = field(default_factory=dict[str, str])


class Marking(Protocol):
    """A question that follows branches, in marks that it alone understands."""

    def leaves(self, task: Task, running: frozenset[Task]) -> int:
        """Return the mark a task leaves to what comes after it."""
        ...

    def joins(self, one: int, other: int) -> int:
        """Return the mark of a task that comes after two."""
        ...


class _Unmarked:
    def leaves(self, task: Task, running: frozenset[Task]) -> int:
        del task, running
        return 0

    def joins(self, one: int, other: int) -> int:
        return one & other


class Budget:
    """How much may still be looked at; each look costs one."""

    def __init__(self, limit: int, tell: Callable[[str], None] | None = None) -> None:
        self.left = limit
        self._every = max(limit // 10, 1)
        self._limit = limit
        self._tell = tell

    def spend(self) -> None:
        """Pay for one look.

        Raises:
            Exhausted: nothing is left.
        """
        self.left -= 1
        if self.left < 0:
            raise Exhausted
        if self._tell is not None and self.left and self.left % self._every == 0:
            self._tell(f"looked at {self._limit - self.left} of at most {self._limit} ways to go on")


class Exhausted(Exception):
    """There is more to look at than was allowed."""


def supersteps(ways: Ways, budget: Budget, marking: Marking | None = None) -> Iterator[frozenset[Task]]:
    """Yield the tasks of every superstep that can be reached, those reached in fewer steps first.

    Raises:
        Exhausted: there are more than the budget allows.

    >>> ways = Ways({START: (frozenset({Route(frozenset({"a", "b"}))}),), "a": (), "b": ()})
    >>> [names(running) for running in supersteps(ways, Budget(100))]
    [('a', 'b')]
    """
    explorer = _Explorer(ways, budget, marking or _Unmarked())
    first = State(frozenset({Task(START)}))
    seen = {first}
    todo = deque([first])
    told: set[frozenset[Task]] = set()
    while todo:
        state = todo.popleft()
        if state.running not in told and state != first:
            told.add(state.running)
            yield state.running
        for following in explorer.after(state):
            if following not in seen:
                seen.add(following)
                todo.append(following)


def names(running: frozenset[Task]) -> Superstep:
    """Return the nodes of a superstep in order; one that may run several times stands there twice."""
    return tuple(sorted(task.node for task in running for _ in range(2 if task.several else 1)))


class _Explorer:
    def __init__(self, ways: Ways, budget: Budget, marking: Marking) -> None:
        self._ways = ways
        self._budget = budget
        self._marking = marking
        self._alternatives = functools.cache(self._all_alternatives)

    def after(self, state: State) -> Iterator[State]:
        """Yield the states that may follow, and those in which an error handler runs in its node's place."""
        yield from self._with_handlers(state)
        marks = {task: self._marking.leaves(task, state.running) for task in state.running}
        joined = self._seen_by_joins(state, marks)
        reached = {_Next()}
        for task in sorted(state.running):
            routes = self._alternatives(task.node, task.several)
            reached = {self._add(one, route, marks[task]) for one in reached for route in routes}
        for one in reached:
            following = self._state(one, joined, dict(state.waiting))
            if following.running:
                yield following

    def _with_handlers(self, state: State) -> Iterator[State]:
        for task in state.running:
            handler = self._ways.handlers.get(task.node)
            if handler is not None:
                rest = state.running if task.several else state.running - {task}
                several = any(other.node == handler for other in rest)
                others = frozenset(other for other in rest if other.node != handler)
                yield state._replace(running=others | {Task(handler, several, task.mark)})

    def _seen_by_joins(self, state: State, marks: Mapping[Task, int]) -> dict[tuple[int, str], int]:
        seen = {(join, source): mark for join, source, mark in state.joined}
        for task in state.running:
            for number, (sources, _) in enumerate(self._ways.joins):
                if task.node in sources:
                    place = (number, task.node)
                    mark = marks[task]
                    seen[place] = self._marking.joins(seen[place], mark) if place in seen else mark
        return seen

    def _all_alternatives(self, node: str, several: bool) -> Routes:
        groups = self._ways.groups.get(node, ())
        # Each time it runs, it may go on in another way; what two of them can reach, any number can.
        return functools.reduce(
            lambda some, more: frozenset(a.beside(b) for a, b in itertools.product(some, more)),
            groups * 2 if several else groups,
            NOWHERE,
        )

    def _add(self, before: _Next, route: Route, mark: int) -> _Next:
        self._budget.spend()
        edges = dict(before.edges)
        for node in route.to:
            edges[node] = self._marking.joins(edges[node], mark) if node in edges else mark
        sends = {node: (several, left) for node, several, left in before.sends}
        for node in route.sent | route.fanned:
            # Each is a task of its own: together they may do what either may.
            several, left = sends.get(node, (False, 0))
            sends[node] = (several or node in sends or node in route.fanned, left | mark)
        return _Next(frozenset(edges.items()), frozenset((n, several, left) for n, (several, left) in sends.items()))

    def _state(self, one: _Next, joined: dict[tuple[int, str], int], waiting: dict[str, int]) -> State:
        """Return the next state, as LangGraph's channels make it."""
        seen = dict(joined)
        edges: dict[str, int] = {}
        for node, mark in one.edges:
            self._reach(waiting if node in self._ways.deferred else edges, node, mark)
        for number, (sources, target) in enumerate(self._ways.joins):
            if target not in self._ways.deferred:
                self._finish(seen, number, sources, edges, target)
        if not edges:
            # LangGraph calls a run finished when no edge leads on, even while sends are under way.
            edges, waiting = waiting, {}
            for number, (sources, target) in enumerate(self._ways.joins):
                if target in self._ways.deferred:
                    self._finish(seen, number, sources, edges, target)
        tasks = {node: Task(node, False, mark) for node, mark in edges.items()}
        for node, several, mark in one.sends:
            both = tasks.get(node)
            tasks[node] = Task(node, several or both is not None, mark | (both.mark if both else 0))
        return State(
            frozenset(tasks.values()),
            frozenset((number, source, mark) for (number, source), mark in seen.items()),
            frozenset(waiting.items()),
        )

    def _reach(self, among: dict[str, int], node: str, mark: int) -> None:
        among[node] = self._marking.joins(among[node], mark) if node in among else mark

    def _finish(
        self, seen: dict[tuple[int, str], int], join: int, sources: frozenset[str], edges: dict[str, int], target: str
    ) -> None:
        """Let a join's target run when all sources have; what it saw is used up by that."""
        if all((join, source) in seen for source in sources):
            for source in sources:
                self._reach(edges, target, seen.pop((join, source)))


__all__ = ["Budget", "Exhausted", "Marking", "State", "Superstep", "Task", "Ways", "names", "supersteps"]
