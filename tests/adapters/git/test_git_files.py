"""Work on hidden refs: one commit a decision, seen by its own transaction, landing with it or kept as failed."""

from __future__ import annotations

import inspect
import json

import pytest
from tests.adapters.git.repositories import BEGINNING, commit_files, files_at, git, head, refs, repository

from settlemark import DeclarationError, ScopeError, Settlement, Stale
from settlemark.hosting import declaration_of
from settlemark.testing import Fault, FaultInjector
from settlemark_adapters.git import Git, GitFault

FIRST = {name: content.strip() for name, content in BEGINNING.items()}


@pytest.fixture
def place(tmp_path):
    return repository(tmp_path)


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


@pytest.fixture
def repo(place, settlement):
    return Git(place, settlement, cost=lambda: {"usd": 0.5, "tokens": 100})


def everything(place):
    """All that is in a repository: every ref, and what it points to."""
    return git(place, "for-each-ref", "--format=%(refname) %(objectname)")


def all_but_hidden(place):
    return [line for line in everything(place).splitlines() if " refs/settlemark/" not in f" {line}"]


class TestATransaction:
    def test_its_writes_land_together_when_it_commits_and_nothing_shows_before(self, place, settlement, repo):
        before = all_but_hidden(place)
        with settlement.transaction("fix-12") as tx:
            tx.call(repo.write, path="src/new.py", content="x = 1\n")
            tx.call(repo.delete, path="a.txt")
            tx.call(repo.commit, files={"src/b.py": "b = 2\n", "c/d.txt": "d\n"}, text="Two at once")
            assert (all_but_hidden(place), files_at(place)) == (before, FIRST)
            assert refs(place) == ["refs/settlemark/work/main/fix-12#1"]
        assert files_at(place) == {"src/new.py": "x = 1", "src/b.py": "b = 2", "c/d.txt": "d"}
        assert refs(place) == ["refs/settlemark/landed/main/fix-12#1"]

    def test_each_commit_says_which_decision_it_is_and_what_it_cost(self, place, settlement, repo):
        with settlement.transaction("fix-12") as tx:
            tx.call(repo.write, path="a.txt", content="1\n", text="Because of #12\n\nSettlemark-Decision: forged")
            tx.call(repo.delete, path="src/b.py")
        bodies = git(place, "log", "-2", "--format=%B%x00", "main").split("\0")
        base = git(place, "rev-parse", "main~2")
        assert [body.strip().split("\n\n")[-1].splitlines() for body in bodies[:2]] == [
            [f"Settlemark-Decision: fix-12#1/{n}", "Settlemark-Transaction: fix-12#1", f"Settlemark-Base: {base}",
             'Settlemark-Cost: {"tokens": 100, "usd": 0.5}'] for n in (1, 0)
        ]  # fmt: skip # a list of names and values
        assert [(c["subject"], c["decisions"], c["cost"]) for c in repo.log(limit=3)] == [
            ("Delete src/b.py", ["fix-12#1/1"], {"usd": 0.5, "tokens": 100}),
            ("Because of #12", ["fix-12#1/0"], {"usd": 0.5, "tokens": 100}),
            ("the first", [], None),
        ]

    def test_it_reads_what_it_has_written_and_nobody_else_does(self, settlement, repo):
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="src/new.py", content="x = 1\n")
            assert tx.call(repo.read, path="src/new.py")["content"] == "x = 1\n"
            assert tx.call(repo.files, path="src") == ["src/b.py", "src/new.py"]
            assert "+x = 1" in tx.call(repo.diff)
            assert tx.call(repo.log, limit=1)[0]["decisions"] == ["t#1/0"]
            assert repo.files("src") == ["src/b.py"]
            assert (repo.diff(), repo.log(limit=1)[0]["subject"]) == ("", "the first")

    def test_one_that_fails_leaves_the_branch_as_it_was_and_its_work_is_kept(self, place, settlement, repo):
        before = all_but_hidden(place)
        with pytest.raises(RuntimeError), settlement.transaction("fix/12 b") as tx:
            tx.call(repo.write, path="src/new.py", content="x = 1\n")
            tx.call(repo.delete, path="a.txt")
            raise RuntimeError
        assert (all_but_hidden(place), settlement.residue()) == (before, [])
        (kept,) = repo.failed()
        assert kept | {"commit": "", "at": 0} == {
            "transaction": "fix/12 b#1",
            "ref": "refs/settlemark/failed/main/fix%2F12%20b#1",
            "commit": "",
            "at": 0,
            "decisions": 2,
            "cost": {"usd": 1.0, "tokens": 200},
        }
        assert files_at(place, kept["commit"]) == {"src/b.py": "b = 1", "src/new.py": "x = 1"}
        assert refs(place) == [kept["ref"]]

    def test_a_retry_begins_anew_and_lands_alone(self, place, settlement, repo):
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="wrong\n")
            raise RuntimeError
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="right\n")
        assert [c["subject"] for c in repo.log()] == ["Write a.txt", "the first"]
        assert (files_at(place)["a.txt"], refs(place)) == (
            "right",
            ["refs/settlemark/failed/main/t#1", "refs/settlemark/landed/main/t#2"],
        )

    def test_a_call_that_fails_and_is_caught_leaves_nothing_in_what_lands(self, place, settlement, repo):
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            with pytest.raises(GitFault, match="there is no file none.txt to delete"):
                tx.call(repo.delete, path="none.txt")
        assert files_at(place) == FIRST | {"a.txt": "1"}

    def test_another_reads_only_what_has_landed(self, place, settlement, repo):
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            tx.call(repo.write, path="a.txt", content="2\n")
        with settlement.transaction("u") as tx:
            assert tx.call(repo.read, path="a.txt")["content"] == "2\n"
        assert len(repo.log()) == 3

    def test_a_commit_past_the_settlement_makes_what_was_read_stale(self, tmp_path, settlement):
        tree = repository(tmp_path, bare=False)
        repo = Git(tree, settlement)
        with pytest.raises(Stale), settlement.transaction("t") as tx:
            tx.call(repo.read, path="a.txt")
            commit_files(tree, {"a.txt": "theirs\n"})
            tx.call(repo.write, path="src/b.py", content="b = 3\n")
        assert files_at(tree) == FIRST | {"a.txt": "theirs"}

    def test_nothing_of_it_is_seen_by_a_log_a_status_or_a_list_of_branches(self, tmp_path, settlement):
        tree = repository(tmp_path, bare=False)
        repo = Git(tree, settlement)
        before = [git(tree, *command) for command in (["log", "--oneline"], ["status", "--short"], ["branch", "-a"])]
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            after = [git(tree, *command) for command in (["log", "--oneline"], ["status", "--short"], ["branch", "-a"])]
            assert after == before
        assert git(tree, "log", "--format=%s", "-1") == "Write a.txt"

    def test_in_an_empty_repository_it_begins_the_branch(self, tmp_path, settlement):
        git(tmp_path, "init", "-q", "--bare", "empty.git")
        repo = Git(tmp_path / "empty.git", settlement, branch="trunk/x")
        assert (repo.files(), repo.log(), repo.diff()) == ([], [], "")
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            raise RuntimeError
        assert all_but_hidden(tmp_path / "empty.git") == []
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            tx.call(repo.write, path="b.txt", content="2\n")
        assert files_at(tmp_path / "empty.git", "trunk/x") == {"a.txt": "1", "b.txt": "2"}

    def test_a_rewound_one_is_taken_back_from_the_branch_unless_others_built_upon_it(self, place, settlement, repo):
        with settlement.transaction("t") as tx:
            tx.call(repo.commit, files={"a.txt": "1\n", "new.txt": "n\n"}, text="Both")
        undo = declaration_of(repo.commit).undo.function
        undo(key="t#1/0")
        undo(key="t#1/0")
        assert (files_at(place), repo.log()[0]["subject"]) == (FIRST, "Undo: Both")
        with settlement.transaction("u") as tx:
            tx.call(repo.write, path="a.txt", content="2\n")
        repo.write("a.txt", "theirs\n")
        before = head(place)
        with pytest.raises(GitFault, match="a.txt was changed on main since"):
            declaration_of(repo.write).undo.function(key="u#1/0")
        assert head(place) == before

    async def test_from_an_event_loop(self, place, settlement, repo):
        async with settlement.transaction("t") as tx:
            await tx.call(repo.write, path="a.txt", content="1\n")
            assert (await tx.call(repo.read, path="a.txt"))["content"] == "1\n"
        assert files_at(place)["a.txt"] == "1"


