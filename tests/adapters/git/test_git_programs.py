"""A repository's configuration names programs; none of them ever runs, whatever is done with the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.adapters.git.repositories import commit_files, files_at, git, refs, repository
from tests.adapters.records.places import Books

from settlemark import Refused, Settlement
from settlemark_adapters.git import Git, GitFault
from settlemark_adapters.records import GitBackend, StoreError

HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-rewrite", "post-update", "pre-applypatch", "pre-auto-gc", "pre-commit",
    "pre-merge-commit", "pre-push", "pre-rebase", "prepare-commit-msg", "reference-transaction", "update",
)  # fmt: skip # a table of values
# Every setting of git-config(1) that is run as a program, those that a repository names itself included.
PROGRAMS = (
    "core.alternateRefsCommand", "core.askPass", "core.editor", "core.fsmonitor", "core.gitProxy", "core.pager",
    "core.sshCommand", "credential.helper", "credential.https://example.invalid.helper", "diff.evil.command",
    "diff.evil.textconv", "diff.external", "filter.evil.clean", "filter.evil.process", "filter.evil.smudge",
    "gc.recentObjectsHook", "gpg.program", "gpg.ssh.defaultKeyCommand", "gpg.ssh.program", "interactive.diffFilter",
    "merge.evil.driver", "pager.diff", "pager.log", "remote.origin.receivepack", "remote.origin.uploadpack",
    "sequence.editor", "trailer.evil.cmd", "trailer.evil.command", "uploadpack.packObjectsHook",
)  # fmt: skip # a table of values
COMMANDS_IN_VARIABLES = (
    "GIT_ASKPASS", "GIT_EDITOR", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_PROXY_COMMAND", "GIT_SEQUENCE_EDITOR",
    "GIT_SSH", "GIT_SSH_COMMAND", "SSH_ASKPASS",
)  # fmt: skip # a table of values
PLACES_IN_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_SYSTEM", "GIT_DIR", "GIT_EXEC_PATH",
    "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_TEMPLATE_DIR", "GIT_TRACE", "GIT_WORK_TREE",
)  # fmt: skip # a table of values
QUIET = ("core.hooksPath=/dev/null", "core.alternateRefsCommand=:", "core.fsmonitor=false")
SWITCHES = {"commit.gpgSign": "true", "tag.gpgSign": "true", "merge.renormalize": "true", "log.showSignature": "true"}


@pytest.fixture
def ran(tmp_path):
    """The programs that ran, by the settings or hooks that name them."""
    folder = tmp_path / "ran"
    folder.mkdir()
    return lambda: sorted(path.name for path in folder.iterdir())


def arm(place, tmp_path):
    """Have a repository name a program wherever one can be named, each of which leaves a file."""
    folder = git(place, "rev-parse", "--absolute-git-dir")
    for name in PROGRAMS:
        git(place, "config", name, f"touch '{tmp_path}/ran/{name.replace('/', '_')}'; false")
    for name, value in SWITCHES.items():
        git(place, "config", name, value)
    git(place, "config", "hook.configured.command", f"touch '{tmp_path}/ran/configured'; false")
    for name in HOOKS:
        git(place, "config", "--add", "hook.configured.event", name)
        hook = Path(folder, "hooks", name)
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran/hook-{name}'\nexit 1\n")
        hook.chmod(0o755)
    Path(folder, "info").mkdir(exist_ok=True)
    Path(folder, "info", "attributes").write_text("*.txt merge=evil diff=evil\n*.secret filter=evil\n")


def filters(folder, driver, tmp_path):
    """Have a repository pass its text files through a filter of this name."""
    with (folder / "config").open("a", encoding="utf-8") as config:
        for kind in ("clean", "smudge", "process"):
            config.write(f'[filter "{driver}"]\n\t{kind} = "touch \'{tmp_path}/ran/{kind}\'; cat"\n')
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info" / "attributes").write_text(f"*.txt filter={driver}\n", encoding="utf-8")


def embedded(folder, tmp_path):
    """Make a repository with a commit and programs in a folder of another's work tree."""
    folder.mkdir()
    git(folder, "init", "-q")
    commit_files(folder, {"file.txt": "the first time.\n"})
    arm(folder, tmp_path)
    filters(folder / ".git", "own", tmp_path)
    return folder


