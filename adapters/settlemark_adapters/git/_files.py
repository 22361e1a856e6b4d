"""The tools on a repository's files: they read what their transaction sees, and write commits that land with it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from settlemark import Settlement, current_call
from settlemark.hosting import EffectName, Staged, bear, declare, escape, host_of
from settlemark_adapters._adapter import Adapter, operation
from settlemark_adapters._fence import FileFence, Leased
from settlemark_adapters._keyed import running
from settlemark_adapters.git._faults import GitFault
from settlemark_adapters.git._inside import Acting, acting, enlist
from settlemark_adapters.git._landing import Landing
from settlemark_adapters.git._paths import check_text, inside, under
from settlemark_adapters.git._repository import REGULAR, Entry
from settlemark_adapters.git._work import Step, Work
from settlemark_adapters.git._worktree import WorkTree

_MOST = 200_000

Cost = Callable[[], Mapping[str, Any] | None]


class Files(Adapter):
    """Tools that read and write the files of one branch; see `Git`.

    Args:
        work: the chains that land on the branch.
        settlement, name, effects: as for every adapter.
        cost, lease: as for `Git`.
    """

    def __init__(
        self,
        work: Work,
        settlement: Settlement | None,
        *,
        cost: Cost | None,
        name: str,
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None,
        lease: Leased,
    ) -> None:
        self._work = work
        self._repository = work.repository
        self._landing = Landing(work)
        self._cost = cost
        self._place = "/".join(map(escape, (*self._repository.folder.parts[1:], work.branch)))
        self._fence = FileFence(self._repository.folder / "settlemark-fence.json", lease, f"git:/{self._place}")
        super().__init__(settlement, name=name, effects=effects)
        self._land = self._declared_landing()

    def _declared_landing(self) -> Callable[..., Any]:
        """Return the effect that each write adds to its transaction: the landing, at the commit; no tool for models."""

        def land(paths: list[str]) -> dict[str, Any]:
            _ = paths
            with self._fence.passed():
                return self._landing.land(acting(self.key).name)

        land.__name__ = land.__qualname__ = f"{self._prefix}land_in_repo"
        declaration = declare(land.__name__, "staged", scope=self._landings, probe=self._has_landed, function=land)
        bear(land, declaration)
        if self.settlement is not None:
            host_of(self.settlement).tools.learn(declaration)
        return land

    # ---- scopes and checks

    def _at(self, path: str) -> list[str]:
        return [f"git:/{self._place}/{_segments(inside(path))}"]

    def _read_at(self, path: str) -> list[str]:
        return [*self._at(path), *self._landings([path])]

    def _read_under(self, path: str = "") -> list[str]:
        below = f"/{_segments(under(path))}" if under(path) else ""
        return [f"{kind}:/{self._place}{below}" for kind in ("git", "git-landing")]

    def _at_all(self, files: dict[str, str | None]) -> list[str]:
        if not files:
            raise GitFault("there are no files to commit: name one at least")
        return [scope for path in files for scope in self._at(path)]

    def _landings(self, paths: list[str]) -> list[str]:
        return [f"git-landing:/{self._place}/{_segments(inside(path))}" for path in paths]

    def _in_worktree(self, worktree: str) -> str:
        return f"git-worktree:/{self._place}/{escape(worktree)}"

    def _seen(self, path: str = "") -> str | None:
        """Return a digest of what a read depends on, since others may change it without the settlement."""
        head = self._work.head()
        if not path or head is None:
            return head
        found = self._repository.entry(self._repository.tree_of(head), path)
        return None if found is None else f"{found.mode} {found.object}"

    def _ready(self) -> None:
        """Check what a write in a transaction needs: a settlement that lands it, and no foreign work in its place."""
        call = current_call()
        if call is None:
            return
        if self.settlement is None:
            raise GitFault("this adapter knows no settlement, and its work could not land: Git(repository, settlement)")
        name = acting(call.key).name
        tip = self._work.tip(name)  # before enlisting: each write enlists, and then there is a tip
        if not _paths_of(call.staged(f"git-landing:/{self._place}")):
            self._work.put_aside(name, tip)

    def _fit_write(self, path: str, content: str = "", encoding: str = "utf-8", text: str = "") -> None:
        self._fit({path: _bytes(content, encoding)}, text)

    def _fit_delete(self, path: str, text: str = "") -> None:
        self._fit({path: None}, text)

    def _fit_commit(self, files: dict[str, str | None], text: str = "") -> None:
        self._fit(_all_bytes(files), text)

    def _fit_worktree(self, text: str = "") -> None:
        self._fit({}, text)

    def _fit(self, contents: Mapping[str, bytes | None], text: str) -> None:
        """Refuse what cannot be written: a held call now rather than at its release, behind what has left."""
        check_text("text", text)
        self._ready()
        effect = running()
        if effect is not None and effect.declaration.held:
            self._edited(self._tree(), contents)

    def _found(self, key: str) -> Any:
        """Look for the decision in its transaction's commits: on the hidden ref, or landed."""
        me = acting(key)
        step = self._work.found(me.name, key, *(("landed",) if me.held else ("work", "landed")))
        return None if step is None else {"commit": step.commit}

    def _undo(self, key: str) -> None:
        """Remove the decision from its hidden ref, or revert it on the branch."""
        me = acting(key)
        with self._fence.passed():
            if not self._work.drop(me.name, key):
                self._landing.revert(me.name, key)

    def _has_landed(self, key: str) -> Any:
        return self._landing.landed(acting(key).name)

    # ---- reading

    @operation("read_repo_file", "read", scope=_read_at, live=_seen)
    def read(self, path: str) -> dict[str, Any]:
        """Read a file of the repository, as it will be with what you have written.

        Args:
            path: where it is, from the top of the repository: "src/a.py".
        """
        content = self._content(inside(path))
        if content is None:
            raise GitFault(f"there is no file {path} on {self._work.branch}", path=path)
        try:
            return {"path": path, "content": content.decode(), "encoding": "utf-8"}
        except UnicodeDecodeError:
            return {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}

    @operation("list_repo_files", "read", scope=_read_under, live=_seen)
    def files(self, path: str = "") -> list[str]:
        """List the files of the repository, as they will be with what you have written.

        Args:
            path: the folder to look in; leave it empty for all.
        """
        folder, tree = under(path), self._tree()
        told = self._repository.git(
            "ls-tree", "--full-tree", "-r", "-z", "--name-only", tree, "--", *filter(None, [folder])
        )
        return [name for name in told.decode(errors="backslashreplace").split("\0") if name]

    @operation("repo_log", "read", scope=_read_under, live=_seen)
    def log(self, path: str = "", limit: int = 20) -> list[dict[str, Any]]:
        """List the last commits, with the decision that made each and what it cost.

        Args:
            path: a file or folder to list the commits of; leave it empty for all.
            limit: how many at most.
        """
        tip, places = self._tip(), [under(path)] if under(path) else []
        if tip is None:
            return []
        steps = (
            self._work.log(tip, f"-n{max(1, int(limit))}", "--", *places)
            if places
            else self._work.log(tip, f"-n{max(1, int(limit))}")
        )
        return [_told_step(step) for step in steps]

    @operation("repo_diff", "read", scope=_read_under, live=_seen)
    def diff(self, path: str = "", since: str = "") -> str:
        """Show what you have changed, or everything since a commit.

        Args:
            path: a file or folder to look at; leave it empty for all.
            since: a commit, branch or tag; leave it empty for where the branch is now.
        """
        old = self._repository.commit_of(since) if since else self._work.head()
        places = [under(path)] if under(path) else []
        trees = [self._repository.tree_of(old), self._tree()]
        told = self._repository.git("diff", "--no-ext-diff", "--no-textconv", "--no-color", *trees, "--", *places)
        return _bounded(told.decode(errors="backslashreplace"))

    # ---- writing

    @operation("write_repo_file", "reversible", scope=_at, check=_fit_write, undo=_undo, probe=_found)
    def write(self, path: str, content: str, encoding: str = "utf-8", text: str = "") -> dict[str, Any]:
        """Write a file of the repository, as one commit.

        Args:
            path: where it is, from the top of the repository: "src/a.py".
            content: all that is to stand in it.
            encoding: "utf-8", or "base64" for what is no text.
            text: why, for the commit's message.
        """
        return self._record({path: _bytes(content, encoding)}, text or f"Write {path}")

    @operation("delete_repo_file", "reversible", scope=_at, check=_fit_delete, undo=_undo, probe=_found)
    def delete(self, path: str, text: str = "") -> dict[str, Any]:
        """Delete a file of the repository, as one commit.

        Args:
            path: where it is, from the top of the repository: "src/a.py".
            text: why, for the commit's message.
        """
        return self._record({path: None}, text or f"Delete {path}")

    @operation("commit_to_repo", "reversible", scope=_at_all, check=_fit_commit, undo=_undo, probe=_found)
    def commit(self, files: dict[str, str | None], text: str) -> dict[str, Any]:
        """Write and delete several files of the repository, as one commit.

        Args:
            files: by its path, all that is to stand in each file; null deletes it.
            text: why, for the commit's message.
        """
        return self._record(_all_bytes(files), text)

    @operation("commit_worktree", "reversible", scope=_in_worktree, check=_fit_worktree, undo=_undo, probe=_found)
    def commit_worktree(self, worktree: str, text: str) -> dict[str, Any]:
        """Commit all that stands in a work tree, so that it lands with this step.

        Args:
            worktree: the work tree's name.
            text: why, for the commit's message.
        """
        me, tree = acting(self.key), WorkTree(self._work, worktree).opened()
        cost = self._cost_now()
        with self._fence.passed():
            self._enlist(me, tree.changes())
            made = tree.commit(me.name, me.key, text, None if cost is None else json.dumps(cost, sort_keys=True))
            return self._landing_after(me, self._work.join(me.name, me.key, made))

    def worktree(self, name: str) -> WorkTree:
        """Return a work tree to enter: a folder with the branch's files, for any program to change."""
        return WorkTree(self._work, name)

    # ---- a call's work

    def _record(self, contents: Mapping[str, bytes | None], text: str) -> dict[str, Any]:
        for path in contents:
            inside(path)
        me = acting(self.key)

        def edit(tree: str) -> str:
            return self._edited(tree, contents)

        with self._fence.passed():
            self._enlist(me, list(contents))
            commit = self._work.record(me.name, me.key, edit, text, self._cost_now())
            return self._landing_after(me, commit)

    def _enlist(self, me: Acting, paths: list[str]) -> None:
        """Enlist the landing before the write is done, so that no work is left that nobody lands."""
        if me.bare or me.held:
            return
        call, scopes = current_call(), self._landings(paths)
        known = [] if call is None else [path for scope in scopes for path in _paths_of(call.staged(scope))]
        untold = [path for path in paths if path not in known]
        if untold:
            enlist(self.settlement, self._landings(untold), self._land, paths=untold)

    def _landing_after(self, me: Acting, commit: str) -> dict[str, Any]:
        if me.bare or me.held:
            self._landing.land(me.name)
        return {"commit": commit}

    def _edited(self, tree: str, contents: Mapping[str, bytes | None]) -> str:
        changes: dict[str, Entry | None] = {}
        for path, content in contents.items():
            there = self._repository.file(tree, path)
            if content is None:
                if there is None:
                    raise GitFault(f"there is no file {path} to delete on {self._work.branch}", path=path)
                changes[path] = None
            else:
                changes[path] = Entry(REGULAR if there is None else there.mode, self._repository.blob(content))
        return self._repository.changed(tree, changes)

    def _tip(self) -> str | None:
        """Return the commit that the running call's transaction sees: its own work, else the branch."""
        call = current_call()
        own = None if call is None else self._work.tip(acting(call.key).name)
        return own or self._work.head()

    def _tree(self) -> str:
        """Return the files that the running call's transaction sees, with its staged changes."""
        tree = self._repository.tree_of(self._tip())
        call = current_call()
        for request in [] if call is None else call.staged(f"git:/{self._place}"):
            contents = self._contents(request)
            if contents:
                tree = self._edited(tree, contents)
        return tree

    def _contents(self, request: Staged) -> dict[str, bytes | None]:
        match request.tool.removeprefix(self._prefix):
            case "write_repo_file":
                return {request["path"]: _bytes(request["content"], request["encoding"])}
            case "delete_repo_file":
                return {request["path"]: None}
            case "commit_to_repo":
                return _all_bytes(request["files"])
            case _:
                return {}

    def _content(self, path: str) -> bytes | None:
        found = self._repository.file(self._tree(), path)
        return None if found is None else self._repository.content(found.object)

    def _cost_now(self) -> Mapping[str, Any] | None:
        return None if self._cost is None else self._cost()


def _segments(path: str) -> str:
    return "/".join(map(escape, path.split("/")))


def _all_bytes(files: dict[str, str | None]) -> dict[str, bytes | None]:
    if not isinstance(cast("object", files), dict):
        raise GitFault(f"files={files!r:.80}: give an object, with all that is to stand in each file by its path")
    return {path: None if content is None else _bytes(content, "utf-8") for path, content in files.items()}


def _bytes(content: str, encoding: str) -> bytes:
    check_text("content", content)
    if encoding == "utf-8":
        return content.encode(errors="surrogatepass")
    if encoding != "base64":
        raise GitFault(f"encoding={encoding!r}: choose 'utf-8' or 'base64'")
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise GitFault(f"the content is no base64: {error}") from None


def _paths_of(requests: Sequence[Staged]) -> list[str]:
    return [path for request in requests for path in request.get("paths", ())]


def _told_step(step: Step) -> dict[str, Any]:
    told = {"commit": step.commit, "at": step.at, "author": step.author, "subject": step.subject}
    own = {"decisions": list(step.decisions), "transaction": step.transaction or None, "cost": step.cost or None}
    return told | own


def _bounded(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}\n… {len(text) - _MOST} characters more: name a path"


__all__ = ["Cost", "Files"]
