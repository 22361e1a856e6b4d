"""A work tree for one branch of a speculation: any program may change it, nothing else sees that."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Self

from settlemark_adapters.git._faults import GitFault
from settlemark_adapters.git._work import ROOT, Work, message, named, quoted, trailers


class WorkTree:
    """A checkout of the branch in a folder of its own, on a hidden ref of its own; removed at the end.

    Enter it with `with`: it is the folder's path. Changes that were not committed with `commit_worktree` are then kept
    as failed work. Ignored files are not kept.

    Raises (when entered): GitFault: another process has one of this name open, or there is nothing to check out yet.
    """

    def __init__(self, work: Work, name: str) -> None:
        self.name = name
        place = f"{quoted(work.branch)}/{quoted(name)}"
        self.folder: Path = work.repository.folder / "settlemark" / place
        self._work = work
        self._repository = work.repository
        self._ref = f"{ROOT}/trees/{place}"
        self._base_ref = f"{ROOT}/bases/{place}"
        self._lock: IO[bytes] | None = None

    # ---- coming and going

    def __enter__(self) -> Path:
        self._take()
        try:
            self._clear()  # left by a process that ended within it
            head = self._work.head()
            if head is None:
                raise GitFault(f"{self._work.branch} has no commit yet: there is nothing to check out")
            self._repository.change_refs(f"update {self._base_ref} {head}", f"update {self._ref} {head}")
            self._repository.worktrees("add", "--quiet", "--detach", str(self.folder), head, files=True)
            self._repository.git("symbolic-ref", "HEAD", self._ref, at=self.folder)
        except BaseException:
            self._let_go()
            raise
        return self.folder

    def __exit__(self, *_: object) -> None:
        try:
            self._clear()
        finally:
            self._let_go()

    def opened(self) -> Self:
        """Return it if it is open, in this process or another.

        Raises:
            GitFault: it is not.
        """
        if not self.folder.is_dir() or self._repository.ref(self._ref) is None:
            raise GitFault(
                f"there is no work tree {self.name!r} open: enter it first, with git.worktree({self.name!r})"
            )
        return self

    def clear_if_left(self) -> bool:
        """Clear up what an ended process has left of it, and return whether there was anything."""
        if sys.platform == "win32":
            return False  # unknown
        try:
            self._take()
        except GitFault:
            return False  # it is open somewhere
        try:
            self._clear()
        finally:
            self._let_go()
        return True

    def _take(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = Path(f"{self.folder}.lock").open("wb")  # noqa: SIM115 - held as long as it is open
        if not _is_ours(lock):
            lock.close()
            raise GitFault(f"the work tree {self.name!r} is open elsewhere: choose another name")
        self._lock = lock

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.close()  # the file stays: else a waiter would lock one that nobody else finds
            self._lock = None

    def _clear(self) -> None:
        """Keep what was not committed, and remove the rest."""
        base, head = self._repository.ref(self._base_ref), self._repository.ref(self._ref)
        if self.folder.is_dir():
            if head is not None and base is not None and (self.folder / ".git").exists():
                self._keep(head, base)
            self._repository.worktrees("remove", "--force", "--force", str(self.folder), ends=(0, 128), files=True)
        self._repository.worktrees("prune")
        refs = ((self._ref, head), (self._base_ref, base))
        gone = [f"delete {ref}" for ref, at in refs if at is not None]
        if gone:
            self._repository.change_refs(*gone)

    def _keep(self, head: str, base: str) -> None:
        tree = self.tree()
        if tree in (self._repository.tree_of(base), self._repository.tree_of(head)) and self._is_ours(head, base):
            return
        last = trailers(transaction=named(self.name), base=base)
        left = self._repository.commit(tree, [head], message(f"What was left in the work tree {self.name}", last))
        self._repository.change_refs(f"update {self._work.at('failed', f'{self.name}@{left[:8]}')} {left}")

    def _is_ours(self, head: str, base: str) -> bool:
        return head == base or bool(self._work.log(head, "-n1")[0].transaction)

    # ---- contents

    def tree(self) -> str:
        """Return its files as a tree, without ignored ones."""
        self._repository.git("add", "--all", at=self.folder)
        return self._repository.git("write-tree", at=self.folder).decode().strip()

    def base(self) -> str:
        """Return the commit that it began with."""
        found = self._repository.ref(self._base_ref)
        assert found is not None
        return found

    def changes(self) -> list[str]:
        """Return the paths that differ from what it began with."""
        changed = self._repository.difference(self._repository.tree_of(self.base()), self.tree())
        self._repository.refuse_filtered([path for path, (_, now) in changed.items() if now], at=self.folder, index={})
        return sorted(changed)

    def commit(self, name: str, key: str, text: str, cost: str | None) -> str:
        """Make a commit of its content for a decision of a transaction, and return it; again it is the same.

        Raises:
            GitFault: there is nothing to commit.
        """
        base, head, tree = self.base(), self._repository.ref(self._ref), self.tree()
        steps = self._work.log(head or base, "--first-parent", f"^{base}")
        if steps and named(key) in steps[0].decisions:
            return steps[0].commit
        # Not on top of another transaction's, or an earlier try's, commit: that must not land with this.
        parent = next((step.commit for step in steps if step.transaction in ("", named(name))), base)
        if tree == self._repository.tree_of(parent):
            raise GitFault(f"nothing has changed in the work tree {self.name!r}: there is nothing to commit")
        last = trailers(decision=named(key), transaction=named(name), base=base, cost=cost)
        made = self._repository.commit(tree, [parent], message(text, last))
        self._repository.move(self._ref, made, head, why=f"settlemark: {named(key)}")
        return made

    def __fspath__(self) -> str:
        return os.fspath(self.folder)

    def __repr__(self) -> str:
        return f"<WorkTree {self.name}>"


def _is_ours(lock: IO[bytes]) -> bool:
    """Take a lock that its process loses when it ends, unless another has it."""
    if sys.platform == "win32":
        return True  # another process cannot remove an open folder there
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


__all__ = ["WorkTree"]
