"""A graph as the analysis sees it: what each node reads and may write, where it leads, what its channels allow."""

# A builder's nodes, branches and schemas are generic in types nobody here knows.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

from langchain_core.runnables import Runnable, RunnableLambda, RunnableSequence
from langchain_core.tools import BaseTool
from langgraph.constants import END, START
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from settlemark_langgraph.analysis._channels import Contract, contract_of
from settlemark_langgraph.analysis._destinations import destinations, goes_to
from settlemark_langgraph.analysis._function_source import FunctionSource, plain_function, source_of
from settlemark_langgraph.analysis._returned import (
    NOTHING,
    UNKNOWN,
    Keys,
    Written,
    commanded,
    either,
    goings,
    written,
)
from settlemark_langgraph.analysis._routes import NOWHERE, Ends, Route, Routes, TooManyRoutes
from settlemark_langgraph.analysis._supersteps_reached import Ways
from settlemark_langgraph.channels._signing import _sign

Builder = StateGraph[Any, Any, Any, Any]
Compiled = CompiledStateGraph[Any, Any, Any, Any]
Recorded = Mapping[tuple[str, ...], frozenset[str]]
"""What nodes wrote in a run, by their path through the subgraphs."""


@dataclass(frozen=True)
class Node:
    """What a node touches: the channels it reads, those it may write, and whether the latter are known."""

    reads: frozenset[str]
    writes: frozenset[str]
    known: bool


@dataclass
class Wiring:
    """One graph, ready to be explored.

    Attributes:
        ways: how it goes on; None when there are too many ways to tell them one by one.
        inside: the wirings of the nodes that are graphs themselves.
        leaves: the updates its nodes make in the graph around it.
        exits: where its nodes lead in the graph around it.
        notes: what was assumed, for the reader of the report.
    """

    builder: Builder
    channels: dict[str, Contract]
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    ways: Ways | None = None
    inside: dict[str, Wiring] = field(default_factory=dict)
    tool_nodes: dict[str, ToolNode] = field(default_factory=dict[str, ToolNode])
    leaves: Keys = NOTHING
    exits: list[Callable[[Ends], Routes]] = field(default_factory=list[Callable[[Ends], Routes]])
    notes: list[str] = field(default_factory=list[str])


def _unsigned(runnable: object) -> object:
    """Return what a node was before `signed` had its writes carry its name."""
    if isinstance(runnable, RunnableSequence):
        *steps, last = runnable.steps
        function = getattr(getattr(last, "bound", last), "func", None)
        if plain_function(function)[0] is _sign and len(steps) == 1:
            return steps[0]
    return runnable


def builder_of(graph: object) -> Builder | None:
    """Return the builder of a graph, compiled or not; None of anything else."""
    if isinstance(graph, StateGraph):
        return graph
    return graph.builder if isinstance(graph, CompiledStateGraph) else None


def wire(builder: Builder, recorded: Recorded, path: tuple[str, ...] = ()) -> Wiring:
    """Return a graph's wiring; `recorded` tells what cannot be read from its nodes' sources."""
    return _Wirer(builder, recorded, path).wire()