class TestHeld:
    """The same tools declared staged: what they do is done at the commit, and their own reads see it before."""

    def test_its_own_reads_see_what_is_staged(self, place, settlement):
        tools = dict.fromkeys(["write_repo_file", "delete_repo_file", "commit_to_repo"], "staged")
        repo = Git(place, settlement, name="my", effects=tools)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="src/new.py", content="x = 1\n")
            tx.call(repo.delete, path="a.txt")
            tx.call(repo.commit, files={"src/b.py": None, "c.txt": "c\n"}, text="more")
            assert tx.call(repo.read, path="src/new.py")["content"] == "x = 1\n"
            assert tx.call(repo.files) == ["c.txt", "src/new.py"]
            assert "-b = 1" in tx.call(repo.diff)
            assert (files_at(place), refs(place)) == (FIRST, [])
        assert files_at(place) == {"src/new.py": "x = 1", "c.txt": "c"}
        assert refs(place) == ["refs/settlemark/landed/main/t#1"]

    def test_one_issued_behind_a_push_lands_in_its_order(self, place, tmp_path, settlement):
        git(tmp_path, "clone", "-q", "--bare", str(place), "remote.git")
        repo = Git(place, settlement, remote=str(tmp_path / "remote.git"))
        with settlement.transaction("t") as tx, tx.turn(order="issued") as turn:
            turn.call(repo.write, path="a.txt", content="pushed\n")
            turn.call(repo.push)
            turn.call(repo.write, path="a.txt", content="not pushed\n")
        assert (files_at(place)["a.txt"], files_at(tmp_path / "remote.git")["a.txt"]) == ("not pushed", "pushed")

    def test_a_push_leaves_last_unless_it_is_told_otherwise(self, place, tmp_path, settlement):
        git(tmp_path, "clone", "-q", "--bare", str(place), "remote.git")
        repo = Git(place, settlement, remote=str(tmp_path / "remote.git"))
        with settlement.transaction("t") as tx, tx.turn() as turn:
            turn.call(repo.push)
            turn.call(repo.write, path="a.txt", content="pushed\n")
        assert (files_at(place)["a.txt"], files_at(tmp_path / "remote.git")["a.txt"]) == ("pushed", "pushed")


