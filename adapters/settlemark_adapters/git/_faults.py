"""What git refuses, and what nobody can tell of it."""

from __future__ import annotations

from settlemark_adapters._faults import Fault


class GitError(Fault):
    """Base of what these tools raise. Of a command its data are `code`, `said` and `output`."""

    @property
    def code(self) -> int:
        """What the command ended with; 0 where there was none."""
        return int(self.data.get("code", 0))

    @property
    def said(self) -> str:
        """What it wrote for people."""
        return str(self.data.get("said", ""))

    @property
    def output(self) -> bytes:
        """What it wrote."""
        return bytes(self.data.get("output", b""))


class GitFault(GitError):
    """It cannot be done: nothing was changed."""


class Conflict(GitFault):
    """Others changed the same lines of the branch meanwhile. Attributes: `branch`, `paths`."""


class WorkTreeInTheWay(GitFault):
    """The branch is checked out somewhere with uncommitted changes that would be lost. Attribute: `work_tree`."""


class ChangedOutside(GitFault):
    """What is to be undone was changed by somebody since, and stays as it is. Attribute: `paths`."""


class PushRefused(GitFault):
    """The remote said no. Attributes: `remote`, `ref`, `reason`."""


class DeployFailed(GitError):
    """The command ended with an error; what it had done by then, its target knows. Attributes: `target`, `code`."""


class RemoteLost(ConnectionError):
    """The connection broke while something was sent: whether it arrived is not known."""


class GitTimeout(TimeoutError):
    """A command took too long and was ended."""


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