NEWER_GIT = """#!/bin/sh
if [ "$1" = version ]; then echo "git version 2.54.0"; exit; fi
case " $* " in *" config "*|*" rev-parse "*|*" ls-files "*) exec {git} "$@" ;; esac
case "$1" in --git-dir=*) where=$1 ;; -C) where="-C $2" ;; *) where= ;; esac
for name in $({git} $where config --name-only --get-regexp '^hook[.].*[.]command$'); do
  hook=${{name%.command}}
  [ "$({git} $where config "$hook.enabled")" = false ] || touch '{ran}/'"$hook"
done
exec {git} "$@"
"""


@pytest.fixture
def newer_git(tmp_path, monkeypatch):
    """A git that runs the hooks which a configuration names itself unless they are off, at all but what only looks."""
    real = shutil.which("git")
    folder = tmp_path / "newer"
    folder.mkdir()
    (folder / "git").write_text(NEWER_GIT.format(git=real, ran=tmp_path / "ran"))
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(params=["bare", "checked out"])
def place(request, tmp_path):
    return repository(tmp_path, bare=request.param == "bare")


@pytest.fixture
def settlement():
    with Settlement("memory:", wait=5) as made:
        yield made


def others_commit(place, tmp_path, files):
    """Have somebody else commit to main, with none of the programs about."""
    clone = tmp_path / "other"
    git(tmp_path, "clone", "-q", "-c", "core.hooksPath=/dev/null", str(place), str(clone))
    commit_files(clone, files)
    new = git(clone, "rev-parse", "HEAD")
    quiet = [part for name in QUIET for part in ("-c", name)]
    git(place, *quiet, "fetch", "-q", "--upload-pack=git-upload-pack", str(clone), "HEAD")
    git(place, *quiet, "update-ref", "refs/heads/main", new)