class TestUnderOneKey:
    @pytest.mark.parametrize("step", [1, 3], ids=["the write", "the landing"])
    @pytest.mark.parametrize("mode", ["after", "unsent", "before"])
    def test_a_lost_answer_or_a_lost_call_is_one_commit_in_the_end(self, place, step, mode):
        injector = FaultInjector(Fault(step, mode))
        with injector.settlement("memory:") as settlement:
            repo = Git(place, settlement)
            settlement.run("t", lambda tx: tx.call(repo.write, path="a.txt", content="1\n"))
            assert [f.step for f in injector.struck] == [step]
            assert ([c["subject"] for c in repo.log()], settlement.residue()) == (["Write a.txt", "the first"], [])
        assert (files_at(place)["a.txt"], refs(place, "work/")) == ("1", [])

    def test_a_call_that_comes_twice_under_its_key_is_one_commit(self, place, settlement, repo):
        def twice(path: str, content: str) -> list:
            return [repo.write(path, content), repo.write(path, content)]

        with settlement.transaction("t") as tx:
            first, second = tx.call(repo.declare("write_repo_file", twice), path="a.txt", content="1\n")
        assert (first, len(repo.log())) == (second, 2)

    @pytest.mark.parametrize("ended", ["open", "landed"])
    def test_what_a_ledger_that_is_gone_has_left_under_its_name_is_not_taken_for_its_own(self, place, ended):
        with Settlement("memory:") as lost:
            repo = Git(place, lost)
            with lost.transaction("t") as tx:
                tx.call(repo.write, path="a.txt", content="lost\n")
                tx.call(repo.write, path="src/b.py", content="lost\n")
                if ended == "open":
                    tx.park()
        with Settlement("memory:") as settlement:
            repo = Git(place, settlement)
            with settlement.transaction("t") as tx:
                tx.call(repo.write, path="a.txt", content="new\n")
        assert files_at(place) == (FIRST if ended == "open" else FIRST | {"src/b.py": "lost"}) | {"a.txt": "new"}
        assert [kept["decisions"] for kept in repo.failed()] == ([2] if ended == "open" else [])


