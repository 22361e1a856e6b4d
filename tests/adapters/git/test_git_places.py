"""One branch of one remote is one resource, by whatever name or address it is sent to."""

from __future__ import annotations

import pytest
from tests.adapters.git.repositories import git, repository

from settlemark_adapters.git import Git

HOST = "git-remote:/host.example%2Fteam%2Ftrips"
SPELLED = {
    "a name": lambda place: "origin",
    "a path": lambda place: f"{place}/remote.git",
    "a path with a slash behind it": lambda place: f"{place}/remote.git/",
    "a path with dots in it": lambda place: f"{place}/x/../remote.git",
    "a path without .git": lambda place: f"{place}/remote",
    "a link": lambda place: f"{place}/link",
    "a URL": lambda place: f"file://{place}/remote.git",
    "a URL with escapes": lambda place: f"file://{place}/%72emote.git",
    "a prefix that is configured": lambda place: "short:remote.git",
}
ADDRESSES = [
    "https://host.example/team/trips.git",
    "https://HOST.example:443/team/trips",
    "https://ada:secret@host.example./team/trips/",
    "https://ada:se/cr@et@host.example/team/trips",
    "https://host.example/team/%74rips.git",
    "ssh://git@host.example/team/trips.git",
    "ssh://git@host.example:22/team/trips.git",
    "git@host.example:team/trips.git",
    "host.example:/team/trips",
]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "x").mkdir()
    bare = repository(tmp_path)
    git(tmp_path, "clone", "-q", "--bare", str(bare), "remote.git")
    (tmp_path / "link").symlink_to(tmp_path / "remote.git")
    git(bare, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(bare, "config", f"url.{tmp_path}/.insteadOf", "short:")
    return bare


def scopes(place, remote):
    declared = {each.tool: each for each in Git(place, remote=remote).declarations()}
    pushed = declared["push_branch"].scopes({"to": ""})
    return [scope.text for scope in (*pushed, *declared["publish_version"].scopes({"version": "v1", "text": "x"}))]


@pytest.mark.parametrize("spelled", SPELLED)
def test_a_remote_on_this_machine_has_one_scope_however_it_is_spelled(place, spelled):
    remote = str(place.parent / "remote.git").replace("/", "%2F")
    found = scopes(place, SPELLED[spelled](place.parent))
    assert found == [f"git-remote:/{remote}/heads/main", f"git-remote:/{remote}/tags/v1"]


def test_so_has_a_work_tree_of_it(place):
    git(place.parent / "remote.git", "worktree", "add", "-q", "-b", "side", str(place.parent / "side"), "main")
    assert scopes(place, str(place.parent / "side")) == scopes(place, "origin")


@pytest.mark.parametrize("address", ADDRESSES)
def test_one_at_a_host_has_one_scope_and_no_secret_in_it(place, address):
    assert scopes(place, address) == [f"{HOST}/heads/main", f"{HOST}/tags/v1"]


def test_other_repositories_are_others(place):
    others = ["https://host.example/team/other", "https://else.example/team/trips", "host.example:other/trips"]
    assert len({scope for remote in (*others, *ADDRESSES[:1]) for scope in scopes(place, remote)}) == 2 * 4


def test_where_a_name_is_pushed_to_several_addresses_it_acts_on_each(place):
    git(place, "remote", "set-url", "--add", "--push", "origin", ADDRESSES[0])
    git(place, "remote", "set-url", "--add", "--push", "origin", str(place.parent / "remote.git"))
    remote = str(place.parent / "remote.git").replace("/", "%2F")
    assert scopes(place, "origin")[:2] == [f"git-remote:/{remote}/heads/main", f"{HOST}/heads/main"]
