"""`settlemark lint` and `settlemark adopt`, as a terminal sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.rooms.lint import marked

import settlemark
from settlemark.lint import RULES

BAD = """
from settlemark import effect

@effect("reversible", scope="mail:/{subject}", undo=lambda **_: None)
def send_mail(to, subject): smtp.send(to, subject)
"""
GOOD = """
from settlemark import effect

@effect("irreversible", scope="mail:/{to}", probe=find_mail)
def send_mail(to, subject): smtp.send(to, subject)
"""
TOOLS = """
@tool
def book_room(hotel): hotels.book(hotel)
def cancel_room(hotel): hotels.cancel(hotel)
@tool
def send_mail(to): smtp.send(to)
"""


@pytest.fixture
def tools(tmp_path):
    def write(text):
        path = tmp_path / "tools.py"
        path.write_text(text)
        return path

    return write


# ---- lint


def test_findings_are_told_with_line_and_mend_and_exit_with_1(tools, run):
    tools(BAD)
    said = run("lint", "tools.py")
    assert said.exit_code == 1
    assert said.stdout.replace("\n", "|") == (
        "tools.py:4: SM103 undo-does-nothing (error): the undo of send_mail does nothing: an abort says clean, and what"
        ' it did stays|    write: "irreversible", scope="mail:/{subject}": it is held until its step has succeeded|'
        "tools.py:4: SM104 outcome-unknowable (warning): send_mail reaches out of this process (smtp.send(to, subject))"
        " without probe or key: after a lost answer nobody can tell whether it happened, so it stays in doubt|"
        "    write: keyed=True, and send current_call().key along; or probe=…, which asks by the key|"
        "tools.py:4: SM203 scope-too-narrow (error): the scope of send_mail names `subject`, which a model writes anew"
        ' each time: two calls on one resource have different scopes, and both go on|    write: scope="mail:/{to}"|'
        "3 findings|"
    )


@pytest.mark.parametrize(("rule", "count"), [("SM103", "1 finding"), ("SM1", "2 findings")])
def test_one_finding_is_told_as_one_and_several_as_several(tools, run, rule, count):
    tools(BAD)
    assert run("lint", "tools.py", "--select", rule).stdout.splitlines()[-1] == count


def test_nothing_found_exits_with_0(tools, run):
    tools(GOOD)
    said = run("lint", "tools")
    assert (said.exit_code, said.stdout) == (0, "nothing found\n")


def test_as_json_every_field_is_there(tools, run, run_json):
    tools(BAD)
    assert run_json("lint", "tools.py", "--select", "SM203") == [
        {
            "rule": "SM203", "name": "scope-too-narrow", "severity": "error", "tool": "send_mail", "file": "tools.py",
            "line": 4, "mend": 'scope="mail:/{to}"',
            "what": "the scope of send_mail names `subject`, which a model writes anew each time: two calls on one"
            " resource have different scopes, and both go on",
        }
    ]  # fmt: skip # a list of names and values
    assert run("lint", "tools.py", "--json").exit_code == 1
    tools(GOOD)
    assert run_json("lint", "tools.py") == []


def test_rules_are_selected_and_ignored_one_by_one_or_with_commas(tools, run_json):
    tools(BAD)

    def rules(*options):
        return [each["rule"] for each in run_json("lint", "tools.py", *options)]

    assert rules("--select", "SM1") == ["SM103", "SM104"]
    assert rules("--ignore", "SM103,SM2") == ["SM104"]
    assert rules("--ignore", "SM103", "--ignore", "SM203") == ["SM104"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "name what to look at: settlemark lint yourapp.tools, or path/to/tools.py"),
        (
            ("no.such.module",),
            "there is no module or path 'no.such.module' here: name yourapp.tools, or path/to/tools.py",
        ),
        (("tools.py", "--select", "SM9"), "there is no rule 'SM9': the rules are SM001,"),
    ],
)
def test_a_usage_error_exits_with_2(tools, run, arguments, why):
    tools(GOOD)
    said = run("lint", *arguments)
    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.startswith(f"settlemark: {why}")


def test_it_tells_what_it_looks_for(run):
    said = run("lint", "--rules")
    assert said.exit_code == 0
    assert [line.split()[:2] for line in said.stdout.splitlines()] == [
        [rule.code, rule.name] for rule in RULES.values()
    ]


def test_importing_settlemark_loads_no_linter():
    core = Path(settlemark.__file__).parents[1]
    code = (
        f"import sys; sys.path.insert(0, {str(core)!r}); import settlemark, settlemark._cli.main; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "settlemark.lint" not in done.stdout.split()


# ---- adopt


def test_guesses_are_written_to_a_file_and_told(tools, run, tmp_path):
    tools(TOOLS)
    said = run("adopt", "tools")
    assert said.exit_code == 0
    assert said.stdout.splitlines() == [
        "tools.py:3: book_room: reversible on room:/{hotel}",
        "    cancel_room (tools.py:4) looks like its undo",
        "tools.py:6: send_mail: irreversible on mail:/{to}",
        '    its name says "send": held until its step has succeeded',
        "declarations.py: 2 guesses to decide",
    ]
    assert marked((tmp_path / "declarations.py").read_text()) == ["book_room", "send_mail"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["declarations.py", "tools.py"]


def test_one_guess_is_told_as_one(tools, run):
    tools("@tool\ndef send_mail(to): smtp.send(to)\n")
    assert run("adopt", "tools").stdout.splitlines()[-1] == "declarations.py: 1 guess to decide"


def test_again_it_adds_what_is_new_and_changes_nothing_else(tools, run, tmp_path):
    tools(TOOLS)
    run("adopt", "tools.py", "--output", "app.py")
    before = (tmp_path / "app.py").read_text()
    said = run("adopt", "tools.py", "--output", "app.py")
    assert (said.exit_code, said.stdout) == (0, "app.py: no tool is new; 2 existing ones stay as they are\n")
    assert (tmp_path / "app.py").read_text() == before

    tools(TOOLS.replace("book_room", "rent_car") + "@tool\ndef pay_bill(bill): bank.pay(bill)\n")
    said = run("adopt", "tools.py", "--output", "app.py")
    assert "app.py declares book_room, which no longer exist: delete them there" in said.stdout
    assert said.stdout.endswith("app.py: 2 guesses to decide; 2 existing ones stay as they are\n")
    assert marked((tmp_path / "app.py").read_text()) == ["book_room", "send_mail", "rent_car", "pay_bill"]


def test_a_file_of_somebody_elses_is_never_written_over_but_with_force(tools, run, tmp_path):
    tools(TOOLS)
    (tmp_path / "declarations.py").write_text("precious = 1\n")
    said = run("adopt", "tools.py")
    assert said.exit_code == 2
    assert said.stderr == (
        "settlemark: declarations.py is there already, and it has no function declare_tools(settlement), so `settlemark"
        " adopt` did not write it; name another file with --output, or write over it with --force\n"
    )
    assert (tmp_path / "declarations.py").read_text() == "precious = 1\n"

    assert run("adopt", "tools.py", "--force").exit_code == 0
    assert marked((tmp_path / "declarations.py").read_text()) == ["book_room", "send_mail"]


def test_to_the_screen_it_writes_no_file(tools, run, tmp_path):
    tools(TOOLS)
    said = run("adopt", "tools.py", "--output", "-")
    assert said.exit_code == 0
    compile(said.stdout, "declarations.py", "exec")
    assert [path.name for path in tmp_path.iterdir()] == ["tools.py"]


def test_as_json_each_guess_has_its_reasons_and_its_line(tools, run_json):
    tools(TOOLS)
    found = run_json("adopt", "tools.py")
    assert (found["output"], found["kept"], found["gone"]) == ("declarations.py", [], [])
    assert found["guesses"][1] == {
        "tool": "send_mail", "file": "tools.py", "at": 6, "kind": "irreversible", "scope": "mail:/{to}", "undo": None,
        "handler": None,
        "reasons": ['its name says "send": held until its step has succeeded', 'its name says "mail"',
                    "to: an address by its name"],
        "declaration": 'settlement.declare("send_mail", "irreversible", scope="mail:/{to}")',
    }  # fmt: skip # a table


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "name what to look at: settlemark adopt yourapp.tools, or path/to/tools.py"),
        (("no_such_module",), "there is no module or path 'no_such_module' here"),
        (("tools.py", "--output", "no/such/folder/d.py"), "no/such/folder/d.py cannot be written"),
        (("tools.py", "--output", "."), ". cannot be read"),
    ],
)
def test_where_it_cannot_it_exits_with_2_and_writes_nothing(tools, run, tmp_path, arguments, why):
    tools(TOOLS)
    said = run("adopt", *arguments)
    assert said.exit_code == 2
    assert said.stderr.startswith(f"settlemark: {why}")
    assert [path.name for path in tmp_path.iterdir()] == ["tools.py"]


def test_a_file_that_cannot_be_parsed_is_left_out_and_named(tools, run, tmp_path):
    tools(TOOLS)
    (tmp_path / "broken.py").write_text("def (:\n")
    said = run("adopt", ".")
    assert said.exit_code == 0
    assert "left out: broken.py:1: invalid syntax" in said.stderr
    assert marked((tmp_path / "declarations.py").read_text()) == ["book_room", "send_mail"]
