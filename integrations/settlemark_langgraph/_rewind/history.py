"""Which of a thread's transactions came after one of its checkpoints.

A superstep's transactions carry the id of the checkpoint that it began from, so those of a checkpoint and of all that
descend from it came after. A subgraph's checkpoint belongs where its parent's superstep does. Not every checkpoint is
stored (`durability="exit"` keeps a run's last): one that is missing lies, by the time in its id, between a stored
checkpoint and its parent, or after an end of the thread; where those do not agree, nobody can tell.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from settlemark import UsageError
from settlemark.hosting import MARK, chosen_in
from settlemark.ledger import RecordedTransaction
from settlemark_langgraph._identity import ROOT, superstep_name

_RUN = "/run"


class Place(Enum):
    """Where a transaction is, seen from a checkpoint: after it, before it or beside it, or nobody knows."""

    AFTER = auto()
    BEFORE = auto()
    UNKNOWN = auto()
    FOREIGN = auto()  # no superstep of the graph has begun it


@dataclass(frozen=True, slots=True)
class History:
    """The checkpoints of a thread, seen from one of them.

    Attributes:
        thread: its id.
        target: the checkpoint's.
        step: the target's number.
        parents: of each stored checkpoint of the whole graph: its parent, or None.
        gone: the target's descendants, the newest first.
        supersteps: by the name that a superstep's transactions begin with: the checkpoint of the whole graph that it
            belongs to.
    """

    thread: str
    target: str
    step: int
    parents: dict[str, str | None]
    gone: tuple[str, ...]
    supersteps: dict[str, str]

    @classmethod
    def of(cls, thread: str, stored: Sequence[CheckpointTuple], target: str) -> History:
        """Return it as the stored checkpoints tell it.

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

    @property
    def ends(self) -> list[str]:
        """The checkpoints that are gone back over and have no child: from there somebody may resume."""
        with_children = set(self.parents.values())
        return [checkpoint for checkpoint in (*self.gone, self.target) if checkpoint not in with_children]

    def config(self, checkpoint: str) -> RunnableConfig:
        """Return what names a checkpoint of the whole graph."""
        return {"configurable": {"thread_id": self.thread, "checkpoint_ns": "", "checkpoint_id": checkpoint}}

    def place(self, name: str) -> Place:
        """Return where the transaction of this name is."""
        checkpoint = self._root_of(name) or self._checkpoint_in(name)
        if checkpoint is None:
            return Place.FOREIGN
        if checkpoint in self.parents:
            return self._seen(checkpoint)
        found = {self._seen(parent) for parent in self._around(checkpoint)}
        if len(found) == 1:
            return found.pop()
        return Place.UNKNOWN if checkpoint > self.target else Place.BEFORE

    def refuse_a_run_that_spans_it(self, name: str, recorded: Sequence[RecordedTransaction]) -> None:
        """Return when a transaction that began before the checkpoint has done nothing after it.

        Raises:
            UsageError: it settles a run, or a candidate's branch, as one, and the checkpoint is in the midst of that.
        """
        began = self._root_of(name)
        choice, _, candidate = name.partition(MARK)
        if not (name.endswith(_RUN) or candidate) or began is None or began not in self._ancestors():
            return
        steps = [effect.row.decision[0] for one in recorded if one.row.name == name for effect in one.effects]
        chosen = [one.row.name for one in recorded if (chosen_in(one) or ("", ""))[1] == choice]
        if any(step > self.step for step in steps) or any(self.place(made) is Place.AFTER for made in chosen):
            how = "a candidate" if candidate else 'settle="run"'
            raise UsageError(
                f"the checkpoint {self.target} is in the midst of {name}, which settles as one ({how}): nothing was"
                f" undone; go back to {began}, from which it began, or to one before that"
            )

    def _seen(self, root: str) -> Place:
        return Place.AFTER if root == self.target or root in self.gone else Place.BEFORE

    def _root_of(self, name: str) -> str | None:
        return next((self.supersteps[start] for start in _starts(name) if start in self.supersteps), None)

    def _ancestors(self) -> Iterator[str]:
        checkpoint = self.parents[self.target]
        while checkpoint is not None:
            yield checkpoint
            checkpoint = self.parents.get(checkpoint)

    def _around(self, checkpoint: str) -> Iterator[str]:
        """Yield the stored checkpoints from which one that is not stored may have come: their ids sort by time."""
        with_children = set(self.parents.values())
        for child, parent in self.parents.items():
            if parent is not None and parent < checkpoint < child:
                yield parent
            if child < checkpoint and child not in with_children:
                yield child

    def _checkpoint_in(self, name: str) -> str | None:
        """Return the id of the checkpoint in a transaction's name, or None: no graph gave it."""
        rest = name.removeprefix(f"{self.thread}/").partition("!")[0]
        whole = rest.removesuffix(_RUN)
        parts = whole.split(":")
        if rest == name or len(parts) < 2:  # noqa: PLR2004 - a namespace and an id
            return None
        found = parts[1] if parts[0] == ROOT else parts[-2 if whole == rest else -1]
        return found if _is_id(found) else None


def _starts(name: str) -> Iterator[str]:
    """Yield a name and what it begins with, the longest first."""
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