class TestKeeping:
    def fail(self, settlement, repo, name="t", times=1):
        with pytest.raises(RuntimeError), settlement.transaction(name) as tx:
            for number in range(times):
                tx.call(repo.write, path="a.txt", content=f"{number}\n", text=f"Try {number}")
            raise RuntimeError

    def test_failed_work_is_kept_for_its_days_and_pruned_when_an_adapter_is_made(self, place, settlement, repo):
        self.fail(settlement, repo)
        with settlement.transaction("u") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
        now = repo.failed()[0]["at"]
        Git(place, clock=lambda: now + 6.9 * 86_400)
        assert len(refs(place)) == 2
        Git(place, clock=lambda: now + 7.1 * 86_400, keep_failed=8)
        assert len(refs(place)) == 2
        Git(place, clock=lambda: now + 7.1 * 86_400)
        assert (refs(place), files_at(place)["a.txt"]) == ([], "1")

    def test_open_work_is_never_pruned(self, place, settlement, repo):
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            later = Git(place, clock=lambda: 9e9)
            assert later.compact() == 0
        assert files_at(place)["a.txt"] == "1"

    def test_old_decisions_are_made_one_commit_and_the_last_stay_as_they_are(self, place, settlement, repo):
        self.fail(settlement, repo, times=6)
        (before,) = repo.failed()
        assert (repo.compact(fine=2), repo.compact(fine=2)) == (1, 0)
        (after,) = repo.failed()
        keep = ("transaction", "ref", "decisions", "cost", "at")
        assert [after[k] for k in keep] == [before[k] for k in keep]
        subjects = git(place, "log", "--format=%s", after["ref"]).splitlines()
        assert subjects == ["Try 5", "Try 4", "4 commits as one", "the first"]
        squashed = git(
            place, "log", "-1", "--format=%(trailers:key=Settlemark-Decision,valueonly)", f"{after['ref']}~2"
        )
        assert squashed.split() == [f"t#1/{n}" for n in range(4)]
        assert files_at(place, after["ref"]) == files_at(place, before["commit"])

    def test_names_that_contain_each_other_or_are_long_are_kept_apart(self, place, settlement, repo):
        names = ["a", "a#1", "a#1/b", "x" * 400, "x" * 401, "ü ~^:?*[\\", "a.lock"]
        for name in names:
            self.fail(settlement, repo, name)
        kept = {found["transaction"] for found in repo.failed()}
        short = {f"{name}#1" for name in names if len(name) < 400}
        assert (len(kept), short - kept) == (len(names), set())


