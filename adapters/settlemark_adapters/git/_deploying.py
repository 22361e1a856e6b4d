"""Deploying: a declared command runs on a copy of a commit, and marks tell whether it completed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from settlemark import UNKNOWN
from settlemark_adapters._running import checked_words
from settlemark_adapters.git._faults import DeployFailed, GitError, GitFault, GitTimeout
from settlemark_adapters.git._marks import mark, marked, unmark
from settlemark_adapters.git._repository import Repository

_TOLD = 500

Deployed = Callable[[str, str, str], bool | None]


class Deploying:
    """The targets of a repository, each with its command.

    Args:
        repository: the repository.
        commands: each target's command, as a list of arguments.
        deployed: called with (target, commit, key) about a command that was cut off.
        environment: more variables for the commands; never shown.
        seconds: after which a command is killed.
    """

    def __init__(
        self,
        repository: Repository,
        commands: Mapping[str, Sequence[str]],
        deployed: Deployed | None,
        *,
        environment: Mapping[str, str],
        seconds: float,
    ) -> None:
        self._repository = repository
        self._commands = {target: checked_words(f"deploy[{target!r}]", command) for target, command in commands.items()}
        self._deployed = deployed
        self._environment = dict(environment)
        self._seconds = seconds

    def __bool__(self) -> bool:
        return bool(self._commands)

    def command(self, target: str) -> list[str]:
        """Return a target's command.

        Raises:
            GitFault: there is no such target.
        """
        if target not in self._commands:
            known = ", ".join(self._commands) or "none"
            raise GitFault(f"there is no target {target!r} to deploy to: there are {known}", target=target)
        return self._commands[target]

    def deploy(self, target: str, commit: str, key: str) -> dict[str, Any]:
        """Run a target's command on a copy of a commit; once under a key.

        Raises:
            GitFault: it cannot be run.
            DeployFailed, GitTimeout: its effect is unknown.
        """
        command = self.command(target)
        if marked(self._repository, "done", key) is None:
            mark(self._repository, "sent", key, commit)
            self._run(command, target, commit, key)
            try:
                mark(self._repository, "done", key, commit)
            except GitError as error:
                raise DeployFailed(
                    f"the deployment to {target} came to its end, which is not on record ({error}): look there",
                    target=target,
                ) from error
        return {"target": target, "commit": commit}

    def was_deployed(self, target: str, key: str) -> Any:
        """Return the result of the deployment under a key, None if it was not made, else `UNKNOWN`."""
        begun = marked(self._repository, "sent", key)
        if begun is None:
            return None
        happened = True if marked(self._repository, "done", key) else None
        if happened is None and self._deployed is not None:
            happened = self._deployed(target, begun, key)
        if happened is None:
            return UNKNOWN
        return {"target": target, "commit": begun} if happened else None

    def _run(self, command: Sequence[str], target: str, commit: str, key: str) -> None:
        own = {"SETTLEMARK_KEY": key, "SETTLEMARK_COMMIT": commit, "SETTLEMARK_TARGET": target}
        with _copy() as folder:
            tree = Path(folder) / "tree"
            tree.mkdir()
            own_index = {"GIT_INDEX_FILE": str(Path(folder) / "index"), "GIT_WORK_TREE": str(tree)}
            self._repository.git("read-tree", commit, variables=own_index)
            listed = self._repository.git("ls-files", "-z", variables=own_index).decode(errors="surrogateescape")
            self._repository.refuse_filtered(listed.split("\0")[:-1], index=own_index)
            self._repository.git("checkout-index", "--all", variables=own_index, files=True)
            try:
                ended = subprocess.run(  # noqa: S603 - the declared command, with no shell
                    command,
                    cwd=tree,
                    env={**os.environ, **self._environment, **own},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=False,
                    timeout=self._seconds,
                )
            except subprocess.TimeoutExpired:
                raise GitTimeout(f"the deployment to {target} took more than {self._seconds:g} s") from None
            except OSError as error:
                unmark(self._repository, "sent", key)  # it never began
                raise GitFault(f"the command for {target} cannot be run: {error}", target=target) from None
        if ended.returncode:
            said = self._repository.without_secrets(ended.stderr.decode(errors="replace").strip())[-_TOLD:]
            raise DeployFailed(
                f"the deployment to {target} ended with {ended.returncode}: {said or 'it said nothing'}",
                target=target,
                code=ended.returncode,
            )


def _copy() -> tempfile.TemporaryDirectory[str]:
    # What a command has left running may still write there: that is no failure of the deployment.
    return tempfile.TemporaryDirectory(prefix="settlemark-deploy-", ignore_cleanup_errors=True)


__all__ = ["Deployed", "Deploying"]
