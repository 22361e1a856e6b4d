"""A git repository with a remote and a target, as the conformance kit and the scope fuzzer are told of it."""

from __future__ import annotations

import contextlib
import sys

from tests.adapters.git import repositories
from tests.adapters.git.repositories import blobs_at, git, refs

from settlemark.hosting import escape
from settlemark_adapters.git import Git
from settlemark_adapters.testing import Example, Subject

WRITE = "import os, pathlib; pathlib.Path(os.environ['PLACE'], os.environ['SETTLEMARK_KEY'].replace('/', '-')).touch()"


_open = []
"""The work trees that examples have opened, until their world ends."""


@contextlib.contextmanager
def world():
    with repositories.world() as folder:
        try:
            yield folder
        finally:
            while _open:
                _open.pop().__exit__(None, None, None)


def make(settlement, folder):
    (folder / "deployed").mkdir(exist_ok=True)
    return Git(
        folder / "bare.git",
        settlement,
        remote=str(folder / "remote.git"),
        deploy={"staging": [sys.executable, "-I", "-c", WRITE]},
        deployed=lambda _target, _commit, key: (folder / "deployed" / key.replace("/", "-")).exists(),
        environment={"PLACE": str(folder / "deployed")},
    )


def look(folder):
    """The files as they are with all work that is open; what the remote has; and what was deployed."""
    bare, remote = folder / "bare.git", folder / "remote.git"
    tip = "refs/heads/main"
    for ref in refs(bare, "work/")[:1]:
        tip = git(bare, "merge-tree", "--write-tree", tip, ref)
    return {
        "files": blobs_at(bare, tip),
        "remote": {name: blobs_at(remote, name) for name in heads(remote)},
        "tags": [name for name in heads(bare) if name.startswith("refs/tags/")],
        "deployed": len(list((folder / "deployed").glob("*"))) if (folder / "deployed").exists() else 0,
    }


def heads(folder):
    return git(folder, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags").split()


def resources(folder):
    """The same by the scopes that it is found under."""
    seen, bare, remote = look(folder), (folder / "bare.git").resolve(), escape(str(folder / "remote.git"))
    found = {f"git:{bare}/main/{path}": name for path, name in seen["files"].items()}
    for ref, files in seen["remote"].items():
        _, kind, name = ref.split("/", 2)
        found[f"git-remote:/{remote}/{kind}/{escape(name)}"] = files
    return found | {f"deploy:{bare}/main/staging": seen["deployed"]}


def open_worktree(folder):
    opening = Git(folder / "bare.git").worktree("try")
    tree = opening.__enter__()
    _open.append(opening)
    (tree / "new.txt").write_text("new\n")
    (tree / "a.txt").unlink()


SUBJECTS = {
    "git": Subject(
        make=make,
        world=world,
        look=look,
        resources=resources,
        examples=[
            Example("read_repo_file", {"path": "a.txt"}),
            Example("list_repo_files", {"path": "src"}),
            Example("repo_log", {"limit": 1}),
            Example("repo_diff", {}),
            Example("write_repo_file", {"path": "src/new.py", "content": "x = 1\n"}),
            Example("delete_repo_file", {"path": "a.txt"}),
            Example("commit_to_repo", {"files": {"a.txt": "1\n", "d/e.txt": "e\n", "src/b.py": None}, "text": "three"}),
            Example("commit_worktree", {"worktree": "try", "text": "from the tree"}, before=open_worktree),
            Example("push_branch", {}),
            Example("publish_version", {"version": "v1.0", "text": "the first"}),
            Example("deploy", {"target": "staging"}),
        ],
    )
}
