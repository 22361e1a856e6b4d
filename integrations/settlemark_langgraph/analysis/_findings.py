"""What `analyze` tells: the findings, the supersteps they come from, and what had to be assumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from settlemark_langgraph.analysis._supersteps_reached import Superstep


class Kind(StrEnum):
    """What can go wrong."""

    FAIL_STOP = "fail-stop"
    """Two nodes write a plain channel in one superstep: the run ends, after both have acted."""
    LOST_UPDATE = "lost-update"
    """A node overwrites what another wrote after the value it goes by was read: nothing is raised."""
    STALE_READ = "stale-read"
    """A node goes by a channel's old value while another writes it in the same superstep: nothing is raised."""
    UNDECLARED_TOOL = "undeclared-tool"
    """Nobody said what a tool does to the world."""


@dataclass(frozen=True)
class Finding:
    """One thing that can go wrong.

    Attributes:
        kind: what it is.
        channel: the channel it is about; None for a tool.
        nodes: the two nodes; the same name twice is a node that is sent to several times. Of a tool, its node.
        superstep: the nodes that run together when it happens.
        suggestion: what to use: a name in `settlemark_langgraph.channels`, or for a tool `SequencedToolNode`,
            `settlement.declare`.
        why: how it comes about, and what to do.
        tool: the tool's name, None for a channel.
    """

    kind: Kind
    channel: str | None
    nodes: tuple[str, ...]
    superstep: Superstep
    suggestion: str
    why: str
    tool: str | None = None


@dataclass(frozen=True)
class Report:
    """What was found in a graph.

    Attributes:
        findings: what can go wrong; empty when nothing can.
        supersteps: the sets of nodes that can run together. A node that may run several times in one stands there
            twice; a subgraph's nodes are named `subgraph:node`.
        complete: all supersteps were enumerated. If not, nodes count as running together unless it is known better.
        notes: what was assumed where the graph could not be read.
    """

    findings: tuple[Finding, ...]
    supersteps: tuple[Superstep, ...]
    complete: bool
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return everything as what JSON can hold.

        >>> Report((), (("a", "b"),), complete=True).to_json()["supersteps"]
        [['a', 'b']]
        """
        return {
            "clean": self.clean,
            "complete": self.complete,
            "findings": [
                {**asdict(finding), "nodes": list(finding.nodes), "superstep": list(finding.superstep)}
                for finding in self.findings
            ],
            "supersteps": [list(superstep) for superstep in self.supersteps],
            "notes": list(self.notes),
        }


__all__ = ["Finding", "Kind", "Report"]
