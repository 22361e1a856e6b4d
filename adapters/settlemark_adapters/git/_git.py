"""The repository's tools, with those that no undo takes back: push, publish, deploy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from settlemark import Settlement
from settlemark.hosting import EffectName, escape
from settlemark_adapters._adapter import Operation, operation
from settlemark_adapters._fence import Leased
from settlemark_adapters._running import checked_environment
from settlemark_adapters._spans import span
from settlemark_adapters.git._deploying import Deployed, Deploying
from settlemark_adapters.git._faults import ChangedOutside, DeployFailed, GitFault, PushRefused
from settlemark_adapters.git._files import Cost, Files
from settlemark_adapters.git._inside import acting
from settlemark_adapters.git._marks import mark, why_marked
from settlemark_adapters.git._paths import check_text
from settlemark_adapters.git._remote import Remote
from settlemark_adapters.git._repository import SECONDS, Repository
from settlemark_adapters.git._work import DAY, Work

AUTHOR = "settlemark <settlemark@localhost>"
_FINE = 20


class Git(Files):
    """Tools on one branch of a git repository: read, write, commit, push, publish, deploy.

    Each write is a commit on a hidden ref of its transaction, with the decision's key and its cost in it, and lands on
    the branch when the transaction commits: all of its commits, by one move of the branch. If others have moved the
    branch meanwhile, both sides are merged; a conflict refuses the landing, and the transaction is undone. The work of
    an undone transaction is kept for `keep_failed` days (`failed()`), and then pruned.

    A user's work tree and index are never written, with one exception: where the branch itself is checked out, that
    work tree follows its landings, as `git merge` would, and keeps uncommitted changes; if it cannot, the landing is
    refused. Files that git ignores or does not track are no part of this: an undo restores committed files, not
    `node_modules`, `.env`, or a database.

    Keys name decisions for as long as hidden refs are kept: give a repository one ledger, or each its `namespace`.

    Args:
        repository: its folder, or that of a bare one.
        settlement: as for every adapter; needed by every write inside a transaction.
        branch: where the work lands.
        author: the author of its commits.
        keep_failed: days for which the work of failed transactions is kept.
        remote: where `push_branch` and `publish_version` send, by name or address; without it there are no such tools.
        deploy: a command (arguments, no shell) a target; without it there is no such tool. It runs in a copy of the
            commit, with SETTLEMARK_KEY, SETTLEMARK_COMMIT and SETTLEMARK_TARGET in its environment.
        deployed: called with (target, commit, key); returns whether a deployment that was cut off has happened: True or
            False, None when nobody can tell.
        cost: called at each write; returns what the decision cost, as JSON: tokens, money.
        environment: more variables for git and for the deploy commands: credentials; never shown.
        seconds: for which a remote or a deploy command may be silent.
        clock: returns the time, for what is kept.
        name, effects: as for every adapter; `{"push_branch": {"approve": True}}` asks a person, too.
        lease: a lease on the repository, or a function that returns the one of the running work: nothing is written,
            landed, pushed or deployed under a lesser token than the greatest that has acted here, nor without one from
            then on (`Fenced`).

    Raises:
        GitFault: there is no such repository, or an argument is wrong.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing a user may choose
        self,
        repository: str | os.PathLike[str],
        settlement: Settlement | None = None,
        *,
        branch: str = "main",
        author: str = AUTHOR,
        keep_failed: float = 7.0,
        remote: str | None = None,
        deploy: Mapping[str, Sequence[str]] | None = None,
        deployed: Deployed | None = None,
        cost: Cost | None = None,
        environment: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.time,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
        lease: Leased = None,
    ) -> None:
        checked_environment("environment", environment or {})
        own = Repository(repository, author=author, environment=environment)
        own.named("heads", branch)
        span("seconds", seconds)
        self._remote = None if remote is None else Remote(own, remote, seconds=seconds)
        self._deploying = Deploying(own, deploy or {}, deployed, environment=environment or {}, seconds=seconds)
        self._keep = span("keep_failed", keep_failed, "days")
        self._clock = clock
        super().__init__(Work(own, branch), settlement, cost=cost, name=name, effects=effects, lease=lease)
        self._work.expire(self._clock() - self._keep * DAY)

    def operations(self) -> dict[str, Operation[Any, Any]]:
        """Return its operations by their tools' names, without those that lack a remote or a command."""
        absent = [] if self._remote else ["push_branch", "publish_version"]
        absent += [] if self._deploying else ["deploy"]
        return {tool: known for tool, known in super().operations().items() if tool not in absent}

    # ---- scopes and checks

    def _sent_to(self, to: str = "") -> list[str]:
        return self._there("heads", self._sent_as(to))

    def _tagged(self, version: str) -> list[str]:
        self._repository.named("tags", version)
        return self._there("tags", version)

    def _there(self, kind: str, name: str) -> list[str]:
        return [f"git-remote:/{escape(place)}/{kind}/{escape(name)}" for place in self._peer().places()]

    def _fit_version(self, version: str, text: str = "") -> None:
        """Refuse a version now rather than at its release, behind what has left."""
        check_text("text", text)
        if self._repository.ref(f"refs/tags/{version}") is not None:
            raise GitFault(f"there is a version {version} already: choose another name", version=version)

    def _deployed_at(self, target: str) -> str:
        self._deploying.command(target)
        return f"deploy:/{self._place}/{escape(target)}"

    def _pushed(self, to: str, key: str) -> Any:
        found = self._peer().arrived(key, f"refs/heads/{self._sent_as(to)}")
        return None if found is None else self._told_push(to, found)

    def _published(self, version: str, key: str) -> Any:
        found = self._peer().arrived(key, f"refs/tags/{version}")
        return None if found is None else self._told_version(version, found)

    def _was_deployed(self, target: str, key: str) -> Any:
        return self._deploying.was_deployed(target, key)

    # ---- sending

    def _peer(self) -> Remote:
        if self._remote is None:
            raise GitFault("this adapter has no remote: Git(repository, settlement, remote=…)")
        return self._remote

    def _sent_as(self, to: str) -> str:
        name = to or self._work.branch
        self._repository.named("heads", name)
        return name

    def _landed_head(self) -> str:
        head = self._work.head()
        if head is None:
            raise GitFault(f"{self._work.branch} has no commit yet: there is nothing to send")
        return head

    def _told_push(self, to: str, commit: str) -> dict[str, Any]:
        return {"remote": self._peer().name, "branch": self._sent_as(to), "commit": commit}

    def _told_version(self, version: str, tag: str) -> dict[str, Any]:
        return {"remote": self._peer().name, "version": version, "commit": self._repository.commit_of(tag)}

    @contextmanager
    def _taken_back_if_refused(self, head: str, ref: str) -> Generator[None]:
        """Take back what this transaction has landed when its remote refuses it, once and for all under its key.

        Raises:
            PushRefused: the remote refuses it, or has done so before this process.
        """
        key, name = self.key, acting(self.key).name
        known = why_marked(self._repository, "refused", key)
        try:
            if known is not None:
                raise PushRefused(known, remote=self._peer().name, ref=ref, reason=known)
            yield
        except PushRefused as refusal:
            if not self._landing.has_landed(name):
                raise
            if known is None:  # recorded before anything is taken back: after a crash the next process continues
                mark(self._repository, "refused", key, head, str(refusal))
            try:
                self._landing.take_back(name)
            except ChangedOutside as changed:
                raise PushRefused(f"{refusal}; of what had landed here {changed}", **refusal.data) from None
            raise PushRefused(f"{refusal}; what this step had landed here was taken back", **refusal.data) from None

    @operation("push_branch", "irreversible", scope=_sent_to, probe=_pushed)
    def push(self, to: str = "") -> dict[str, Any]:
        """Push the branch to the remote, when this step has landed.

        Args:
            to: the branch there; leave it empty for the same name.

        Raises:
            PushRefused: the remote says no; what this step had landed here was taken back.
        """
        head, ref = self._landed_head(), f"refs/heads/{self._sent_as(to)}"
        with self._fence.passed(), self._taken_back_if_refused(head, ref):
            self._peer().send(self.key, head, ref)
        return self._told_push(to, head)

    @operation("publish_version", "irreversible", scope=_tagged, check=_fit_version, probe=_published)
    def publish(self, version: str, text: str) -> dict[str, Any]:
        """Tag the branch as a version, and push the tag, when this step has landed.

        Args:
            version: the tag: "v1.2.0".
            text: what is in it.
        """
        head = self._landed_head()
        with self._fence.passed(), self._taken_back_if_refused(head, f"refs/tags/{version}"):
            tag = self._peer().publish(self.key, version, head, text)
        return self._told_version(version, tag)

    @operation("deploy", "irreversible", scope=_deployed_at, probe=_was_deployed, unknown=(DeployFailed,))
    def deploy(self, target: str) -> dict[str, Any]:
        """Deploy the branch to a target, when this step has landed.

        Args:
            target: one of those that are declared.
        """
        with self._fence.passed():
            return self._deploying.deploy(target, self._landed_head(), self.key)

    # ---- what is kept

    def failed(self) -> list[dict[str, Any]]:
        """Return the work of failed transactions that is still kept: its ref, how many decisions, and its cost."""
        return self._work.kept()

    def compact(self, *, fine: int = _FINE) -> int:
        """Prune what has been kept for its days, and squash all but the last decisions of the rest.

        Work trees that ended processes have left are cleared up, too. Returns how many of all these there were. Pruning
        alone is done whenever an adapter is made.

        Args:
            fine: how many of a failed transaction's last decisions stay commits of their own.
        """
        left = sum(self.worktree(name).clear_if_left() for name in self._work.trees())
        return left + self._work.expire(self._clock() - self._keep * DAY) + self._work.squash(fine)


__all__ = ["Git"]
