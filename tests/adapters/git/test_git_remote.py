"""What leaves the repository: held until the commit, gated when asked, found again when the answer was lost."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from contextlib import nullcontext

import pytest
from tests.adapters.git.repositories import commit_files, files_at, git, head, refs, repository
from tests.rooms.adapters import Repository

from settlemark import InDoubt, PartialCommit, Rejected, Settlement
from settlemark.testing import Fault, FaultInjector, die, in_child
from settlemark_adapters.git import Git, GitFault, PushRefused, RemoteLost

DEPLOY = """
import os, pathlib
with pathlib.Path(os.environ["OUT"], os.environ["SETTLEMARK_TARGET"]).open("a") as file:
    file.write(pathlib.Path("a.txt").read_text())
"""


@pytest.fixture
def place(tmp_path):
    bare = repository(tmp_path)
    git(tmp_path, "clone", "-q", "--bare", str(bare), "remote.git")
    return bare


@pytest.fixture
def remote(place, tmp_path):
    return tmp_path / "remote.git"


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


def made(place, settlement, **options):
    out = place.parent / "out"
    out.mkdir(exist_ok=True)
    return Git(
        place,
        settlement,
        remote=str(place.parent / "remote.git"),
        environment={"OUT": str(out)},
        deploy={
            "live": [sys.executable, "-I", "-c", DEPLOY],
            "bad": [sys.executable, "-c", "raise SystemExit('no x')"],
            "none": ["/no/such/command"],
        },
        **options,
    )


def hook(remote, name, script):
    file = remote / "hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def sent(remote):
    return git(remote, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags").split()


class TestHeld:
    def test_nothing_leaves_before_the_commit_and_then_what_has_landed_does(self, place, remote, settlement):
        repo = made(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            calls = [tx.call(repo.push), tx.call(repo.push, to="copy"), tx.call(repo.publish, version="v1", text="One")]
            calls.append(tx.call(repo.deploy, target="live"))
            assert [str(call) for call in calls] == ["queued: will run when this step settles"] * 4
            assert (sent(remote), files_at(remote)["a.txt"]) == (["refs/heads/main"], "one\ntwo\nthree")
        commit = head(place)
        assert [call.result() for call in calls] == [
            {"remote": str(remote), "branch": "main", "commit": commit},
            {"remote": str(remote), "branch": "copy", "commit": commit},
            {"remote": str(remote), "version": "v1", "commit": commit},
            {"target": "live", "commit": commit},
        ]
        assert sent(remote) == ["refs/heads/copy", "refs/heads/main", "refs/tags/v1"]
        assert git(remote, "rev-parse", "main", "copy", "v1^{commit}").split() == [commit] * 3
        assert (place.parent / "out/live").read_text() == "1\n"

    def test_nothing_leaves_when_it_fails(self, place, remote, settlement):
        repo, before = made(place, settlement), (head(place), sent(remote), head(remote))
        with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            tx.call(repo.push)
            tx.call(repo.publish, version="v1", text="One")
            tx.call(repo.deploy, target="live")
            raise RuntimeError
        assert (head(place), sent(remote), head(remote)) == before
        assert (git(place, "tag"), list((place.parent / "out").iterdir()), settlement.residue()) == ("", [], [])

    @pytest.mark.parametrize("yes", [True, False])
    def test_a_person_is_asked_too_when_it_is_declared_so(self, place, remote, yes):
        asked = []

        def approver(gate):
            asked.append((gate.tool, dict(gate.arguments)))
            return yes

        with Settlement("memory:", approver=approver) as settlement:
            repo = made(place, settlement, effects={"push_branch": {"approve": True}})
            before = head(remote)
            try:
                with settlement.transaction("t") as tx:
                    tx.call(repo.write, path="a.txt", content="1\n")
                    tx.call(repo.push)
            except Rejected:
                assert not yes
        assert asked == [("push_branch", {"to": ""})]
        assert (head(remote) != before) is yes


class TestPush:
    def diverge(self, place, remote):
        """Have the remote's main go another way than the repository's."""
        tree = place.parent / "tree"
        commit_files(tree, {"theirs.txt": "t\n"})
        git(tree, "push", "-q", str(remote), "main")
        return head(remote)

    def test_what_others_have_pushed_meanwhile_refuses_it_and_stays(self, place, remote, settlement):
        repo = made(place, settlement)
        repo.write("a.txt", "1\n")
        before = self.diverge(place, remote)
        with pytest.raises(Exception, match="refuses refs/heads/main: .*(non-fast-forward|fetch first)"):
            with settlement.transaction("t") as tx:
                tx.call(repo.push)
        with pytest.raises(PushRefused) as refused:
            repo.push()
        assert (refused.value.ref, head(remote), settlement.residue()) == ("refs/heads/main", before, [])

    def test_what_the_remote_has_already_is_not_pushed_again(self, place, remote, settlement):
        before, repo = self.diverge(place, remote), made(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.push)
        assert (repo.push()["commit"], head(remote)) == (head(place), before)

    @pytest.mark.parametrize("what", ["push", "publish"])
    def test_one_that_is_refused_takes_the_landing_back_and_is_named(self, place, remote, settlement, what):
        hook(remote, "pre-receive", "echo no entry; exit 1")
        repo, before, files = made(place, settlement), sent(remote), files_at(place)
        with pytest.raises(PartialCommit, match="what this step had landed here was taken back"):
            with settlement.transaction("t") as tx:
                tx.call(repo.write, path="a.txt", content="1\n")
                tx.call(repo.commit, files={"new.txt": "n\n", "src/b.py": None}, text="Two")
                tx.call(repo.push) if what == "push" else tx.call(repo.publish, version="v1", text="One")
        assert (sent(remote), files_at(place), git(place, "tag")) == (before, files, "")
        tool = {"push": "push_branch", "publish": "publish_version"}[what]
        assert [(left.tool, left.tag.value) for left in settlement.residue()] == [(tool, "partial_commit")]

    def test_one_that_is_refused_leaves_what_others_have_built_upon_it_and_says_so(
        self, place, remote, settlement, tmp_path
    ):
        hook(remote, "pre-receive", "echo no entry; exit 1")
        repo, before = made(place, settlement), head(remote)
        take_back = repo._landing.take_back

        def after_others(name):
            clone = tmp_path / "clone"
            if not clone.exists():
                git(tmp_path, "clone", "-q", "-b", "main", str(place), str(clone))
                commit_files(clone, {"a.txt": "theirs\n"})
                git(place, "fetch", "-q", str(clone), "main")
                git(place, "update-ref", "refs/heads/main", git(clone, "rev-parse", "HEAD"))
            return take_back(name)

        repo._landing.take_back = after_others
        with pytest.raises(PartialCommit, match="of what had landed here a.txt was changed on main since: it stays"):
            with settlement.transaction("t") as tx:
                tx.call(repo.write, path="a.txt", content="1\n")
                tx.call(repo.push)
        assert (head(remote), files_at(place)["a.txt"]) == (before, "theirs")

    def test_one_that_was_refused_is_not_sent_when_it_is_tried_again_under_its_key(self, place, remote, settlement):
        hook(remote, "pre-receive", f"rm {remote}/hooks/pre-receive; exit 1")  # the second time it would be let in
        repo, before, files = made(place, settlement), head(remote), files_at(place)
        with pytest.raises(PartialCommit), settlement.transaction("t", on_failure="retry") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            tx.call(repo.push)
        assert (head(remote), files_at(place)) == (before, files)

    @pytest.mark.parametrize("what", ["push", "publish"])
    def test_an_answer_that_the_remote_never_gave_is_found_there(self, place, remote, settlement, what):
        hook(remote, "post-receive", "kill -9 $PPID")  # it has the refs by now, and says nothing
        repo = made(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            call = tx.call(repo.push) if what == "push" else tx.call(repo.publish, version="v1", text="One")
        assert call.result()["commit"] == head(place)
        assert git(remote, "rev-parse", "main" if what == "push" else "v1^{commit}") == head(place)
        assert (settlement.residue(), settlement.in_doubt()) == ([], [])

    def test_so_it_is_when_others_have_pushed_upon_it_by_then(self, place, remote, settlement):
        tree, script = place.parent / "tree", place.parent / "upon.sh"
        script.write_text(
            f"unset GIT_DIR GIT_QUARANTINE_PATH\nrm {remote}/hooks/post-receive\n"
            f"cd {tree} && git fetch -q {remote} main &&"
            " git -c user.name=a -c user.email=b checkout -q FETCH_HEAD &&"
            " git -c user.name=a -c user.email=b commit -q --allow-empty -m upon &&"
            f" git push -q {remote} HEAD:main\n"
        )
        hook(remote, "post-receive", f"sh {script}; kill -9 $PPID")
        repo = made(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            call = tx.call(repo.push)
        assert call.result()["commit"] == head(place)
        assert git(remote, "log", "--format=%s", "main").splitlines() == ["upon", "Write a.txt", "the first"]

    def test_one_that_broke_before_it_arrived_is_sent_again(self, place, remote, settlement):
        hook(remote, "pre-receive", f"rm {remote}/hooks/pre-receive; kill -9 $PPID")
        repo = made(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="1\n")
            tx.call(repo.push)
        assert head(remote) == head(place)

    def test_bare_it_says_that_nobody_knows(self, place, remote):
        hook(remote, "post-receive", "kill -9 $PPID")
        repo = made(place, None)
        repo.write("a.txt", "1\n")
        with pytest.raises(RemoteLost, match="the connection to .* broke"):
            repo.push()

    @pytest.mark.parametrize("who", ["ada:s3cret", "ada:/s3cret", "ada:s3cret@", "s3cret", "ada@corp:s3cret"])
    def test_a_remote_that_is_not_there_is_a_plain_no(self, place, settlement, who):
        repo = Git(place, settlement, remote=f"https://{who}@localhost:1/x.git", environment={"TOKEN": "token"})
        with pytest.raises(Exception, match="refused") as failed, settlement.transaction("t") as tx:
            tx.call(repo.push)
        assert settlement.in_doubt() == settlement.residue() == []
        told = f"{failed.value!r} {repo!r} {settlement.show()} {settlement.transactions()}"
        assert ("s3cret" in told, "localhost" in told) == (False, True)


class TestPublish:
    def test_a_version_that_exists_is_refused_and_nothing_is_changed(self, place, remote, settlement):
        git(place, "tag", "v1")
        repo, before = made(place, settlement), git(place, "rev-parse", "v1")
        with pytest.raises(Exception, match="there is a version v1 already"), settlement.transaction("t") as tx:
            tx.call(repo.publish, version="v1", text="One")
        assert (git(place, "rev-parse", "v1"), sent(remote)) == (before, ["refs/heads/main"])

    def test_one_that_the_remote_refuses_is_no_version_here_either(self, place, remote, settlement):
        hook(remote, "pre-receive", "exit 1")
        with pytest.raises(Exception, match="refuses refs/tags/v1"), settlement.transaction("t") as tx:
            tx.call(made(place, settlement).publish, version="v1", text="One")
        assert (git(place, "tag"), sent(remote)) == ("", ["refs/heads/main"])

    @pytest.mark.parametrize("version", ["", "a b", "../x", "x.lock", "-d"])
    def test_what_is_no_name_is_refused(self, place, remote, settlement, version):
        with pytest.raises(Exception, match="refused|is no name"), settlement.transaction("t") as tx:
            tx.call(made(place, settlement).publish, version=version, text="One")
        assert (git(place, "tag"), settlement.transactions()) == ("", [])


class TestDeploy:
    def test_a_command_that_fails_is_in_doubt_unless_its_target_can_tell(self, place, settlement):
        with pytest.raises(InDoubt), settlement.transaction("t") as tx:
            tx.call(made(place, settlement).deploy, target="bad")
        assert [left.tool for left in settlement.in_doubt()] == ["deploy"]

    def test_its_target_is_asked_when_its_answer_was_lost(self, place):
        asked = []

        def deployed(target, commit, key):
            asked.append((target, commit, key))
            return (place.parent / "out" / target).exists()

        with Settlement("memory:") as settlement:
            repo = made(place, settlement, deployed=deployed)
            with pytest.raises(Exception, match="ended with 1: no x"), settlement.transaction("t") as tx:
                tx.call(repo.deploy, target="bad")
        assert set(asked) == {("bad", head(place), "t#1/0")}
        assert settlement is not None

    def test_what_came_to_its_end_is_not_run_again(self, place):
        injector = FaultInjector(Fault(2, "after"))
        with injector.settlement("memory:") as settlement:
            repo = made(place, settlement)
            with settlement.transaction("t") as tx:
                call = tx.call(repo.deploy, target="live")
            assert call.result() == {"target": "live", "commit": head(place)}
        assert (place.parent / "out/live").read_text() == "one\ntwo\nthree\n"

    @pytest.mark.parametrize("told", [False, True])
    def test_one_that_came_to_its_end_and_is_not_on_record_is_in_doubt_unless_its_target_can_tell(
        self, place, settlement, told
    ):
        blocked = place / "refs/settlemark/done"
        blocked.parent.mkdir(parents=True, exist_ok=True)
        blocked.write_text("")  # no mark is written below a file
        repo = made(place, settlement, deployed=(lambda *_: True) if told else None)
        with nullcontext() if told else pytest.raises(InDoubt), settlement.transaction("t") as tx:
            tx.call(repo.deploy, target="live")
        assert (place.parent / "out/live").read_text() == "one\ntwo\nthree\n"
        assert [left.tool for left in settlement.residue()] == ([] if told else ["deploy"])

    def test_what_its_command_leaves_running_in_its_copy_is_no_failure(self, place, settlement, monkeypatch):
        def busy(path, *_, **__):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))

        monkeypatch.setattr(tempfile, "tempdir", str(place.parent))
        monkeypatch.setattr(os, "rmdir", busy)
        with settlement.transaction("t") as tx:
            call = tx.call(made(place, settlement).deploy, target="live")
        assert (call.result()["target"], settlement.residue()) == ("live", [])

    def test_an_unknown_target_and_a_command_that_is_not_there_do_nothing(self, place, settlement):
        repo = made(place, settlement)
        with pytest.raises(Exception, match="there is no target 'x' to deploy to: there are live, bad, none"):
            with settlement.transaction("t") as tx:
                tx.call(repo.deploy, target="x")
        with pytest.raises(GitFault, match="cannot be run"):
            repo.deploy("none")
        assert refs(place, "sent/") == []

    def test_a_process_that_is_killed_in_it_leaves_a_question_for_its_target(self, place, tmp_path):
        url = f"sqlite:///{tmp_path}/ledger.db"

        def play(_tell):
            with Settlement(url) as settlement:
                repo = made(place, settlement)
                repo._deploying._run = lambda *_: die()
                with settlement.transaction("t") as tx:
                    tx.call(repo.deploy, target="live")

        assert in_child(play).killed
        with Settlement(url) as settlement:
            made(place, settlement, deployed=lambda target, commit, key: False)
            settlement.recover()
            assert [t.state.value for t in settlement.transactions()] == ["committed"]
        assert (place.parent / "out/live").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("fatal: unable to access 'https://ada:p@ss/word@host/x'", "fatal: unable to access 'https://***@host/x'"),
        ("https://a@host and ssh://b@host", "https://***@host and ssh://***@host"),
        ("git@host:x of //@host", "git@host:x of //@host"),
        ("//" * 100_000, "//" * 100_000),
        ("//a" * 100_000 + "@host", "//***@host"),
    ],
    ids=["a mark in it", "two", "none", "long, without", "long"],
)
def test_no_password_in_an_address_is_told_whatever_marks_are_in_it(place, said, shown):
    assert Repository(place, author="Ada <ada@example.org>").without_secrets(said) == shown
