"""Landing beside others: both sides are merged, a conflict moves nothing, and a user's own changes are never lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.adapters.git.repositories import BEGINNING, commit_files, files_at, git, head, refs, repository

from settlemark import Settlement
from settlemark_adapters.git import Git

FIRST = {name: content.strip() for name, content in BEGINNING.items()}


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


@pytest.fixture
def tree(tmp_path):
    """A work tree in which another branch is checked out, so that nobody stands in main's way."""
    tree = repository(tmp_path, bare=False)
    git(tree, "checkout", "-q", "-b", "theirs")
    return tree


def push_by_hand(tree, files):
    """Have main go on as a person's push would."""
    git(tree, "checkout", "-q", "-B", "theirs", "main")
    commit_files(tree, files)
    git(tree, "update-ref", "refs/heads/main", "theirs")


class TestBesideOthers:
    def test_what_others_changed_elsewhere_is_merged(self, tree, settlement):
        repo = Git(tree, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="one\ntwo\nTHREE\n")
            push_by_hand(tree, {"a.txt": "ONE\ntwo\nthree\n", "src/c.py": "c\n"})
            tip = head(tree)
        assert files_at(tree) == {"a.txt": "ONE\ntwo\nTHREE", "src/b.py": "b = 1", "src/c.py": "c"}
        assert git(tree, "log", "-1", "--format=%s", "main") == "Merge t#1 into main"
        assert git(tree, "rev-parse", "main^1") == tip

    def test_what_has_landed_meanwhile_is_merged_before_the_next_write(self, tree, settlement):
        repo = Git(tree, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="src/b.py", content="b = 2\n")
            push_by_hand(tree, {"a.txt": "ONE\n"})
            tx.call(repo.write, path="a.txt", content="mine\n")
        assert files_at(tree) == {"a.txt": "mine", "src/b.py": "b = 2"}
        with pytest.raises(RuntimeError), settlement.transaction("u") as tx:
            tx.call(repo.write, path="src/b.py", content="b = 3\n")
            push_by_hand(tree, {"a.txt": "TWO\n"})
            tx.call(repo.write, path="a.txt", content="mine\n")
            raise RuntimeError
        assert (files_at(tree), refs(tree, "work/")) == ({"a.txt": "TWO", "src/b.py": "b = 2"}, [])
        assert (settlement.residue(), repo.failed()[0]["decisions"]) == ([], 2)

    def test_a_conflict_is_refused_by_the_files_names_and_moves_nothing(self, tree, settlement):
        repo = Git(tree, settlement)
        with pytest.raises(Exception, match=r"t#1 cannot land on main: others have changed the same lines of a.txt"):
            with settlement.transaction("t") as tx:
                tx.call(repo.write, path="a.txt", content="mine\n")
                tx.call(repo.write, path="src/b.py", content="b = 2\n")
                push_by_hand(tree, {"a.txt": "theirs\n"})
                before = head(tree)
        assert (head(tree), files_at(tree)) == (before, FIRST | {"a.txt": "theirs"})
        assert (settlement.residue(), refs(tree)) == ([], ["refs/settlemark/failed/main/t#1"])
        assert settlement.transactions()[-1].state.value == "aborted"

    def test_many_at_once_on_files_of_their_own_all_land(self, tree, settlement):
        repo, start = Git(tree, settlement), threading.Barrier(3)

        def work(agent):
            start.wait(30)
            for turn in range(3):
                name = f"agents/{agent}.txt"
                settlement.run(
                    f"{agent}/{turn}", lambda tx, n=name, t=turn: tx.call(repo.write, path=n, content=f"{t}\n")
                )

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        assert files_at(tree) == FIRST | {f"agents/{agent}.txt": "2" for agent in range(3)}
        decisions = [d for commit in repo.log(limit=100) for d in commit["decisions"]]
        assert sorted(decisions) == sorted(f"{a}/{t}#1/0" for a in range(3) for t in range(3))

    def test_many_who_read_one_file_and_write_it_lose_no_line(self, tree, settlement):
        repo, start = Git(tree, settlement), threading.Barrier(2)

        def append(tx, line):
            before = tx.call(repo.read, path="a.txt")["content"]
            tx.call(repo.write, path="a.txt", content=f"{before}{line}\n")

        def work(agent):
            start.wait(30)
            for turn in range(3):
                settlement.run(f"{agent}/{turn}", lambda tx, line=f"{agent}.{turn}": append(tx, line), tries=100)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
        lines = files_at(tree)["a.txt"].splitlines()
        assert sorted(lines[3:]) == sorted(f"{a}.{t}" for a in range(2) for t in range(3))
        assert settlement.residue() == []


class TestACheckedOutBranch:
    @pytest.fixture
    def tree(self, tmp_path):
        return repository(tmp_path, bare=False)

    def test_its_work_tree_follows_and_keeps_what_is_not_committed(self, tree, settlement):
        repo = Git(tree, settlement)
        (tree / "src/b.py").write_text("b = 'not committed'\n")
        (tree / "note").write_text("not tracked\n")
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="landed\n")
            tx.call(repo.write, path="new.txt", content="n\n")
            assert (tree / "a.txt").read_text() == BEGINNING["a.txt"]
        assert ((tree / "a.txt").read_text(), (tree / "new.txt").read_text()) == ("landed\n", "n\n")
        assert git(tree, "status", "--short").split() == ["M", "src/b.py", "??", "note"]
        assert refs(tree) == ["refs/settlemark/landed/main/t#1"]

    @pytest.mark.parametrize(
        "change",
        [
            lambda tree: (tree / "a.txt").write_text("not committed\n"),
            lambda tree: ((tree / "a.txt").write_text("staged\n"), git(tree, "add", "a.txt")),
            lambda tree: (tree / "new.txt").write_text("not tracked\n"),
            lambda tree: ((tree / ".git/info/exclude").write_text("new.txt\n"), (tree / "new.txt").write_text("env\n")),
        ],
        ids=["changed", "staged", "untracked", "ignored"],
    )
    def test_a_change_that_would_be_lost_refuses_the_landing_and_nothing_is_moved(self, tree, settlement, change):
        repo = Git(tree, settlement)
        change(tree)
        before = (git(tree, "status", "--short", "--ignored"), git(tree, "diff", "HEAD"), head(tree))
        with pytest.raises(Exception, match="main is checked out in .* that would be lost"):
            with settlement.transaction("t") as tx:
                tx.call(repo.write, path="a.txt", content="landed\n")
                tx.call(repo.write, path="new.txt", content="n\n")
        assert (git(tree, "status", "--short", "--ignored"), git(tree, "diff", "HEAD"), head(tree)) == before
        assert (settlement.residue(), refs(tree)) == ([], ["refs/settlemark/failed/main/t#1"])

    def test_so_does_a_linked_work_tree(self, tree, tmp_path, settlement):
        git(tree, "checkout", "-q", "-b", "other")
        git(tree, "worktree", "add", "-q", str(tmp_path / "linked"), "main")
        repo = Git(tmp_path / "linked", settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="landed\n")
        assert (tmp_path / "linked/a.txt").read_text() == "landed\n"
        assert (git(tmp_path / "linked", "status", "--short"), git(tree, "status", "--short")) == ("", "")

    def test_a_branch_without_a_commit_too(self, tmp_path, settlement):
        (tmp_path / "new").mkdir()
        git(tmp_path / "new", "init", "-q", "-b", "main")
        repo = Git(tmp_path / "new", settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
        assert ((tmp_path / "new/a.txt").read_text(), git(tmp_path / "new", "status", "--short")) == ("1\n", "")
