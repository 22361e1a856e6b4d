"""What git refuses, and what nobody can tell of it."""

from __future__ import annotations

from typing import Any


class GitError(Exception):
    """Base of what these tools raise. Its data are attributes; of a command: `code`, `said` and `output`."""

    code: int = 0
    said: str = ""
    output: bytes = b""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.__dict__.update(data)
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), str(self), self.data)


def _rebuilt(kind: type[GitError], message: str, data: dict[str, Any]) -> GitError:
    return kind(message, **data)


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
    "ChangedOutside", "Conflict", "DeployFailed", "GitError", "GitFault", "GitTimeout", "PushRefused", "RemoteLost",
    "WorkTreeInTheWay",
]  # fmt: skip
