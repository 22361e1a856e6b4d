"""Any command is opaque; those whose pattern is declared are tools; folder and environment are confined."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import threading

import pytest
from tests.adapters.shell.subject import PATTERNS, look, make

from settlemark import DeclarationError, InDoubt, PayloadError, Refused, ScopeError, Settlement
from settlemark.hosting import declaration_of, host_of
from settlemark.testing import die, in_child
from settlemark_adapters.shell import CommandFailed, CommandTimeout, CommandUnknown, Pattern, Shell, _running


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    made.mkdir()
    return made


def call(settlement, tool, *, fail=False, **arguments):
    with settlement.transaction("t") as tx:
        result = tx.call(tool, **arguments)
        if fail:
            raise Abandoned
    return result


class Abandoned(Exception):
    pass


def outcomes(settlement):
    return [
        (effect.row.tool, effect.outcome, effect.tag)
        for transaction in settlement.transactions()
        for effect in transaction.effects
    ]


# ---- any command


def test_it_is_opaque_and_returns_what_the_command_said(root, settlement):
    shell = Shell(root, settlement)
    said = call(settlement, shell.run, command="sh -c 'echo out; echo err >&2; exit 3'")
    assert said == {"exit_code": 3, "stdout": "out\n", "stderr": "err\n", "truncated": False}
    assert declaration_of(shell.run).kind == "opaque"


def test_of_a_step_that_fails_it_stays_and_is_named(root, settlement):
    shell = Shell(root, settlement)
    with pytest.raises(Abandoned):
        call(settlement, shell.run, command="touch made", fail=True)
    assert look(root) == [("made", "")]
    (left,) = settlement.residue()
    assert (left.tool, left.tag, left.arguments["command"]) == ("run_command", "unresolved", "touch made")


def test_there_is_no_shell_unless_it_is_allowed(root, settlement):
    shell = Shell(root, settlement)
    with pytest.raises(ValueError, match="there is no shell here to read 'echo a > b': nothing was run"):
        call(settlement, shell.run, command="echo a > b")
    assert call(settlement, shell.run, command="echo $HOME '*' ';' a;b")["stdout"] == "$HOME * ; a;b\n"
    assert look(root) == []
    allowed = Shell(root, sh=True)
    assert allowed.run("echo $HOME > b && cat b | wc -l")["stdout"].strip() == "1"
    assert look(root) == [("b", f"{root}\n")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": ""},
        {"command": "  "},
        {"command": "''"},
        {"command": "echo 'a"},
        {"command": "echo \0"},
        {"command": ["echo"]},
        {"command": None},
        {"command": "touch made", "directory": "missing"},
        {"command": "touch made", "directory": ".."},
        {"command": "touch made", "directory": "/tmp"},
        {"command": "touch made", "directory": "out"},
        {"command": "touch made", "directory": "a/../../x"},
        {"command": "touch made", "directory": "\0"},
    ],
    ids=repr,
)
@pytest.mark.parametrize("sh", [False, True])
def test_what_cannot_be_run_is_refused_before_anything(root, settlement, wrong, sh):
    (root / "out").symlink_to(root.parent)
    shell = Shell(root, settlement, sh=sh)
    before = look(root.parent)
    with pytest.raises((ValueError, OSError), match=r"run_command: "):
        call(settlement, shell.run, **wrong)
    assert (look(root.parent), settlement.transactions()) == (before, [])


@pytest.mark.parametrize("command", ["no-such-program x", "./missing", "../root/missing"])
def test_a_program_that_is_not_there_is_told_before_anything(root, settlement, command):
    shell = Shell(root, settlement)
    with pytest.raises(FileNotFoundError, match="run_command: there is no program"):
        call(settlement, shell.run, command=command)
    assert (look(root), settlement.transactions()) == ([], [])


def test_half_a_character_is_refused_too(root, settlement):
    shell = Shell(root, settlement)
    with pytest.raises(PayloadError):
        call(settlement, shell.run, command="echo \ud800")
    with pytest.raises(ValueError, match="no program can be given"):
        shell.run("echo \ud800")
    assert settlement.transactions() == []


def test_it_runs_in_a_folder_under_the_root(root):
    (root / "a").mkdir()
    (root / "b").symlink_to("a")
    shell = Shell(root)
    assert [shell.run("pwd -P", directory=d)["stdout"].strip() for d in (".", "a", "b", str(root / "a"))] == [
        str(root),
        *[str(root / "a")] * 3,
    ]


def test_it_inherits_nothing_and_its_secrets_are_blotted_out(root, monkeypatch, settlement):
    monkeypatch.setenv("AWS_SECRET", "of-this-process")
    shell = Shell(root, settlement, environment={"STAGE": "test"}, secrets={"TOKEN": "tok-123456"}, sh=True)
    said = call(settlement, shell.run, command="env; echo $TOKEN >&2; test ${#TOKEN} = 10")
    variables = dict(line.split("=", 1) for line in said["stdout"].splitlines())
    for of_the_shell in ("PWD", "SHLVL", "_", "OLDPWD"):
        variables.pop(of_the_shell, None)
    assert variables == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(root),
        "LANG": "C.UTF-8",
        "STAGE": "test",
        "TOKEN": "***",
        "SETTLEMARK_KEY": "t#1/0",
    }
    assert (said["stderr"], said["exit_code"]) == ("***\n", 0)
    assert "tok-123456" not in f"{shell!r} {settlement.transactions()}"


def test_its_output_is_bounded(root):
    shell = Shell(root, most_output=10, sh=True)
    said = shell.run("printf 0123456789abcdef; printf xyz >&2")
    assert said == {
        "exit_code": 0,
        "stdout": "01234\n[… 6 bytes left out …]\nbcdef",
        "stderr": "xyz",
        "truncated": True,
    }


def test_one_that_takes_too_long_is_killed_and_in_doubt(root, settlement):
    shell = Shell(root, settlement, timeout=0.2)
    with pytest.raises(InDoubt, match="killed after 0.2 s: how far it came is unknown"):
        call(settlement, shell.run, command="sleep 60")
    assert outcomes(settlement) == [("run_command", "unknown", "unresolved")]


# ---- declared ones


def test_a_pattern_is_a_tool_of_its_own(root, settlement):
    shell = make(settlement, root)
    assert [tool.__name__ for tool in shell.tools()] == ["run_command", "mkdir", "ls", "touch", "publish"]
    mkdir = shell.tool("mkdir")
    assert str(inspect.signature(mkdir)) == "(path: str) -> dict[str, typing.Any]"
    assert inspect.getdoc(mkdir).startswith("Run `mkdir {path:path}`.")
    assert settlement.declared("mkdir").kind == "reversible"
    assert mkdir("alone")["exit_code"] == 0
    assert look(root) == [("alone", None)]


def test_committed_it_stays_and_aborted_it_is_undone(root, settlement):
    mkdir = make(settlement, root).tool("mkdir")
    with settlement.transaction("kept") as tx:
        tx.call(mkdir, path="kept")
    with pytest.raises(Abandoned), settlement.transaction("t") as tx:
        tx.call(mkdir, path="./kept/../undone")
        assert look(root) == [("kept", None), ("undone", None)]
        raise Abandoned
    assert (look(root), settlement.residue()) == ([("kept", None)], [])
    assert {t.row.name: t.effects[0].row.scope for t in settlement.transactions()} == {
        "kept": "file:/kept",
        "t": "file:/undone",
    }


def test_two_spellings_of_a_file_are_one_scope(root, settlement):
    (root / "a").mkdir()
    (root / "b").symlink_to("a")
    shell = make(settlement, root)
    scopes = {
        str(declaration_of(shell.tool("mkdir")).scopes({"path": path})[0])
        for path in ("a/x", "./a//x", "b/x", "a/../b/x", str(root / "a/x"))
    }
    assert scopes == {"file:/a/x"}
    assert str(declaration_of(shell.tool("ls")).scopes({"path": "."})[0]) == "file:/"


def test_an_undo_that_fails_is_named(root, settlement):
    mkdir = make(settlement, root).tool("mkdir")
    with pytest.raises(Abandoned), settlement.transaction("t") as tx:
        tx.call(mkdir, path="busy")
        (root / "busy" / "of another").write_text("x")
        raise Abandoned
    (left,) = settlement.residue()
    assert (left.tag, left.scope) == ("unresolved", "file:/busy")
    assert "the undo `rmdir busy` of mkdir exited with 1" in left.note
    assert look(root) == [("busy", None), ("busy/of another", "x")]


def test_what_was_there_before_is_refused_and_not_taken_back(root, settlement):
    (root / "there").mkdir()
    mkdir = make(settlement, root).tool("mkdir")
    with pytest.raises(CommandFailed, match="`test ! -e there` says no: nothing was run"):
        call(settlement, mkdir, path="there")
    assert (look(root), outcomes(settlement)) == ([("there", None)], [("mkdir", "failed", "clean")])


def test_a_command_that_says_no_has_done_nothing_although_the_probe_finds_what_is_anothers(root, settlement):
    pattern = Pattern(
        "mkdir {path:path}", "reversible", scope="file:/{path:path}", undo="rmdir {path}", probe="test -d {path}"
    )
    mkdir = Shell(root, settlement, patterns=[pattern]).tool("mkdir")
    (root / "there").mkdir()
    with pytest.raises(CommandFailed, match="File exists") as failed:
        call(settlement, mkdir, path="there")
    assert failed.value.exit_code == 1
    assert (look(root), outcomes(settlement)) == ([("there", None)], [("mkdir", "failed", "clean")])


def test_a_read_returns_its_status_whatever_it_is(root, settlement):
    ls = make(settlement, root).tool("ls")
    assert call(settlement, ls, path=".")["stdout"] == ""
    assert make(None, root).tool("ls")("missing")["exit_code"] == 2


def test_a_held_one_runs_when_its_step_settles(root, settlement):
    publish = make(settlement, root).tool("publish")
    (root / "draft").write_text("7")
    with settlement.transaction("t") as tx:
        tx.call(publish, source="draft", target="page")
        assert look(root) == [("draft", "7")]
    assert look(root) == [("draft", "7"), ("page", "7")]


def test_a_status_that_does_not_say_leaves_it_unknown(root, settlement):
    pattern = Pattern("sh -c {script}", "reversible", name="do", scope="do:/it", undo="true", refused=(1,))
    do = Shell(root, settlement, patterns=[pattern]).tool("do")
    with pytest.raises(InDoubt, match="ended with 7, which does not say if it is done"):
        call(settlement, do, script="touch half; exit 7")
    assert outcomes(settlement) == [("do", "unknown", "unresolved")]
    with pytest.raises(CommandUnknown, match="ended with 137, which does not say"):
        Shell(root, patterns=[pattern]).tool("do")("kill -9 $$")
    with pytest.raises(CommandFailed):
        Shell(root, patterns=[pattern]).tool("do")("exit 1")


def test_sent_again_under_its_key_it_answers_what_is_known(root):
    pattern = Pattern("sh -c {script}", "idempotent", name="do", scope="do:/it")
    shell = Shell(root, patterns=[pattern])
    given = {"script": "echo said; echo once >> made"}
    for stdout in ("said\n", ""):
        with shell._around(pattern, given, "t#1/0"):
            assert shell._act(pattern, given) == {"exit_code": 0, "stdout": stdout, "stderr": "", "truncated": False}
    assert look(root) == [("made", "once\n")]


def test_where_settlemark_keeps_what_it_knows_no_pattern_reaches(root, settlement):
    mkdir = make(settlement, root).tool("mkdir")
    call(settlement, mkdir, path="inbox")
    for path in (".settlemark", ".settlemark/commands/x", "inbox/../.settlemark/y"):
        with pytest.raises(PermissionError, match="where settlemark keeps"):
            mkdir(path)
    assert look(root) == [("inbox", None)]


def test_a_timeout_is_asked_about(root, settlement):
    pattern = Pattern("sh -c {script}", "reversible", name="do", scope="do:/it", undo="rm made", probe="test -e made")
    do = Shell(root, settlement, patterns=[pattern], timeout=0.3).tool("do")
    with pytest.raises(Abandoned):
        call(settlement, do, script="touch made; sleep 60", fail=True)
    assert (look(root), settlement.residue()) == ([], [])


def test_a_pattern_may_use_a_shell_and_what_it_is_filled_with_is_no_syntax(root, settlement):
    pattern = Pattern("printf '%s\\n' {line} | tee -a {file:path}", "opaque", name="note", sh=True)
    note = Shell(root, settlement, patterns=[pattern]).tool("note")
    evil = "$(touch x) `touch y`; touch z | '\""
    call(settlement, note, line=evil, file="a b")
    assert look(root) == [("a b", f"{evil}\n")]


@pytest.mark.parametrize("wrong", ["", "-p", "..", "../x", "/etc", "out/x", "\0", "\ud800", 7, None], ids=repr)
def test_what_a_pattern_must_not_be_filled_with_is_refused_before_anything(root, settlement, wrong):
    (root / "out").symlink_to(root.parent)
    mkdir = make(settlement, root).tool("mkdir")
    before = look(root.parent)
    with pytest.raises((ValueError, OSError, ScopeError), match="mkdir: "):
        call(settlement, mkdir, path=wrong)
    with pytest.raises((ValueError, OSError), match="mkdir: "):
        mkdir(wrong)
    assert (look(root.parent), settlement.transactions()) == (before, [])


def test_what_follows_must_be_words_too(root, settlement):
    shell = Shell(root, settlement, patterns=[Pattern("ls *", "read")])
    with pytest.raises(ValueError, match="ls: arguments=7: give text"):
        call(settlement, shell.tool("ls"), arguments=[7])
    assert settlement.transactions() == []


# ---- the two together


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("mkdir inbox", "call mkdir(path='inbox')"),
        ("/bin/mkdir inbox", "call mkdir(path='inbox')"),
        ("cp a b", "call publish(source='a', target='b')"),
        ("sh -c 'cp -r a b'", "call publish, or say it in other words"),
    ],
)
def test_any_command_may_not_do_what_a_tool_is_for(root, settlement, command, advice):
    (root / "a").write_text("7")
    shell = make(settlement, root)
    with pytest.raises(PermissionError) as refused:
        call(settlement, shell.run, command=command)
    assert advice in str(refused.value)
    assert "nothing was run" in str(refused.value)
    assert (look(root), settlement.transactions()) == ([("a", "7")], [])


def test_in_a_shell_neither(root):
    (root / "a").write_text("7")
    shell = Shell(root, patterns=PATTERNS, sh=True)
    with pytest.raises(PermissionError):
        shell.run("true && cp a b")
    assert look(root) == [("a", "7")]


def test_a_function_of_the_users_own_runs_under_a_patterns_declaration(root, settlement):
    shell = make(settlement, root)

    def make_folder(name: str) -> dict[str, int]:
        os.mkdir(root / name)  # noqa: PTH102 - what a user may write
        return {}

    mine = shell.declare("mkdir", make_folder, path="name")
    with pytest.raises(Abandoned):
        call(settlement, mine, name="inbox", fail=True)
    assert (look(root), settlement.residue()) == ([], [])


@pytest.mark.parametrize("before", [True, False])
def test_a_process_that_dies_beside_the_command_is_recovered_from(tmp_path, root, before):
    url = f"sqlite:///{tmp_path}/ledger.db"

    def play(_tell):
        with Settlement(url) as settlement:
            shell = make(settlement, root)
            act = shell._act

            def and_die(*arguments):
                if not before:
                    act(*arguments)
                die()

            shell._act = and_die
            with settlement.transaction("t") as tx:
                tx.call(shell.tool("mkdir"), path="inbox")

    assert in_child(play).killed
    assert look(root) == ([] if before else [("inbox", None)])
    with Settlement(url) as settlement:
        make(settlement, root)
        settlement.recover(keep_open=0)
        assert (look(root), settlement.residue(), settlement.in_doubt()) == ([], [], [])


def test_a_release_whose_process_died_is_asked_about_and_happens_once(tmp_path, root):
    url = f"sqlite:///{tmp_path}/ledger.db"
    (root / "draft").write_text("7")

    def play(_tell):
        with Settlement(url) as settlement:
            shell = make(settlement, root)
            shell._act = lambda *_: die()
            with settlement.transaction("t") as tx:
                tx.call(shell.tool("publish"), source="draft", target="page")

    assert in_child(play).killed
    with Settlement(url) as settlement:
        make(settlement, root)
        settlement.recover()
        assert (look(root), settlement.residue()) == ([("draft", "7"), ("page", "7")], [])


def test_a_command_that_goes_on_without_its_starter_is_not_judged_by_what_is_there_yet(tmp_path, root):
    url = f"sqlite:///{tmp_path}/ledger.db"
    go = tmp_path / "go"
    os.mkfifo(go)
    pattern = Pattern("sh -c {script}", "idempotent", name="do", scope="do:/it", probe="test -e made")

    def opened(settlement):
        return Shell(root, settlement, patterns=[pattern])

    def play(_tell):
        with Settlement(url) as settlement:
            shell = opened(settlement)

            def start_and_die(_pattern, given):
                mark = _running.get().mark
                words = mark.wrapped(["/bin/sh", "-c", given["script"]])
                subprocess.Popen(words, pass_fds=(mark.fd,), cwd=root, stdout=subprocess.DEVNULL)
                die()

            shell._act = start_and_die
            with settlement.transaction("t") as tx:
                tx.call(shell.tool("do"), script=f"read line <{go}; touch made")

    assert in_child(play).killed
    with Settlement(url) as settlement:
        shell = opened(settlement)
        host_of(settlement).driver.probing.on_doubt = None  # nobody asks again but this test
        settlement.recover(keep_open=0)
        (doubt,) = settlement.in_doubt()
        assert (doubt.tool, look(root)) == ("do", [])
        go.write_text("\n")
        while shell._marks.told(doubt.key).running:  # it ends by itself: nobody here is its parent
            threading.Event().wait(0.001)
        settlement.recover(keep_open=0)
        assert (look(root), settlement.in_doubt()) == ([("made", "")], [])
        assert outcomes(settlement) == [("do", "confirmed", "unresolved")]


def test_two_patterns_of_one_name_are_refused(root):
    with pytest.raises(DeclarationError, match="two patterns of this Shell make the tool git_log"):
        Shell(root, patterns=[Pattern("git log {x}", "read"), Pattern("git log *", "read")])
    with pytest.raises(DeclarationError, match="make the tool run_command"):
        Shell(root, patterns=[Pattern("run command *", "read")])


def test_a_root_that_is_no_folder_is_refused(root):
    (root / "file").write_text("")
    for wrong in ("missing", "file"):
        with pytest.raises(NotADirectoryError, match="is no folder"):
            Shell(root / wrong)


def test_its_errors_survive_a_pickle():
    for error in (CommandFailed("no", exit_code=3, stderr="x"), CommandTimeout("late", stdout="x")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_refusal_at_the_release_names_the_command(root, settlement):
    publish = make(settlement, root).tool("publish")
    with pytest.raises(Refused, match="publish: `cp .source:path. .target:path.` exited with 1"):
        call(settlement, publish, source="missing", target="page")
    assert (look(root), settlement.residue()) == ([], [])


def test_a_program_is_that_of_the_path_and_not_one_that_sh_has_itself(root, settlement):
    (root.parent / "bin").mkdir()
    program = root.parent / "bin" / "echo"
    program.write_text('#!/bin/sh\nprintf "own %s" "$1"\n')
    program.chmod(0o755)
    own = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    say = Shell(root, settlement, patterns=[Pattern("echo {x}", "opaque")], environment=own).tool("echo")
    assert call(settlement, say, x=r"a\nb")["stdout"] == r"own a\nb"
