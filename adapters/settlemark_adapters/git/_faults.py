"""The errors of the git tools: refused, or unknown."""

from __future__ import annotations

from settlemark_adapters._faults import Fault


class GitError(Fault):
    """Base of what these tools raise. Of a command its data are `code`, `said` and `output`."""

    @property
    def code(self) -> int:
        """The command's exit status; 0 without a command."""
        return int(self.data.get("code", 0))

    @property
    def said(self) -> str:
        """The command's message for people."""
        return str(self.data.get("said", ""))

    @property
    def output(self) -> bytes:
        """The command's output."""
        return bytes(self.data.get("output", b""))


class GitFault(GitError):
    """The git operation cannot be done: nothing was changed."""


class Conflict(GitFault):
    """Other writers have changed the same lines of the branch meanwhile. Attributes: `branch`, `paths`."""


class WorkTreeInTheWay(GitFault):
    """The branch is checked out somewhere with uncommitted changes that would be lost. Attribute: `work_tree`."""


class ChangedOutside(GitFault):
    """Another writer has changed the files to be undone: they stay as they are. Attribute: `paths`."""


class PushRefused(GitFault):
    """The remote refused a push. Attributes: `remote`, `ref`, `reason`."""


class DeployFailed(GitError):
    """The command ended with an error; only its target knows what it had done. Attributes: `target`, `code`."""


class RemoteLost(ConnectionError):
    """The connection broke while something was sent: whether it arrived is unknown."""


class GitTimeout(TimeoutError):
    """A command took too long and was killed."""


__all__ = [
    "ChangedOutside",
    "Conflict",
    "DeployFailed",
    "GitError",
    "GitFault",
    "GitTimeout",
    "PushRefused",
    "RemoteLost",
    "WorkTreeInTheWay",
]