class TestBadInput:
    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("", "is no path inside"), ("/etc/passwd", "is no path inside"), ("../x", "is no path inside"),
            ("a/../b", "is no path inside"), ("./a", "is no path inside"), ("a//b", "is no path inside"),
            ("a/", "is no path inside"), ("a\\b", "is no path inside"), ("a\nb", "is no path inside"),
            (".git/config", "is git's own"), ("x/.GIT/y", "is git's own"), (".git.", "is git's own"),
            (".g\u200cit/config", "is git's own"), ("git~1/config", "is git's own"), (".git::$DATA", "is git's own"),
        ],
    )  # fmt: skip # a table of values
    @pytest.mark.parametrize("tool", ["read_repo_file", "write_repo_file", "delete_repo_file", "commit_to_repo"])
    def test_what_is_no_path_is_refused(self, place, settlement, repo, tool, path, said):
        before = everything(place)
        arguments = {
            "write_repo_file": {"path": path, "content": "x"},
            "commit_to_repo": {"files": {path: "x"}, "text": "t"},
        }.get(tool, {"path": path})
        with pytest.raises(ScopeError, match=said), settlement.transaction("t") as tx:
            tx.call(repo.tool(tool), **arguments)
        with pytest.raises(GitFault, match=said):
            repo.tool(tool)(**arguments)
        assert (everything(place), settlement.transactions()) == (before, [])

    @pytest.mark.parametrize(
        ("tool", "arguments", "said"),
        [
            ("read_repo_file", {"path": "none"}, "there is no file none on main"),
            ("read_repo_file", {"path": "link"}, "link is a symbolic link here, not a file"),
            ("read_repo_file", {"path": "src"}, "src is a folder here, not a file"),
            ("delete_repo_file", {"path": "none"}, "there is no file none to delete"),
            ("delete_repo_file", {"path": "src"}, "src is a folder here"),
            ("write_repo_file", {"path": "link", "content": ""}, "link is a symbolic link"),
            ("write_repo_file", {"path": "link/x", "content": ""}, "link is a symbolic link here, not a folder"),
            ("write_repo_file", {"path": "a.txt/x", "content": ""}, "a.txt is a file here, not a folder"),
            ("write_repo_file", {"path": "src", "content": ""}, "src is a folder here"),
            ("write_repo_file", {"path": "x", "content": "%", "encoding": "base64"}, "the content is no base64"),
            ("write_repo_file", {"path": "x", "content": "%", "encoding": "latin"}, "choose 'utf-8' or 'base64'"),
            ("commit_to_repo", {"files": {"x": "1", "none": None}, "text": ""}, "there is no file none to delete"),
            ("commit_to_repo", {"files": {}, "text": ""}, "there are no files to commit"),
            ("repo_diff", {"since": "none"}, "refused"),
            ("repo_diff", {"since": "--output=/tmp/x"}, "is no revision"),
            ("commit_worktree", {"worktree": "none", "text": ""}, "there is no work tree 'none' open"),
        ],
    )
    def test_what_cannot_be_done_is_refused(self, tmp_path, settlement, tool, arguments, said):
        tree = repository(tmp_path, bare=False)
        (tree / "link").symlink_to("/etc/passwd")
        git(tree, "add", "-A")
        git(tree, "commit", "-qm", "a link")
        repo, before = Git(tree, settlement), everything(tree)
        with pytest.raises((GitFault, ScopeError), match=said), settlement.transaction("t") as tx:
            tx.call(repo.tool(tool), **arguments)
        assert (everything(tree), settlement.residue()) == (before, [])

    def test_a_folder_that_is_no_repository_and_other_wrong_arguments(self, tmp_path, place):
        (tmp_path / "plain").mkdir()
        for folder in ("plain", "none"):
            with pytest.raises(GitFault, match="is no git repository that can be used here"):
                Git(tmp_path / folder)
        with pytest.raises(GitFault, match="author='Ada': write it as"):
            Git(place, author="Ada")
        with pytest.raises(GitFault, match="refused"):
            Git(place, branch="../x")
        with pytest.raises(GitFault, match="give a name or an address"):
            Git(place, remote="--upload-pack=x")
        assert everything(place) == git(place, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")

    def test_without_its_settlement_a_write_in_a_transaction_is_refused_before_it_is_done(self, place, settlement):
        before = everything(place)
        with pytest.raises(GitFault, match="knows no settlement"), settlement.transaction("t") as tx:
            tx.call(Git(place).write, path="a.txt", content="1")
        with Settlement("memory:") as other:
            with pytest.raises(GitFault, match="does not know the settlement"), settlement.transaction("t") as tx:
                tx.call(Git(place, other).write, path="a.txt", content="1")
        assert (everything(place), settlement.residue()) == (before, [])

    def test_neither_hooks_nor_the_users_settings_nor_prompts_take_part(self, place, settlement, repo, tmp_path):
        hooks = place / "hooks"
        hooks.mkdir(exist_ok=True)
        for hook in ("reference-transaction", "pre-commit", "post-update", "update"):
            (hooks / hook).write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\nexit 1\n")
            (hooks / hook).chmod(0o755)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
        assert (files_at(place)["a.txt"], (tmp_path / "hooked").exists()) == ("1", False)


class TestThreeWays:
    def test_as_tools_of_any_framework(self, place, settlement, repo):
        assert [tool.__name__ for tool in repo.tools()] == [
            "read_repo_file", "list_repo_files", "repo_log", "repo_diff",
            "write_repo_file", "delete_repo_file", "commit_to_repo", "commit_worktree",
        ]  # fmt: skip # a list of names and values
        assert [tool.__name__ for tool in Git(place, remote="x", deploy={"t": ["true"]}).tools()][8:] == [
            "push_branch",
            "publish_version",
            "deploy",
        ]
        write = repo.tool("write_repo_file")
        assert list(inspect.signature(write).parameters) == ["path", "content", "encoding", "text"]
        assert all("Args:" in tool.__doc__ for tool in repo.tools())
        assert json.dumps([str(s) for s in declaration_of(write).scopes({"path": "src/a b.py"})]) == json.dumps(
            [f"git:{place.resolve()}/main/src/a b.py"]
        )

    def test_as_a_declaration_of_a_function_of_ones_own(self, place, settlement, repo):
        def save(name: str, body: str) -> dict:
            return repo.write(name, body.upper())

        mine = repo.declare("write_repo_file", save, path="name")
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(mine, name="a.txt", body="x\n")
            raise RuntimeError
        assert (files_at(place), settlement.residue()) == (FIRST, [])
        with settlement.transaction("u") as tx:
            tx.call(mine, name="a.txt", body="x\n")
        assert files_at(place)["a.txt"] == "X"
        with pytest.raises(DeclarationError):
            repo.declare("write_repo_file", lambda body: None)

    def test_bare_each_call_lands_at_once(self, place):
        repo = Git(place)
        repo.write("a.txt", "1\n")
        repo.commit({"src/b.py": None, "bytes": "x"}, "Two")
        repo.write("bytes", "/wA=", encoding="base64")
        assert repo.read("bytes") == {"path": "bytes", "content": "/wA=", "encoding": "base64"}
        assert (repo.files(), len(repo.log()), refs(place, "work/")) == (["a.txt", "bytes"], 4, [])

    def test_a_files_mode_stays(self, tmp_path):
        tree = repository(tmp_path, bare=False)
        (tree / "src/b.py").chmod(0o755)
        commit_files(tree, {})
        repo = Git(tree)
        repo.write("src/b.py", "b = 5\n")
        assert git(tree, "ls-tree", "main", "src/b.py").split()[0] == "100755"
