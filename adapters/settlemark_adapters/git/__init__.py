"""A git repository: an agent's work is on hidden refs, one commit for each decision, and lands at its commit or not.

Git is a journal already: objects share their common parts, refs are compared and swapped, branches merge. This adapter
adds what git lacks: commits tagged with the decision that made them and its cost, landing together with everything else
a transaction does, and a gate before what no `git reset` undoes: push, publish and deploy.

>>> import subprocess, tempfile
>>> from settlemark import Settlement
>>> from settlemark_adapters.git import Git
>>> folder = tempfile.mkdtemp()
>>> _ = subprocess.run(["git", "init", "-q", "--bare", folder], check=True)
>>> settlement = Settlement("memory:")
>>> repository = Git(folder, settlement, cost=lambda: {"usd": 0.25})
>>> with settlement.transaction("fix-12") as tx:
...     _ = tx.call(repository.write, path="a.py", content="x = 1", text="Begin")
...     _ = tx.call(repository.write, path="b.py", content="y = 2", text="Go on")
>>> [(commit["subject"], commit["decisions"], commit["cost"]) for commit in repository.log()]
[('Go on', ['fix-12#1/1'], {'usd': 0.25}), ('Begin', ['fix-12#1/0'], {'usd': 0.25})]
"""

from __future__ import annotations

from settlemark_adapters.git._faults import (
    ChangedOutside,
    Conflict,
    DeployFailed,
    GitError,
    GitFault,
    GitTimeout,
    PushRefused,
    RemoteLost,
    WorkTreeInTheWay,
)
from settlemark_adapters.git._git import Git
from settlemark_adapters.git._worktree import WorkTree

__all__ = [
    "ChangedOutside",
    "Conflict",
    "DeployFailed",
    "Git",
    "GitError",
    "GitFault",
    "GitTimeout",
    "PushRefused",
    "RemoteLost",
    "WorkTree",
    "WorkTreeInTheWay",
]
