"""Real repositories to act on: made and looked at with git's own commands, never through the adapter."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C",
    "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_COMMITTER_DATE": "1700000000 +0000",
}  # fmt: skip # a table
BEGINNING = {"a.txt": "one\ntwo\nthree\n", "src/b.py": "b = 1\n"}


def git(folder, *arguments, told=None):
    """What a git command says, run by hand."""
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        input=told,
        env={**os.environ, **FIXED},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def commit_files(folder, files, text="by hand"):
    """Commit in a work tree as a person would."""
    for path, content in files.items():
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@functools.cache
def template():
    """A folder with all that tests begin with, made once: `tree`, `bare.git`, and what a push has made of them."""
    folder = Path(tempfile.mkdtemp(prefix="settlemark-repositories-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tree = folder / "tree"
    tree.mkdir()
    git(tree, "init", "-q", "-b", "main")
    commit_files(tree, BEGINNING, "the first")
    bared(tree, folder / "bare.git")
    shutil.copytree(tree, folder / "second")
    commit_files(folder / "second", {"c.txt": "c\n"}, "the second")
    bared(folder / "second", folder / "second.git")
    return folder


def bared(tree, bare):
    git(tree.parent, "clone", "-q", "--bare", str(tree), str(bare))
    git(bare, "remote", "remove", "origin")


def repository(folder, *, bare=True):
    """A repository with a first commit on main; bare, or with a work tree in which main is checked out."""
    shutil.copytree(template() / "tree", Path(folder) / "tree")
    if not bare:
        return Path(folder) / "tree"
    shutil.copytree(template() / "bare.git", Path(folder) / "bare.git")
    return Path(folder) / "bare.git"


def files_at(folder, revision="refs/heads/main"):
    """Every file of a commit, or of a tree, with its content."""
    names = git(folder, "ls-tree", "-r", "--name-only", "-z", revision).split("\0")
    return {name: git(folder, "cat-file", "blob", f"{revision}:{name}") for name in names if name}


def refs(folder, kind=""):
    """The hidden refs of a kind."""
    found = git(folder, "for-each-ref", "--format=%(refname)", f"refs/settlemark/{kind}" if kind else "refs/settlemark")
    return found.splitlines()


def head(folder, branch="main"):
    return git(folder, "rev-parse", f"refs/heads/{branch}")


def blobs_at(folder, revision):
    """Every file of a commit, or of a tree, with the name of its content: one command."""
    told = git(folder, "ls-tree", "-r", revision).splitlines()
    return {line.split("\t")[1]: line.split()[2] for line in told}


@contextlib.contextmanager
def world():
    """A bare repository with two commits, and a bare one that it is pushed to, which has the first."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(template() / "second.git", Path(folder) / "bare.git")
        shutil.copytree(template() / "bare.git", Path(folder) / "remote.git")
        yield Path(folder)
