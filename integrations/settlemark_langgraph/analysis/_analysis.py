"""`analyze`: which channels of a graph are open to a fail-stop, a lost update or a stale read, and by which two nodes.

Two nodes that share a superstep see the same state: neither sees what the other writes. So a node that reads a
channel that the other writes goes by an old value, with a reducer as well as without: a reducer keeps both
writes, and tells no reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from settlemark import Settlement, UsageError
from settlemark_langgraph.analysis._channels import Rule
from settlemark_langgraph.analysis._findings import Finding, Kind, Report
from settlemark_langgraph.analysis._instrumented_run import record
from settlemark_langgraph.analysis._lost_updates import LostUpdate, lost_updates
from settlemark_langgraph.analysis._supersteps_reached import Budget, Exhausted, Superstep, names, supersteps
from settlemark_langgraph.analysis._undeclared import undeclared_tools, unsettled
from settlemark_langgraph.analysis._wiring import Builder, Compiled, Recorded, Wiring, builder_of, wire

LIMIT = 200_000
_NOT_GIVEN: Any = object()


def analyze(
    graph: Builder | Compiled,
    *,
    run: Any = _NOT_GIVEN,
    settlement: Settlement | None = None,
    limit: int = LIMIT,
    tell: Callable[[str], None] | None = None,
) -> Report:
    """Return what can go wrong in a graph between nodes that run together, and the tools nobody declared.

    The supersteps are enumerated as LangGraph takes them: edges, joins, routers, `Send`, `Command(goto=…)`,
    deferred nodes, error handlers, subgraphs. A node reads the keys of its input schema, and writes what its
    source says, else what one run says, else every channel. Nothing is run unless `run` is given.

    Args:
        graph: a `StateGraph`, or what its `compile()` returns.
        run: an input. The graph runs on it once, its models and tools included, and what a node writes then
            stands for what its source does not tell.
        settlement: where tools are declared, besides `@effect` and the settlements of the nodes.
        limit: how many ways to go on are looked at, for each question. When there are more, the report is not
            `complete`, and all nodes count as running together.
        tell: is told how far it is.

    Raises:
        UsageError: that is no such graph, or LangGraph refuses to compile it.

    >>> from typing import TypedDict
    >>> from langgraph.graph import START, StateGraph
    >>> class Text(TypedDict):
    ...     text: str
    >>> class Draft(Text):
    ...     summary: str
    >>> builder = StateGraph(Draft)
    >>> _ = builder.add_node("edit", lambda state: {"text": "new"}, input_schema=Text)
    >>> _ = builder.add_node("summarize", lambda state: {"summary": state["text"]}, input_schema=Text)
    >>> _ = builder.add_edge(START, "edit").add_edge(START, "summarize")
    >>> [(found.kind.value, found.channel, found.nodes) for found in analyze(builder).findings]
    [('stale-read', 'text', ('summarize', 'edit'))]
    """
    builder = builder_of(graph)
    if builder is None:
        kind = type(graph).__name__
        raise UsageError(f"analyze() takes a StateGraph, or what its compile() returns, not a {kind}", graph=graph)
    _validate(builder)
    notes: list[str] = []
    recorded: Recorded = {}
    if run is not _NOT_GIVEN:
        recorded, ended = record(graph, run)
        if ended is not None:
            notes.append(f"the run ended early ({ended}): nodes that it did not reach are not known by it")
    analysis = _Analysis(settlement, limit, tell)
    analysis.examine(wire(builder, recorded), "")
    return Report(tuple(analysis.findings), tuple(analysis.supersteps), analysis.complete, (*notes, *analysis.notes))


def _validate(builder: Builder) -> None:
    was = builder.compiled
    try:
        builder.validate()
    except ValueError as error:
        raise UsageError(f"LangGraph refuses this graph: {error}", graph=builder) from error
    finally:
        builder.compiled = was


class _Analysis:
    """What was found so far, in a graph and its subgraphs."""

    def __init__(self, settlement: Settlement | None, limit: int, tell: Callable[[str], None] | None) -> None:
        self.findings: list[Finding] = []
        self.supersteps: list[Superstep] = []
        self.notes: list[str] = []
        self.complete = True
        self._settlement = settlement
        self._limit = limit
        self._tell = tell

    def examine(self, wiring: Wiring, prefix: str) -> None:
        """Look at one graph, then at those inside it."""
        together, complete = self._together(wiring)
        self.complete &= complete
        self.supersteps += [_prefixed(prefix, superstep) for superstep in together]
        self.notes += wiring.notes
        lost, sure = lost_updates(wiring, Budget(self._limit, self._tell) if complete else None, together)
        self.complete &= sure
        for finding in _of_channels(wiring, together if complete else _pairs(wiring), lost):
            self.findings.append(_within(prefix, finding))
        for name, tools in wiring.tool_nodes.items():
            found = list(undeclared_tools(prefix + name, tools, self._settlement, alone=_is_fanned(wiring, name)))
            self.findings += found
            if tools.tools_by_name and not found and unsettled(tools):
                self.notes.append(
                    f"the tools of node {prefix}{name} are declared, and a stock ToolNode heeds no declaration:"
                    " swap it for SequencedToolNode(tools, settlement=…)"
                )
        for name, inner in wiring.inside.items():
            self.examine(inner, f"{prefix}{name}:")

    def _together(self, wiring: Wiring) -> tuple[list[Superstep], bool]:
        found: dict[Superstep, None] = {}
        if wiring.ways is None:
            return [], False
        try:
            for running in supersteps(wiring.ways, Budget(self._limit, self._tell)):
                found.setdefault(names(running))
        except Exhausted:
            self.notes.append("there are more supersteps than the limit allows: all nodes count as running together")
            return list(found), False
        return list(found), True


def _is_fanned(wiring: Wiring, name: str) -> bool:
    """Say whether a node is sent to several times at once."""
    groups = () if wiring.ways is None else wiring.ways.groups.values()
    return any(name in route.fanned for routes in groups for some in routes for route in some)


def _pairs(wiring: Wiring) -> list[Superstep]:
    """Return every two nodes, for want of something better."""
    return list(itertools.combinations_with_replacement(sorted(wiring.nodes), 2))


def _of_channels(wiring: Wiring, together: list[Superstep], lost: list[LostUpdate]) -> Iterator[Finding]:
    """Yield one finding for each channel and two nodes: the gravest."""
    told: set[tuple[str, frozenset[str]]] = set()
    for superstep in together:
        for finding in _writes_at_once(wiring, superstep):
            place = (finding.channel or "", frozenset(finding.nodes))
            if place not in told:
                told.add(place)
                yield finding
    explained: set[tuple[str, frozenset[str]]] = set()
    for update in lost:
        place = (update.channel, frozenset({update.first, update.second}))
        explained.add((update.channel, frozenset({update.reader, update.first})))
        if place not in told:
            told.add(place)
            yield _lost(wiring, update)
    for superstep in together:
        for finding in _reads_beside_writes(wiring, superstep):
            place = (finding.channel or "", frozenset(finding.nodes))
            if place not in told and place not in explained:
                told.add(place)
                yield finding


def _writes_at_once(wiring: Wiring, superstep: Superstep) -> Iterator[Finding]:
    for one, other in sorted(set(itertools.combinations(superstep, 2))):
        for channel in sorted(wiring.nodes[one].writes & wiring.nodes[other].writes):
            contract = wiring.channels[channel]
            if not contract.is_plain:
                continue
            who = f"{one} may run several times and writes" if one == other else f"{one} and {other} both write"
            kind, so = (
                (Kind.FAIL_STOP, "a plain channel takes one write a superstep, and the run ends after both have acted")
                if contract.rule is Rule.ONE
                else (Kind.LOST_UPDATE, "the last write wins, and the other is lost")
            )
            reads = any(channel in wiring.nodes[node].reads for node in (one, other)) and one != other
            inner = [node for node in (one, other) if node in wiring.inside]
            back = f"; {inner[0]} hands back its whole output schema, {channel!r} with it" if inner else ""
            left = "; a reducer keeps both writes, and what they read of it stays stale" if reads else ""
            why = f"{who} {channel!r} in one superstep: {so}; give it a reducer ({contract.suggestion}){back}{left}"
            yield Finding(kind, channel, (one, other), superstep, contract.suggestion, why)


def _lost(wiring: Wiring, update: LostUpdate) -> Finding:
    suggestion = wiring.channels[update.channel].suggestion
    why = (
        f"{update.reader} reads {update.channel!r}, {update.first} writes it, and then {update.second}, which goes by"
        f" what {update.reader} read, writes over it: what {update.first} wrote is lost; give it a reducer"
        f" ({suggestion}) and return what is to be added, or let {update.second} wait for {update.first} (an edge)"
        " and read it again"
    )
    return Finding(Kind.LOST_UPDATE, update.channel, (update.first, update.second), update.superstep, suggestion, why)


def _reads_beside_writes(wiring: Wiring, superstep: Superstep) -> Iterator[Finding]:
    for reader, writer in sorted(set(itertools.permutations(superstep, 2))):
        # A node that is sent to is one agent, however often: each goes by the payload it was sent.
        if reader == writer:
            continue
        for channel in sorted(wiring.nodes[reader].reads & wiring.nodes[writer].writes):
            if _is_guarded(wiring, reader):
                continue
            kept = "" if wiring.channels[channel].is_plain else ": a reducer keeps what is written, and tells no reader"
            why = (
                f"{reader} reads {channel!r} while {writer} writes it, and goes by the old value{kept}; add an edge"
                f" from {writer} to {reader}, or take {channel!r} out of {reader}'s input schema if it does not need"
                " it, or write what is made of it through latest_by_version, which refuses what comes of an old value"
            )
            yield Finding(Kind.STALE_READ, channel, (reader, writer), superstep, "latest_by_version", why)


def _is_guarded(wiring: Wiring, reader: str) -> bool:
    """Say whether all that a reader writes is refused when it was made of an old value."""
    writes = wiring.nodes[reader].writes
    return bool(writes) and all(wiring.channels[channel].rule is Rule.VERSIONED for channel in writes)


def _prefixed(prefix: str, nodes: Superstep) -> Superstep:
    return tuple(prefix + node for node in nodes)


def _within(prefix: str, finding: Finding) -> Finding:
    from dataclasses import replace

    if not prefix:
        return finding
    return replace(finding, nodes=_prefixed(prefix, finding.nodes), superstep=_prefixed(prefix, finding.superstep))


__all__ = ["LIMIT", "analyze"]
