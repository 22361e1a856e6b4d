"""Landing: a chain of hidden commits becomes part of the branch, all of it at once, or none of it.

One compare-and-swap moves the branch: fast-forward, or to a merge of both sides. Where the branch is checked out, that
work tree follows, and keeps its user's uncommitted changes; if it cannot, nothing is moved.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from settlemark_adapters.git._faults import ChangedOutside, Conflict, GitFault, WorkTreeInTheWay
from settlemark_adapters.git._paths import above
from settlemark_adapters.git._work import Step, Work, message, named, trailers

_log = logging.getLogger("settlemark")
_TRIES = 50


class Landing:
    """Moves the branch of a `Work`, and the work trees in which it is checked out."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._repository = work.repository

    def landed(self, name: str) -> dict[str, Any] | None:
        """Return the commit that the landing of a transaction's chain has led to, or None: it has not landed."""
        tip, head = self._work.tip(name), self._work.head()
        if tip is not None:
            if head is None or not self._repository.is_ancestor(tip, head):
                return None
            self._conclude(name, tip)
        else:
            tip = self._repository.ref(self._work.at("landed", name))
        return None if tip is None else self._told(tip)

    def land(self, name: str) -> dict[str, Any]:
        """Move the branch onto a transaction's chain, and return its last commit; a second call does nothing.

        Raises:
            Conflict: others have changed the same lines on the branch; nothing was moved.
            WorkTreeInTheWay: it is checked out, and its user's changes would be lost; nothing was moved.
        """
        for _ in range(_TRIES):
            done = self.landed(name)
            tip = self._work.tip(name)
            if done is not None:
                return done
            if tip is None:
                return self._told(None)
            head = self._work.head()
            if self._move(name, self._next(name, tip, head), head, why=f"land {named(name)}"):
                self._conclude(name, tip)
                return self._told(tip)
        raise GitFault(f"{self._work.branch} was moved by other writers {_TRIES} times: try again later")

    def _next(self, name: str, tip: str, head: str | None) -> str:
        if head is None or self._repository.is_ancestor(head, tip):
            return tip
        tree, conflicts = self._repository.merged(head, tip)
        if tree is None:
            raise Conflict(
                f"{name} cannot land on {self._work.branch}: others have changed the same lines of"
                f" {', '.join(conflicts)} there; nothing was moved; read them again, and write anew",
                branch=self._work.branch,
                paths=conflicts,
            )
        text = message(f"Merge {name} into {self._work.branch}", trailers(transaction=named(name)))
        return self._repository.commit(tree, [head, tip], text)

    def revert(self, name: str, key: str) -> None:
        """Revert a landed decision on the branch, by a commit, if nobody built upon it.

        Raises:
            ChangedOutside: another writer has changed its files since; nothing was moved.
        """
        step = self._work.found(name, key, "landed")
        if step is not None:
            self._revert(name, step, named(key))

    def has_landed(self, name: str) -> bool:
        """Whether a transaction has decisions on the branch, or had."""
        return any(step.decisions for step in self._landed(name))

    def take_back(self, name: str) -> None:
        """Revert everything a transaction has landed on the branch, newest first; again does nothing.

        Raises:
            ChangedOutside: another writer has changed its files since; what is newer than that is reverted.
        """
        for step in self._landed(name):
            for decision in step.decisions:
                self._revert(name, step, decision)

    def _landed(self, name: str) -> Sequence[Step]:
        return self._work.chain(self._repository.ref(self._work.at("landed", name)))

    def _revert(self, name: str, step: Step, decision: str) -> None:
        parent = step.parents[0] if step.parents else None
        trees = self._repository.tree_of(parent), self._repository.tree_of(step.commit)
        changed = self._repository.difference(*trees)
        for _ in range(_TRIES):
            head = self._work.head()
            tree = self._repository.tree_of(head)
            now = {path: self._repository.entry(tree, path) for path in changed}
            if all(now[path] == before for path, (before, _) in changed.items()):
                return
            others = [path for path, (_, after) in changed.items() if now[path] != after]
            if others:
                raise ChangedOutside(
                    f"{', '.join(others)} was changed on {self._work.branch} since: it stays as it is; mend it by hand",
                    paths=others,
                )
            undone = self._repository.changed(tree, {path: before for path, (before, _) in changed.items()})
            text = message(f"Undo: {step.subject}", trailers(undoes=decision, transaction=named(name)))
            new = self._repository.commit(undone, [] if head is None else [head], text)
            if self._move(name, new, head, why=f"undo {decision}"):
                return
        raise GitFault(f"{self._work.branch} was moved by other writers {_TRIES} times: try again later")

    # ---- the branch, and its work trees

    def _move(self, name: str, new: str, old: str | None, *, why: str) -> bool:
        trees = self._checked_out()
        for tree in trees:
            self._check(tree, old, new)
        landing = self._work.at("landing", name)
        if trees and old is not None:
            self._repository.change_refs(f"update {landing} {old}")  # the other moved branch's refs stay
        if not self._repository.move(self._work.landing_ref, new, old, why=f"settlemark: {why}"):
            return False
        if trees and self._all_follow(old, new):
            self._repository.change_refs(f"delete {landing}")
        return True

    def _conclude(self, name: str, tip: str) -> None:
        """Finish a move of the branch, by this process or by one that ended there."""
        landing, head = self._repository.ref(self._work.at("landing", name)), self._work.head()
        if landing is not None and self._all_follow(landing, head):
            self._repository.change_refs(f"delete {self._work.at('landing', name)}")
        self._repository.change_refs(
            f"update {self._work.at('landed', name)} {tip}", f"delete {self._work.at('work', name)}"
        )

    def _told(self, tip: str | None) -> dict[str, Any]:
        return {"branch": self._work.branch, "commit": tip}

    def _checked_out(self) -> Sequence[Path]:
        told = self._repository.worktrees("list", "--porcelain", "-z").decode(errors="surrogateescape")
        found: list[Path] = []
        for each in told.split("\0\0"):
            lines = each.split("\0")
            if f"branch {self._work.landing_ref}" in lines:
                found.append(Path(lines[0].removeprefix("worktree ")))
        return [path for path in found if path.is_dir()]

    def _check(self, tree: Path, old: str | None, new: str) -> None:
        self._repository.git("update-index", "-q", "--refresh", at=tree, ends=(0, 1))
        why = ""
        try:
            self._read(tree, old, new, "-n")
        except GitFault as fault:
            why = fault.said
        lost = self._untracked(tree, old, new)
        if why or lost:
            raise WorkTreeInTheWay(
                f"{self._work.branch} is checked out in {tree}, which has changes of its own that would be lost"
                f" ({why or ', '.join(lost)}): nothing was moved; commit, stash or move them there, or let"
                f" {self._work.branch} be checked out nowhere",
                work_tree=str(tree),
            )

    def _untracked(self, tree: Path, old: str | None, new: str) -> list[str]:
        """Return untracked files that new files would overwrite: git itself treats ignored ones as worthless."""
        trees = self._repository.tree_of(old), self._repository.tree_of(new)
        added = [path for path, (before, _) in self._repository.difference(*trees).items() if before is None]
        standing = {
            place
            for path in added
            for place in (path, *above(path))
            if os.path.lexists(tree / place) and (place == path or not (tree / place).is_dir())
        }
        if not standing:
            return []
        told = self._repository.git("ls-files", "-z", "--", *sorted(standing), at=tree)
        known = {place for path in told.decode(errors="surrogateescape").split("\0") for place in (path, *above(path))}
        return sorted(standing - known)

    def _all_follow(self, old: str | None, new: str | None) -> bool:
        return all([self._follow(tree, old, new) for tree in self._checked_out()])  # noqa: C419 - each of them must be called

    def _follow(self, tree: Path, old: str | None, new: str | None) -> bool:
        try:
            self._repository.git("update-index", "-q", "--refresh", at=tree, ends=(0, 1))
            self._read(tree, old, new)
        except GitFault as fault:
            _log.warning("%s has moved, and its work tree %s has not: %s", self._work.branch, tree, fault)
            return False
        return True

    def _read(self, tree: Path, old: str | None, new: str | None, *options: str) -> None:
        trees = self._repository.tree_of(old), self._repository.tree_of(new)
        self._repository.git("read-tree", *options, "-m", "-u", *trees, at=tree)


__all__ = ["Landing"]
