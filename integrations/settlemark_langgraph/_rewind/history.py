"""Which of a thread's transactions began after one of its checkpoints.

The name of a superstep's transaction contains the checkpoint that the superstep began from. So the transactions after a
checkpoint are those named for this checkpoint, or for a descendant of it. A subgraph's checkpoint counts as that of its
parent's superstep. Not every checkpoint is stored (`durability="exit"` stores the last of a run): the time in its id
places a missing one between a stored checkpoint and its parent, or after an end of the thread. Where several places are
possible and differ, the place is unknown.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from settlemark import UsageError
from settlemark.hosting import MARK, decisions_on
from settlemark.ledger import RecordedTransaction
from settlemark_langgraph._identity import ROOT, WHOLE_RUN, superstep_name


class Place(Enum):
    """The place of a transaction relative to a checkpoint; "before" includes other branches of the thread."""

    AFTER = auto()
    BEFORE = auto()
    UNKNOWN = auto()
    FOREIGN = auto()  # not begun by a superstep of the graph


@dataclass(frozen=True, slots=True)
class History:
    """The checkpoints of a thread, relative to one of them: the target.

    Attributes:
        thread: the thread's id.
        target: the target's id.
        step: the target's step.
        parents: the parent, or None, of each stored checkpoint of the outermost graph.
        gone: the target's descendants, newest first.
        supersteps: the checkpoint of the outermost graph that a superstep belongs to, by the first part of the names of
            the superstep's transactions.
    """

    thread: str
    target: str
    step: int
    parents: dict[str, str | None]
    gone: tuple[str, ...]
    supersteps: dict[str, str]

    @classmethod
    def of(cls, thread: str, stored: Sequence[CheckpointTuple], target: str) -> History:
        """Return the history that these checkpoints make.

        Raises:
            UsageError: the target is not among them.
        """
        parents: dict[str, str | None] = {}
        supersteps: dict[str, str] = {}
        step = 0
        for found in stored:
            configurable = found.config.get("configurable", {})
            namespace, checkpoint = str(configurable.get("checkpoint_ns", "")), str(configurable["checkpoint_id"])
            root = checkpoint if not namespace else found.metadata.get("parents", {}).get("")
            if root is not None:
                supersteps[superstep_name(thread, namespace, checkpoint)] = root
            if namespace:
                continue
            before = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
            parents[checkpoint] = before
            if checkpoint == target:
                step = found.metadata.get("step", 0)
        if target not in parents:
            raise UsageError(
                f"the thread {thread} has no checkpoint {target}: nothing was undone; pass the config of one of"
                " graph.get_state_history({'configurable': {'thread_id': …}})"
            )
        return cls(thread, target, step, parents, tuple(sorted(_below(parents, target), reverse=True)), supersteps)

    @classmethod
    def root_of(cls, thread: str, stored: Sequence[CheckpointTuple], name: str) -> str | None:
        """Return the stored checkpoint of the outermost graph from which a transaction's superstep began, or None."""
        newest = next((each for each in stored if not each.config.get("configurable", {}).get("checkpoint_ns")), None)
        if newest is None:
            return None
        history = cls.of(thread, stored, str(newest.config.get("configurable", {})["checkpoint_id"]))
        return history.root(name)

    @property
    def ends(self) -> list[str]:
        """The target or descendants of it without a child: a run may resume from there."""
        with_children = set(self.parents.values())
        return [checkpoint for checkpoint in (*self.gone, self.target) if checkpoint not in with_children]

    def config(self, checkpoint: str) -> RunnableConfig:
        """Return the config of a checkpoint of the outermost graph."""
        return {"configurable": {"thread_id": self.thread, "checkpoint_ns": "", "checkpoint_id": checkpoint}}

    def root(self, name: str) -> str | None:
        """Return the stored checkpoint of the outermost graph that the transaction of this name began from, or None."""
        found = self._root_of(name) or self._checkpoint_in(name)
        return found if found in self.parents else None

    def place(self, name: str) -> Place:
        """Return the place of the transaction of this name."""
        checkpoint = self._root_of(name) or self._checkpoint_in(name)
        if checkpoint is None:
            return Place.FOREIGN
        if checkpoint in self.parents:
            return self._relative(checkpoint)
        found = {self._relative(parent) for parent in self._around(checkpoint)}
        if len(found) == 1:
            return found.pop()
        return Place.UNKNOWN if checkpoint > self.target else Place.BEFORE

    def refuse_a_run_that_spans_it(self, name: str, recorded: Sequence[RecordedTransaction]) -> None:
        """Return if a transaction that began before the target had no effect after the target.

        Raises:
            UsageError: the transaction settles a run, or a candidate, as one, and has effects on both sides.
        """
        began = self._root_of(name)
        choice, _, candidate = name.partition(MARK)
        if not (name.endswith(WHOLE_RUN) or candidate) or began is None or began not in self._ancestors():
            return
        steps = [effect.row.decision[0] for one in recorded if one.row.name == name for effect in one.effects]
        chosen = [one.row.name for one in decisions_on(choice, recorded)]
        if any(step > self.step for step in steps) or any(self.place(made) is Place.AFTER for made in chosen):
            how = "a candidate" if candidate else 'settle="run"'
            raise UsageError(
                f"the checkpoint {self.target} is in the midst of {name}, which settles as one ({how}): nothing was"
                f" undone; go back to {began}, from which it began, or to one before that"
            )

    def _relative(self, root: str) -> Place:
        return Place.AFTER if root == self.target or root in self.gone else Place.BEFORE

    def _root_of(self, name: str) -> str | None:
        return next((self.supersteps[prefix] for prefix in _prefixes(name) if prefix in self.supersteps), None)

    def _ancestors(self) -> Iterator[str]:
        checkpoint = self.parents[self.target]
        while checkpoint is not None:
            yield checkpoint
            checkpoint = self.parents.get(checkpoint)

    def _around(self, checkpoint: str) -> Iterator[str]:
        """Yield the possible parents of a checkpoint that is not stored: ids sort by time."""
        with_children = set(self.parents.values())
        for child, parent in self.parents.items():
            if parent is not None and parent < checkpoint < child:
                yield parent
            if child < checkpoint and child not in with_children:
                yield child

    def _checkpoint_in(self, name: str) -> str | None:
        """Return the checkpoint in a transaction's name; None if no graph named the transaction."""
        rest = name.removeprefix(f"{self.thread}/").partition("!")[0]
        whole = rest.removesuffix(WHOLE_RUN)
        parts = whole.split(":")
        if rest == name or len(parts) < 2:  # noqa: PLR2004 - a namespace and an id
            return None
        found = parts[1] if parts[0] == ROOT else parts[-2 if whole == rest else -1]
        return found if _is_id(found) else None


def _prefixes(name: str) -> Iterator[str]:
    """Yield a name and its prefixes up to a separator, longest first."""
    while name:
        yield name
        name = name[: max(name.rfind(mark) for mark in ":/!")] if any(mark in name for mark in ":/!") else ""


def _below(parents: dict[str, str | None], target: str) -> set[str]:
    children: dict[str | None, list[str]] = {}
    for checkpoint, parent in parents.items():
        children.setdefault(parent, []).append(checkpoint)
    found: set[str] = set()
    todo = [target]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


__all__ = ["History", "Place"]