class _Wirer:
    def __init__(self, builder: Builder, recorded: Recorded, path: tuple[str, ...]) -> None:
        self._builder = builder
        self._recorded = recorded
        self._path = path
        self._channels = {name: contract_of(channel) for name, channel in builder.channels.items()}
        names = list(builder.nodes)
        self._all = Ends({name: name for name in [*names, END]}, _types(builder.state_schema))
        self._found = Wiring(builder, self._channels)

    def wire(self) -> Wiring:
        found = self._found
        groups: dict[str, tuple[Routes, ...]] = {}
        countless = False
        for name in (START, *self._builder.nodes):
            try:
                groups[name] = tuple(self._groups(name))
            except TooManyRoutes as error:
                countless = True
                found.notes.append(
                    f"{self._named(name)} may lead to {error}: all nodes count as running together;"
                    " annotate its router (-> Literal[…] for one node, -> list[Send]), or give it a path_map"
                )
        for name, spec in self._builder.nodes.items():
            found.nodes[name] = self._node(name, spec)
        if not countless:
            handlers = {n: getattr(spec, "error_handler_node", None) for n, spec in self._builder.nodes.items()}
            found.ways = Ways(
                groups=groups,
                joins=tuple(
                    (frozenset(starts), end) for starts, end in sorted(self._builder.waiting_edges) if end != END
                ),
                deferred=frozenset(name for name, spec in self._builder.nodes.items() if spec.defer),
                handlers={name: handler for name, handler in handlers.items() if handler is not None},
            )
        return found

    # ---- where a node leads

    def _groups(self, name: str) -> Iterator[Routes]:
        static = frozenset(end for start, end in self._builder.edges if start == name)
        if static - {END}:
            yield frozenset({Route(static).without_end()})
        for branch in self._builder.branches.get(name, {}).values():
            ends = self._all if branch.ends is None else Ends(branch.ends, self._all.types, self._all.named)
            yield _endless(destinations(_function(branch.path), ends))
        if name != START:
            yield from self._gotos(name)

    def _gotos(self, name: str) -> Iterator[Routes]:
        spec = self._builder.nodes[name]
        declared = list(spec.ends or ())
        ends = Ends({end: end for end in declared}, self._all.types, self._all.named) if declared else self._all
        if (inner := self._inside(name)) is not None:
            for leads in inner.exits:
                yield NOWHERE | _endless(leads(ends))
            return
        routes: Routes = frozenset()
        read = False
        for source in _sources(_unsigned(spec.runnable)):
            for going in goings(source):
                if going.parent:
                    self._found.exits.append(functools.partial(goes_to, going.source, going.goto))
                else:
                    read = True
                    routes |= goes_to(going.source, going.goto, ends)
        if declared and not read:
            # A command is announced and not to be seen: any of its ends, or several at once.
            routes = ends.any()
        if routes:
            yield NOWHERE | _endless(routes)

    # ---- what a node reads and writes

    def _node(self, name: str, spec: Any) -> Node:
        everything = frozenset(self._channels)
        reads = frozenset(self._builder.schemas[spec.input_schema]) & everything
        if (inner := self._inside(name)) is not None:
            subgraph = inner.builder
            # A subgraph hands back every key of its output, those it was only given among them.
            output = frozenset(subgraph.schemas[subgraph.output_schema]) & everything
            taken = reads & frozenset(subgraph.schemas[subgraph.input_schema])
            leaves = either(output, inner.leaves)
            return Node(taken, everything if leaves is None else leaves & everything, leaves is not None)
        wrote = self._written(name, _unsigned(spec.runnable), reads)
        self._found.leaves = either(self._found.leaves, wrote.parent)
        if wrote.own is not None:
            root = "__root__" in everything
            return Node(reads, everything if root else wrote.own & everything, known=True)
        run = self._recorded.get((*self._path, name))
        if run is None:
            self._found.notes.append(
                f"what {self._named(name)} writes cannot be read from its source, so it counts as every channel:"
                " let it return a dict literal, or give an input to run it once"
            )
        return Node(reads, everything if run is None else run & everything, run is not None)

    def _written(self, name: str, runnable: object, reads: frozenset[str]) -> Written:
        if isinstance(runnable, ToolNode):
            self._found.tool_nodes[name] = runnable
            found = Written(frozenset({runnable._messages_key}))  # noqa: SLF001 - it has no public name
            for tool in runnable.tools_by_name.values():
                found |= _written_by_tool(tool)
            return found
        found = Written()
        sources = list(_sources(runnable))
        for source in sources:
            found |= written(source, reads)
        return found if sources else UNKNOWN

    def _inside(self, name: str) -> Wiring | None:
        """Return the wiring of a node that is a graph."""
        if name not in self._found.inside:
            subgraph = builder_of(_unsigned(self._builder.nodes[name].runnable))
            if subgraph is None:
                return None
            self._found.inside[name] = wire(subgraph, self._recorded, (*self._path, name))
        return self._found.inside[name]

    def _named(self, name: str) -> str:
        return ":".join((*self._path, "the start" if name == START else name))


def _written_by_tool(tool: BaseTool) -> Written:
    """Return what a tool's commands write: its other results become messages."""
    source = next(_sources(tool))
    if source is None:
        return Written()
    found = commanded(source)
    announced = any(part is Command for part in _parts(source.hints.get("return")))
    # It says that it returns a command, and makes none that can be seen.
    return UNKNOWN if announced and found == Written() else found


def _parts(hint: Any) -> Iterator[Any]:
    yield get_origin(hint) or hint
    for part in get_args(hint):
        yield from _parts(part)


def _sources(runnable: object) -> Iterator[FunctionSource | None]:
    """Yield the sources of the functions a node may run; None for one that has none to read."""
    if isinstance(runnable, ToolNode):
        for tool in runnable.tools_by_name.values():
            yield from _sources(tool)
        return
    if isinstance(runnable, BaseTool):
        function = getattr(runnable, "func", None) or getattr(runnable, "coroutine", None) or type(runnable)._run  # noqa: SLF001
        yield source_of(function)
        return
    yield source_of(_function(runnable))


def _function(runnable: object) -> object:
    """Return the function behind a runnable; of another runnable nothing is known, and itself is returned."""
    function = getattr(runnable, "func", None) or getattr(runnable, "afunc", None)
    if isinstance(runnable, Runnable) and not isinstance(runnable, RunnableLambda) and function is None:
        return None
    return runnable if function is None else function


def _endless(routes: Routes) -> Routes:
    return frozenset(route.without_end() for route in routes)


def _types(schema: object) -> dict[str, Any]:
    """Return the types of a schema's fields, less what only wraps them."""
    try:
        hints = get_type_hints(schema)
    except Exception:
        return {}
    return {name: _bare(hint) for name, hint in hints.items()}


def _bare(hint: Any) -> Any:
    while get_origin(hint) in (Annotated, NotRequired, Required):
        hint = get_args(hint)[0]
    return hint


__all__ = ["Builder", "Compiled", "Node", "Recorded", "Wiring", "builder_of", "wire"]
