"""A write or a version that cannot be is refused at its call, also one that waits for the commit."""

from __future__ import annotations

import pytest
from tests.adapters.git.repositories import files_at, git, repository

from settlemark import ScopeError, Settlement
from settlemark_adapters.git import Git, GitFault

WRITE = {"path": "a.txt", "content": "1\n"}
CANNOT = {
    "a content that is no base64": ("write_repo_file", {**WRITE, "content": "!", "encoding": "base64"}),
    "another encoding": ("write_repo_file", {**WRITE, "encoding": "utf-16"}),
    "a content that is no text": ("write_repo_file", {**WRITE, "content": 5}),
    "a message that is no text": ("write_repo_file", {**WRITE, "text": 5}),
    "a path that is no text": ("write_repo_file", {**WRITE, "path": 5}),
    "a path below a file": ("write_repo_file", {**WRITE, "path": "a.txt/b"}),
    "a folder": ("write_repo_file", {**WRITE, "path": "src"}),
    "a file that is not there": ("delete_repo_file", {"path": "none.txt"}),
    "a message that is none": ("delete_repo_file", {"path": "a.txt", "text": None}),
    "files that are a list": ("commit_to_repo", {"files": ["a.txt"], "text": "x"}),
    "a file among others that is none": ("commit_to_repo", {"files": {"a.txt": "x", "c.txt": 5}, "text": "x"}),
    "a missing file among others": ("commit_to_repo", {"files": {"a.txt": "x", "none.txt": None}, "text": "x"}),
    "a message of files that is none": ("commit_to_repo", {"files": {"a.txt": "x"}, "text": 5}),
    "a message of a work tree that is none": ("commit_worktree", {"worktree": "try", "text": 5}),
    "a version that is there": ("publish_version", {"version": "v1", "text": "x"}),
    "words of a version that are none": ("publish_version", {"version": "v2", "text": 5}),
}
WRITES = ("write_repo_file", "delete_repo_file", "commit_to_repo", "commit_worktree")


@pytest.fixture
def place(tmp_path):
    bare = repository(tmp_path)
    git(tmp_path, "clone", "-q", "--bare", str(bare), "remote.git")
    git(bare, "tag", "v1", "main")
    return bare


def made(place, settlement, kind):
    return Git(place, settlement, remote=str(place.parent / "remote.git"), effects=dict.fromkeys(WRITES, kind))


def test_every_tool_that_changes_something_and_takes_a_text_is_tried_here(place):
    changing = {each.tool for each in made(place, None, "staged").declarations() if each.kind != "read"}
    assert {tool for tool, _ in CANNOT.values()} == changing - {"push_branch"}


@pytest.mark.parametrize("kind", ["reversible", "staged"])
@pytest.mark.parametrize("why", CANNOT)
def test_what_cannot_be_is_refused_at_the_call_and_nothing_is_left(place, kind, why):
    tool, arguments = CANNOT[why]
    called = []
    with Settlement("memory:") as settlement:
        repo = made(place, settlement, kind)
        with pytest.raises((GitFault, ScopeError)), settlement.transaction("t") as tx:
            tx.call(repo.write, path="first.txt", content="1\n")
            called.append("first")
            tx.call(repo.tool(tool), **arguments)
            called.append("second")
        assert (called, settlement.residue(), settlement.in_doubt()) == (["first"], [], [])
    assert sorted(files_at(place)) == ["a.txt", "src/b.py"]
    assert git(place, "tag") == "v1"


def test_a_held_write_is_checked_against_what_its_own_step_has_staged(place):
    with Settlement("memory:") as settlement:
        repo = made(place, settlement, "staged")
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="new.txt", content="1\n")
            tx.call(repo.delete, path="new.txt")
            tx.call(repo.write, path="a.txt", content="1\n")
        assert settlement.residue() == []
    assert files_at(place)["a.txt"] == "1"
