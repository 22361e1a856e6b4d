"""The names of candidates, of choices and of their records, and which of them a run descends from.

The name of a choice contains the checkpoint that its first candidate began from; the name of a record the checkpoint
that the choosing node began from. So a resume finds them by name, and a fork does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from settlemark import UsageError
from settlemark.hosting import MARK, Program
from settlemark_langgraph._identity import ROOT, Identity, superstep_name
from settlemark_langgraph._supersteps.superstep import Superstep

Candidate = str | Callable[[Any], str]
"""The name of a candidate, or a function of the node's state that returns it."""

Lineage = list[tuple[str, bool]]
"""The ancestors of a run's checkpoint, newest first, each with whether a superstep wrote it."""

GROUP = "choice"
"""The group of candidates whose names have no slash."""

NEEDS_A_GRAPH = (
    "a candidate needs a graph of LangGraph that runs its nodes, of a release that tells when a run ends: leave out"
    " candidate="
)


def group_of(label: str) -> str:
    """Return the group of a candidate: its name up to the last slash.

    >>> group_of("train"), group_of("transport/train")
    ('choice', 'transport')
    """
    return label.rpartition("/")[0] or GROUP


def label_of(candidate: Candidate, state: object) -> str:
    """Return the name of a node's candidate, for the node's state.

    Raises:
        UsageError: the function returned no name of a candidate.
    """
    return candidate if isinstance(candidate, str) else checked_label(candidate(state))


def checked_label(label: object) -> str:
    """Return a candidate's name.

    Raises:
        UsageError: `label` is no name.
    """
    if not isinstance(label, str) or not label.strip() or MARK in label:
        raise UsageError(f"candidate={label!r}: give a name, as in candidate='train', without {MARK}")
    return label


def choice_name(group: str, identity: Identity, root: Superstep) -> str:
    """Return the name of a choice whose first candidate begins in this superstep."""
    return f"{superstep_name(identity.run, ROOT, root.checkpoint)}:{group}@{root.step}"


def record_name(identity: Identity, superstep: Superstep | None, group: str) -> str:
    """Return the name of the record of what a node chooses."""
    if identity.name is None:
        raise UsageError("choose() is for a node of a graph: it was called outside of one; nothing moved")
    if superstep is None:
        raise UsageError(NEEDS_A_GRAPH)
    root = superstep_name(identity.run, ROOT, superstep.enclosing()[0].checkpoint)
    return f"{root}:{identity.name.rpartition(':')[2]}/{group}"


def checkpoint_in(record: str, run: str) -> str | None:
    """Return the checkpoint that a choosing node began from, by the name of its record."""
    found = re.fullmatch(rf"{re.escape(run)}/{ROOT}:([^:]+):.*", record)
    return None if found is None else found[1]


def parsed(name: str, run: str, group: str) -> tuple[str, int, str] | None:
    """Return the checkpoint, the step and the name of the choice that a transaction's name contains, or None."""
    choice = name.partition(MARK)[0]
    pattern = rf"{re.escape(run)}/{ROOT}:([^:]+):{re.escape(group)}@(\d+)"
    found = re.fullmatch(pattern, choice)
    return None if found is None else (found[1], int(found[2]), choice)


def was_forked_at(lineage: Lineage, checkpoint: str) -> bool:
    """Whether a run descends from this checkpoint by a fork or an edit, not by the superstep behind it."""
    behind = {before: by_superstep for (_, by_superstep), (before, _) in pairwise(lineage)}
    return not behind.get(checkpoint, True)


def descends_from(root: Superstep, lineage: Lineage, checkpoint: str) -> Program[bool]:
    """Return whether a run descends from this checkpoint; ids sort by time, which places one that was never stored."""
    if checkpoint == root.checkpoint or any(checkpoint == each for each, _ in lineage):
        return True
    if not lineage[-1][0] < checkpoint < root.checkpoint:
        return False
    return not (yield from root.has_stored(checkpoint))


__all__ = [
    "GROUP",
    "NEEDS_A_GRAPH",
    "Candidate",
    "Lineage",
    "checked_label",
    "checkpoint_in",
    "choice_name",
    "descends_from",
    "group_of",
    "label_of",
    "parsed",
    "record_name",
    "was_forked_at",
]
