"""A work tree per branch of a speculation: the winner's lands, the others leave nothing but what is kept as failed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.adapters.git.repositories import BEGINNING, commit_files, files_at, git, head, refs, repository
from tests.rooms.adapters import Repository

from settlemark import Settlement
from settlemark.testing import die, in_child
from settlemark_adapters.git import Git, GitFault

PATIENCE = 60
FIRST = {name: content.strip() for name, content in BEGINNING.items()}


@pytest.fixture
def tree(tmp_path):
    return repository(tmp_path, bare=False)


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


def listed(tree):
    return git(tree, "worktree", "list", "--porcelain").count("worktree ")


def test_the_winners_tree_lands_and_the_losers_leave_no_trace(tree, settlement):
    repo = Git(tree, settlement, cost=lambda: {"usd": 1})
    seen = []

    def attempt(number):
        def branch(tx):
            with repo.worktree(f"try-{number}") as folder:
                (folder / "a.txt").write_text(f"by {number}\n")  # whatever program does it: an editor, a formatter
                (folder / f"only-{number}.txt").write_text("x\n")
                tx.call(repo.commit_worktree, worktree=f"try-{number}", text=f"Try {number}")
                seen.append(((tree / "a.txt").read_text(), head(tree)))
                return len((folder / "a.txt").read_text()) + number

        return branch

    before = head(tree)
    won = settlement.speculate([attempt(n) for n in range(3)], lambda scores: scores.index(max(scores)), name="fix-12")
    assert (won, set(seen)) == (7, {(BEGINNING["a.txt"], before)})
    assert files_at(tree) == FIRST | {"a.txt": "by 2", "only-2.txt": "x"}
    assert (git(tree, "status", "--short"), listed(tree)) == ("", 1)
    assert git(tree, "log", "--all", "--not", "--glob=refs/settlemark/failed", "--format=%s").count("Try 0") == 0
    assert [(kept["transaction"], kept["decisions"], kept["cost"]) for kept in repo.failed()] == [
        ("fix-12~0#1", 1, {"usd": 1}),
        ("fix-12~1#1", 1, {"usd": 1}),
    ]
    assert refs(tree, "trees/") == refs(tree, "bases/") == refs(tree, "work/") == []
    assert settlement.residue() == []


def is_locked(tree):
    fcntl = pytest.importorskip("fcntl")
    with (tree / ".git" / "settlemark-worktrees.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def test_whatever_asks_git_about_work_trees_has_them_for_itself(tree, settlement, monkeypatch):
    """Git refuses whoever meets one that another is just making."""
    run, asked = Repository._run, []

    def watched(repository, arguments, **options):
        if "worktree" in arguments:
            verb = arguments[arguments.index("worktree") + 1]
            asked.append((verb, is_locked(tree)))
        return run(repository, arguments, **options)

    monkeypatch.setattr(Repository, "_run", watched)
    repo = Git(tree, settlement)
    with settlement.transaction("t") as tx, repo.worktree("try") as folder:
        (folder / "a.txt").write_text("1\n")
        tx.call(repo.commit_worktree, worktree="try", text="One")
    repo.compact()
    assert {verb for verb, _ in asked} == {"add", "list", "remove", "prune"}
    assert [verb for verb, alone in asked if not alone] == []
    assert not is_locked(tree)


def test_who_opens_one_while_another_is_being_made_waits_for_that(tree, settlement, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    run, lock, order = Repository._run, fcntl.flock, []
    making, waits = threading.Event(), threading.Event()
    repo = Git(tree, settlement)

    def slowly(repository, arguments, **options):
        if "add" not in arguments or "worktree" not in arguments:
            return run(repository, arguments, **options)
        who = Path(arguments[-2]).name
        order.append(f"begins {who}")
        if who == "first":
            making.set()
            waits.wait(PATIENCE)
        made = run(repository, arguments, **options)
        order.append(f"has made {who}")
        return made

    def watched(file, how):
        if how == fcntl.LOCK_EX and making.is_set():
            waits.set()
        return lock(file, how)

    def open_it(name):
        with repo.worktree(name) as folder:
            order.append(sorted(path.name for path in folder.iterdir()))

    monkeypatch.setattr(Repository, "_run", slowly)
    monkeypatch.setattr(fcntl, "flock", watched)
    first, second = (threading.Thread(target=open_it, args=(name,)) for name in ("first", "second"))
    first.start()
    assert making.wait(PATIENCE)
    second.start()
    first.join(PATIENCE)
    second.join(PATIENCE)
    assert [step for step in order if isinstance(step, str)] == [
        "begins first",
        "has made first",
        "begins second",
        "has made second",
    ]
    assert [step for step in order if not isinstance(step, str)] == [[".git", "a.txt", "src"]] * 2
    assert (listed(tree), refs(tree, "trees/")) == (1, [])


def test_commits_that_an_agent_makes_in_it_land_with_it(tree, settlement):
    repo = Git(tree, settlement)
    with settlement.transaction("t") as tx:
        with repo.worktree("try") as folder:
            commit_files(folder, {"a.txt": "1\n"}, "by the agent")
            (folder / "new.txt").write_text("n\n")
            tx.call(repo.commit_worktree, worktree="try", text="the rest")
            assert git(folder, "status", "--short") == ""
        tx.call(repo.write, path="src/b.py", content="b = 2\n")
    assert [c["subject"] for c in repo.log()] == ["Write src/b.py", "the rest", "by the agent", "the first"]
    assert files_at(tree) == {"a.txt": "1", "new.txt": "n", "src/b.py": "b = 2"}


def test_it_joins_what_was_written_beside_it(tree, settlement):
    repo = Git(tree, settlement)
    with repo.worktree("try") as folder, settlement.transaction("t") as tx:
        (folder / "a.txt").write_text("1\n")
        tx.call(repo.write, path="src/b.py", content="b = 2\n")
        tx.call(repo.commit_worktree, worktree="try", text="Try")
        (folder / "a.txt").write_text("2\n")
        tx.call(repo.commit_worktree, worktree="try", text="Again")
    assert (files_at(tree), settlement.residue()) == ({"a.txt": "2", "src/b.py": "b = 2"}, [])


def test_a_retry_commits_it_anew_without_what_its_first_try_had_made_of_it(tree, settlement):
    repo = Git(tree, settlement)
    with repo.worktree("try") as folder:
        (folder / "a.txt").write_text("1\n")
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(repo.commit_worktree, worktree="try", text="Try")
            raise RuntimeError
        assert (folder / "a.txt").read_text() == "1\n"
        with settlement.transaction("t") as tx:
            tx.call(repo.commit_worktree, worktree="try", text="Try")
    assert [(c["subject"], c["decisions"]) for c in repo.log()] == [("Try", ["t#2/0"]), ("the first", [])]


def test_what_was_not_committed_is_kept_when_it_is_left_and_nothing_when_nothing_was_changed(tree):
    repo = Git(tree)
    with repo.worktree("idle"):
        pass
    assert refs(tree) == []
    with repo.worktree("try") as folder:
        (folder / "a.txt").write_text("half\n")
    (kept,) = repo.failed()
    assert kept["transaction"] == "try"
    assert (files_at(tree, kept["commit"])["a.txt"], listed(tree), folder.exists()) == ("half", 1, False)


def test_two_of_one_name_are_refused_and_one_of_an_ended_process_is_taken_up(tree):
    repo = Git(tree)
    with repo.worktree("try"), pytest.raises(GitFault, match="is open elsewhere"):
        repo.worktree("try").__enter__()

    def play(_tell):
        with Git(tree).worktree("try") as folder:
            (folder / "a.txt").write_text("half\n")
            die()

    assert in_child(play).killed
    with repo.worktree("open"):
        assert (listed(tree), repo.compact(), listed(tree), len(repo.failed())) == (3, 1, 2, 1)
    assert in_child(play).killed
    with repo.worktree("try") as folder:
        assert (folder / "a.txt").read_text() == BEGINNING["a.txt"]
        assert {files_at(tree, kept["commit"])["a.txt"] for kept in repo.failed()} == {"half"}
    assert listed(tree) == 1


def test_where_nothing_has_changed_or_was_committed_it_is_refused(tree, tmp_path, settlement):
    repo = Git(tree, settlement)
    with repo.worktree("try"), settlement.transaction("t") as tx:
        with pytest.raises(GitFault, match="nothing has changed in the work tree 'try'"):
            tx.call(repo.commit_worktree, worktree="try", text="Try")
    git(tmp_path, "init", "-q", "--bare", "empty.git")
    with pytest.raises(GitFault, match="main has no commit yet"):
        Git(tmp_path / "empty.git").worktree("try").__enter__()
    assert (refs(tree), listed(tree)) == ([], 1)