class TestNothingRuns:
    def test_when_it_writes_reads_lists_compares_and_lands(self, place, settlement, tmp_path, ran):
        arm(place, tmp_path)
        repo = Git(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="n.txt", content="new\n")
            tx.call(repo.delete, path="src/b.py")
            told = [tx.call(repo.files), tx.call(repo.diff), tx.call(repo.read, path="n.txt")["content"]]
            tx.call(repo.log)
        assert (told[0], told[2], ran()) == (["a.txt", "n.txt"], "new\n", [])
        assert files_at(place) == {"a.txt": "one\ntwo\nthree", "n.txt": "new"}

    def test_when_both_sides_of_a_merge_changed_a_file_lines_are_merged(self, settlement, tmp_path, ran):
        place = repository(tmp_path)
        repo = Git(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="ONE\ntwo\nthree\n")
            others_commit(place, tmp_path, {"a.txt": "one\ntwo\nTHREE\n"})
            arm(place, tmp_path)
        assert (files_at(place)["a.txt"], ran()) == ("ONE\ntwo\nTHREE", [])

    def test_nor_does_a_driver_of_the_folder_that_the_process_runs_in(self, settlement, tmp_path, ran, monkeypatch):
        place = repository(tmp_path, bare=False)
        git(place, "checkout", "-q", "-b", "elsewhere")
        repo = Git(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="ONE\ntwo\nthree\n")
            others_commit(place, tmp_path, {"a.txt": "one\ntwo\nTHREE\n"})
            arm(place, tmp_path)
            (place / ".gitattributes").write_text("* merge=evil\n")
            monkeypatch.chdir(place)
        assert (files_at(place)["a.txt"], ran()) == ("ONE\ntwo\nTHREE", [])

    def test_when_a_work_tree_is_entered_committed_and_left(self, place, settlement, tmp_path, ran):
        arm(place, tmp_path)
        repo = Git(place, settlement)
        with repo.worktree("try") as folder:
            (folder / "n.txt").write_text("new\n")
            (folder / "a.txt").write_text("changed\n")
            with settlement.transaction("t") as tx:
                tx.call(repo.commit_worktree, worktree="try", text="x")
            (folder / "left.txt").write_text("left\n")
        assert ({n: files_at(place)[n] for n in ("a.txt", "n.txt")}, ran()) == (
            {"a.txt": "changed", "n.txt": "new"},
            [],
        )

    def test_when_a_work_tree_has_a_configuration_of_its_own(self, place, settlement, tmp_path, ran):
        arm(place, tmp_path)
        git(place, "config", "extensions.worktreeConfig", "true")
        git(place, "config", "--worktree", "core.bare", git(place, "config", "core.bare"))  # as git-worktree(1) asks
        git(
            place,
            "config",
            "--file",
            str(Path(git(place, "rev-parse", "--absolute-git-dir"), "config")),
            "--unset",
            "core.bare",
        )
        repo = Git(place, settlement)
        with repo.worktree("try") as folder:
            git(folder, "config", "--worktree", "filter.own.clean", f"touch '{tmp_path}/ran/own'; cat")
            (folder / ".gitattributes").write_text("*.own filter=own\n")
            (folder / "a.own").write_text("x")
            with pytest.raises(GitFault, match="a.own goes through the filter 'own'"):
                with settlement.transaction("t") as tx:
                    tx.call(repo.commit_worktree, worktree="try", text="x")
        assert [name for name in ran() if name != "core.fsmonitor"] == []

    @pytest.mark.parametrize("driver", ["", ".", "a.b", "=", "é", "UP"])
    def test_whatever_name_a_filter_has(self, place, settlement, tmp_path, ran, driver):
        folder = Path(git(place, "rev-parse", "--absolute-git-dir"))
        filters(folder, driver, tmp_path)
        repo, before = Git(place, settlement), files_at(place)
        with repo.worktree("try") as tree:
            (tree / "a.txt").write_text("changed\n")
            with pytest.raises(GitFault, match=re.escape(f"a.txt goes through the filter {driver!r}")):
                with settlement.transaction("t") as tx:
                    tx.call(repo.commit_worktree, worktree="try", text="x")
        assert (files_at(place), ran()) == (before, [])

    @pytest.mark.parametrize("depth", [1, 2])
    def test_when_a_repository_in_a_work_tree_names_them(self, place, settlement, tmp_path, ran, depth):
        repo = Git(place, settlement)
        with repo.worktree("try") as tree:
            inner = embedded(tree / "sub", tmp_path)
            inner = embedded(inner / "sub", tmp_path) if depth > 1 else inner
            with settlement.transaction("t") as tx:
                tx.call(repo.commit_worktree, worktree="try", text="x")  # it is a submodule from here on
            for each in (tree / "sub", inner):
                (each / "file.txt").write_text("same size, else\n")
                os.utime(each / "file.txt", (1, 1))
        assert (git(place, "ls-tree", "main", "sub").split()[:2], ran()) == (["160000", "commit"], [])

    @pytest.mark.usefixtures("newer_git")
    def test_when_the_configuration_names_hooks_itself(self, place, settlement, tmp_path, ran):
        repo = Git(place, settlement)
        for hook in ("linter", "a.b", "UP", ""):
            git(place, "config", f"hook.{hook}.event", "reference-transaction")
            git(place, "config", f"hook.{hook}.command", "true")
        with repo.worktree("try") as folder:
            (folder / "n.txt").write_text("new\n")
            with settlement.transaction("t") as tx:
                tx.call(repo.commit_worktree, worktree="try", text="x")
        with settlement.transaction("u") as tx:
            tx.call(repo.write, path="a.txt", content="changed\n")
        assert ran() == []
        assert (files_at(place)["a.txt"], ran()) == ("changed", ["hook.", "hook.UP", "hook.a.b", "hook.linter"])

    @pytest.mark.usefixtures("newer_git")
    def test_when_the_configuration_of_records_names_hooks_itself(self, tmp_path, ran):
        place = repository(tmp_path)
        books = Books(GitBackend(place))
        git(place, "config", "hook.linter.command", "true")
        books.transaction("t", lambda tx: tx.create("Note", {"text": "x"}, "one"))
        assert ran() == []

    def test_when_an_undo_takes_a_landing_back(self, place, settlement, tmp_path, ran):
        arm(place, tmp_path)
        repo = Git(place, settlement)
        before = files_at(place)

        with pytest.raises(ArithmeticError), settlement.transaction("t") as tx:
            tx.call(repo.write, path="a.txt", content="x")
            raise ArithmeticError
        assert (files_at(place), refs(place, "failed") != [], ran()) == (before, True, [])

    def test_when_it_pushes_and_publishes(self, place, settlement, tmp_path, ran):
        remote = tmp_path / "remote.git"
        git(tmp_path, "init", "-q", "--bare", str(remote))
        git(place, "remote", "add", "origin", str(remote))
        arm(place, tmp_path)
        repo = Git(place, settlement, remote="origin")
        with settlement.transaction("t") as tx:
            tx.call(repo.write, path="n.txt", content="new\n")
            tx.call(repo.push)
            tx.call(repo.publish, version="v1", text="the first")
        assert (files_at(remote)["n.txt"], git(remote, "tag"), ran()) == ("new", "v1", [])

    @pytest.mark.parametrize("how", ["an included file", "variables"])
    def test_when_another_file_or_the_processs_own_variables_name_them(
        self, place, settlement, tmp_path, ran, monkeypatch, how
    ):
        remote, theirs = tmp_path / "remote.git", tmp_path / "theirs"
        git(tmp_path, "init", "-q", "--bare", str(remote))
        git(place, "remote", "add", "origin", str(remote))
        for name in PROGRAMS:
            git(place, "config", "-f", str(theirs), name, f"touch '{tmp_path}/ran/{name.replace('/', '_')}'; false")
        git(place, "config", "-f", str(theirs), "core.hooksPath", str(tmp_path / "hooks"))
        for name in HOOKS:
            (tmp_path / "hooks").mkdir(exist_ok=True)
            (tmp_path / "hooks" / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran/hook-{name}'\nexit 1\n")
            (tmp_path / "hooks" / name).chmod(0o755)
        repo = Git(place, settlement, remote="origin")
        with monkeypatch.context() as given:
            if how == "variables":
                for name in COMMANDS_IN_VARIABLES:
                    given.setenv(name, f"touch '{tmp_path}/ran/{name}'; false")
                for name in PLACES_IN_VARIABLES:
                    given.setenv(name, str(tmp_path / "nowhere"))
                given.setenv("GIT_CONFIG_GLOBAL", str(theirs))
                given.setenv("GIT_CONFIG_PARAMETERS", f"'core.hooksPath'='{tmp_path}/hooks'")
            else:
                git(place, "config", "include.path", str(theirs))
            with settlement.transaction("t") as tx:
                tx.call(repo.write, path="a.txt", content="ONE\ntwo\nthree\n")
                tx.call(repo.diff)
                tx.call(repo.push)
        git(place, "config", "--unset-all", "include.path") if how == "an included file" else None
        assert (files_at(remote)["a.txt"], ran(), (tmp_path / "nowhere").exists()) == ("ONE\ntwo\nthree", [], False)

    def test_when_it_deploys(self, place, settlement, tmp_path, ran):
        arm(place, tmp_path)
        repo = Git(place, settlement, deploy={"here": ["cp", "a.txt", str(tmp_path / "deployed")]})
        with settlement.transaction("t") as tx:
            tx.call(repo.deploy, target="here")
        assert ((tmp_path / "deployed").read_text(), ran()) == ("one\ntwo\nthree\n", [])

    def test_when_records_are_committed_and_read(self, tmp_path, ran):
        place = repository(tmp_path)
        arm(place, tmp_path)
        books = Books(GitBackend(place))
        books.transaction("t", lambda tx: tx.create("Note", {"text": "x"}, "one"))
        assert ([note["text"] for note in Books(GitBackend(place)).query_records("Note")], ran()) == (["x"], [])

    def test_and_records_are_not_swept_where_a_program_would_say_what_to_keep(self, tmp_path, ran):
        place = repository(tmp_path)
        arm(place, tmp_path)
        with pytest.raises(StoreError, match=r"gc\.recentObjectsHook, which is not run here: nothing was removed"):
            GitBackend(place).sweep()
        git(place, "config", "--unset", "gc.recentObjectsHook")
        assert (GitBackend(place).sweep(), ran()) == ([], [])

    def test_though_git_itself_would_run_them(self, tmp_path, ran):
        place = repository(tmp_path, bare=False)
        arm(place, tmp_path)
        (place / "a.txt").write_text("changed\n")
        (place / "b.secret").write_text("changed\n")
        for asked in (["diff", "--cached"], ["add", "-A"], ["update-ref", "refs/heads/x", "HEAD"]):
            subprocess.run(["git", "-C", str(place), *asked], capture_output=True, check=False)
        assert {"core.fsmonitor", "filter.evil.process", "hook-reference-transaction"} <= set(ran())

    def test_and_this_git_knows_no_other_setting_that_looks_like_a_program(self):
        told = subprocess.run(["git", "help", "--config-for-completion"], capture_output=True, text=True, check=True)
        ends = (
            "command",
            "cmd",
            "driver",
            "helper",
            "program",
            "textconv",
            "hook",
            "editor",
            "pager",
            "askpass",
            "gitproxy",
            "external",
            "fsmonitor",
            "difffilter",
        )
        found = {name for name in told.stdout.split() if name.lower().endswith(ends)}
        # Of commands that are never run here; and what is no program at all.
        other = {
            "advice.ignoredHook",
            "advice.waitingForEditor",
            "gitcvs.dbDriver",
            "sendemail.ccCmd",
            "sendemail.tocmd",
            "sendemail.headerCmd",
            "color.pager",
        }
        assert found - other <= set(PROGRAMS)


class TestWhatAFilterWouldChange:
    """A filter is a program, too: what it would have made of a file nobody can tell, so such a file is not written."""

    @pytest.fixture(autouse=True)
    def filtered(self, place, tmp_path):
        arm(place, tmp_path)

    @pytest.mark.parametrize("tool", ["write", "commit"])
    def test_is_refused_before_anything_is_written(self, place, settlement, ran, tool):
        repo, before = Git(place, settlement), files_at(place)
        call = {"write": {"path": "b.secret", "content": "x"}, "commit": {"files": {"b.secret": "x"}, "text": "x"}}
        with pytest.raises(GitFault, match="b.secret goes through the filter 'evil'") as caught:
            with settlement.transaction("t") as tx:
                tx.call(getattr(repo, tool), **call[tool])
        assert (caught.value.data["path"], files_at(place), refs(place, "work"), ran()) == ("b.secret", before, [], [])

    def test_is_refused_by_attributes_of_the_files_themselves(self, place, settlement, ran):
        repo, before = Git(place, settlement), files_at(place)
        with pytest.raises(GitFault, match="k.pem goes through the filter 'evil'"):
            with settlement.transaction("t") as tx:
                tx.call(repo.write, path=".gitattributes", content="*.pem filter=evil\n")
                tx.call(repo.write, path="k.pem", content="x")
        assert (files_at(place), ran()) == (before, [])

    def test_is_refused_in_a_work_tree(self, place, settlement, ran):
        repo, before = Git(place, settlement), files_at(place)
        with repo.worktree("try") as folder:
            (folder / "b.secret").write_text("x")
            with pytest.raises(GitFault, match="b.secret goes through the filter 'evil'"):
                with settlement.transaction("t") as tx:
                    tx.call(repo.commit_worktree, worktree="try", text="x")
        assert (files_at(place), ran()) == (before, [])

    def test_is_deleted_as_any_other(self, place, settlement, tmp_path, ran):
        others_commit(place, tmp_path, {"b.secret": "x"})
        repo = Git(place, settlement)
        with settlement.transaction("t") as tx:
            tx.call(repo.delete, path="b.secret")
        assert ("b.secret" in files_at(place), ran()) == (False, [])

    def test_is_not_deployed(self, place, settlement, tmp_path, ran):
        others_commit(place, tmp_path, {"b.secret": "x"})
        repo = Git(place, settlement, deploy={"here": ["touch", str(tmp_path / "deployed")]})
        with pytest.raises(Refused, match="b.secret goes through the filter 'evil'"):
            with settlement.transaction("t") as tx:
                tx.call(repo.deploy, target="here")
        assert ((tmp_path / "deployed").exists(), ran()) == (False, [])
