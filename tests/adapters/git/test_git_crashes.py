"""A process that is killed at any command to git leaves what a new one can finish: all of it landed, or none of it."""

from __future__ import annotations

import itertools

import pytest
from tests.adapters.git.repositories import BEGINNING, files_at, git, head, refs, repository, world
from tests.rooms.adapters import Repository

from settlemark import Settlement
from settlemark.testing import die, in_child
from settlemark_adapters.git import Git

FIRST = {name: content.strip() for name, content in BEGINNING.items()}
DONE = {"a.txt": "1", "src/new.py": "n"}


def dying(at, when):
    """Have this process die at its n-th command that changes something."""
    plain, left = Repository._run, [at]

    def run(self, arguments, **options):
        changes = any(verb in arguments for verb in ("update-ref", "read-tree", "push", "commit-tree")) and not (
            options.get("variables") and "GIT_INDEX_FILE" in options["variables"]
        )
        left[0] -= changes
        if changes and left[0] == 0 and when == "before":
            die()
        found = plain(self, arguments, **options)
        if changes and left[0] == 0 and when == "after":
            die()
        return found

    Repository._run = run


def act(repo, tx, *, remote):
    tx.call(repo.write, path="a.txt", content="1\n")
    tx.call(repo.commit, files={"src/new.py": "n\n", "src/b.py": None}, text="Two")
    if remote:
        tx.call(repo.push)


@pytest.mark.parametrize(
    ("when", "bare", "fails"),
    [
        ("after", False, False),
        *(
            pytest.param(*way, marks=pytest.mark.long)
            for way in itertools.product(("before", "after"), (True, False), (True, False))
            if way != ("after", False, False)
        ),
    ],
)
def test_killed_at_any_command_it_is_done_or_undone_by_who_recovers(tmp_path, when, bare, fails):
    for at in range(1, 30):
        place = repository(tmp_path / str(at), bare=bare)
        url, before = f"sqlite:///{tmp_path}/{at}.db", head(place)

        def play(_tell, place=place, url=url, at=at):
            dying(at, when)
            with Settlement(url) as settlement:
                repo = Git(place, settlement)
                with settlement.transaction("t") as tx:
                    act(repo, tx, remote=False)
                    if fails:
                        tx.abort()

        ended = in_child(play)
        assert ended.error is None
        with Settlement(url, keep_open=0) as settlement:
            Git(place, settlement)
            settlement.recover()
            states = [transaction.state.value for transaction in settlement.transactions()]
            assert (settlement.residue(), settlement.in_doubt(), refs(place, "work/")) == ([], [], [])
        landed = states == ["committed"]
        assert files_at(place) == (DONE if landed else FIRST), at
        assert landed or head(place) == before
        if not bare:
            assert git(place, "status", "--short") == "", at
        assert refs(place, "landing/") == []
        if not ended.killed:
            assert landed is not fails
            return
    pytest.fail("there is no end to its commands")


@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "after"])
def test_so_it_is_with_a_push_behind_it(tmp_path, when):
    for at in range(1, 40):
        with world() as folder:
            place, remote, url = folder / "bare.git", folder / "remote.git", f"sqlite:///{folder}/ledger.db"

            def made(settlement, place=place, remote=remote):
                return Git(place, settlement, remote=str(remote))

            def play(_tell, url=url, at=at, made=made):
                dying(at, when)
                with Settlement(url) as settlement, settlement.transaction("t") as tx:
                    act(made(settlement), tx, remote=True)

            ended = in_child(play)
            assert ended.error is None
            before = files_at(remote)
            with Settlement(url, keep_open=0) as settlement:
                made(settlement)
                settlement.recover()
                landed = [t.state.value for t in settlement.transactions()] == ["committed"]
                assert (settlement.residue(), settlement.in_doubt()) == ([], [])
            assert files_at(place) == ({**DONE, "c.txt": "c"} if landed else {**FIRST, "c.txt": "c"}), at
            assert files_at(remote) == (files_at(place) if landed else before), at
            if not ended.killed:
                return
    pytest.fail("there is no end to its commands")


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.long), "after"])
def test_a_process_that_comes_back_to_its_calls_makes_none_of_them_twice(tmp_path, when):
    for at in range(1, 5):
        place, url = repository(tmp_path / str(at)), f"sqlite:///{tmp_path}/{at}.db"

        def play(_tell, place=place, url=url, at=at):
            dying(at, when)
            with Settlement(url) as settlement, settlement.transaction("t") as tx:
                act(Git(place, settlement), tx, remote=False)

        assert in_child(play).killed
        with Settlement(url, keep_open=600) as settlement:
            repo = Git(place, settlement)
            with settlement.transaction("t") as tx:
                act(repo, tx, remote=False)
            assert [d for c in repo.log() for d in c["decisions"]] == ["t#1/1", "t#1/0"]
        assert (files_at(place), refs(place, "work/")) == (DONE, [])
