"""The pages that are made of the code are the code's: none is old, and nothing is missing from them."""

from __future__ import annotations

import ast
import inspect
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.reference import cli, errors, settings
from tests.reference.__main__ import main
from tests.reference.api import doors
from tests.reference.fences import fenced
from tests.reference.making import DIAGRAMS, DOCS, REFERENCE, old
from tests.rooms.cli import COMMANDS, FOUND, Exit
from tests.rooms.protocol import FINISHED, TRANSITIONS

from settlemark import Settlement, effect
from settlemark.hosting import declare

ROOT = Path(__file__).parents[1]
# Their rooms' classes speak with the remedy of the class above them.
INHERITED = {"Undone", "DoneBefore", "Unfit", "WriteConflict", "Lapsed"}


def test_no_page_is_old():
    assert old() == []


def test_a_page_that_is_old_is_told_with_the_command_that_mends_it(monkeypatch, capsys):
    monkeypatch.setattr("tests.reference.__main__.old", lambda: ["reference/cli.md"])

    assert main("--check") == 1
    assert capsys.readouterr().out == "reference/cli.md is old: run python -m tests.reference\n"


def test_every_class_of_error_says_what_to_do_in_one_sentence_of_its_own():
    found = errors.classes()
    lacking = {cls.__name__ for cls in found if "remedy" not in vars(cls)}
    remedies = [cls.remedy for cls in found if "remedy" in vars(cls)]

    assert len(found) >= 35
    assert lacking == INHERITED
    assert len(set(remedies)) == len(remedies)
    assert [text for text in remedies if not re.fullmatch(r"[A-Z].{20,}\.", text)] == []


def test_the_page_of_errors_names_every_class_with_its_remedy():
    page = (REFERENCE / "errors.md").read_text()
    for cls in errors.classes():
        section = page.split(f"\n## {cls.__name__}\n")[1].split("\n## ")[0]
        assert f"**What to do.** {cls.remedy}" in section


def test_the_page_of_the_command_line_names_every_command_and_option():
    page = (REFERENCE / "cli.md").read_text()
    assert set(re.findall(r"^## (.+)$", page, flags=re.MULTILINE)) == set(cli.commands())
    for name, command in cli.commands().items():
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        for option in (one for one in command.params if one.param_type_name == "option"):
            assert [spelled for spelled in option.opts if f"`{spelled}`" not in section] == []


def _says_found(command):
    module = inspect.getmodule(command)
    own = inspect.getsource(command)
    called = [value for name, value in vars(module).items() if inspect.isfunction(value) and f"{name}(" in own]
    return any("Exit.FOUND" in inspect.getsource(one) for one in (command, *called))


def test_the_commands_with_status_1_are_those_that_are_told_to_have_it():
    own = {command.__name__.replace("_", "-"): command for command in COMMANDS}
    assert {name for name, command in own.items() if _says_found(command)} == set(FOUND) & set(own)
    assert set(FOUND) <= set(cli.commands())


def test_no_command_of_core_exits_with_a_number_of_its_own():
    exits = [
        node
        for path in (ROOT / "core" / "settlemark" / "_cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and re.fullmatch(r"typer\.Exit|sys\.exit|fail", ast.unparse(node.func))
    ]
    told = [
        *(one for call in exits for one in call.args if isinstance(one, ast.Constant | ast.IfExp)),
        *(keyword.value for call in exits for keyword in call.keywords),
    ]
    numbers = [one for node in told for one in ast.walk(node) if isinstance(one, ast.Constant)]
    assert len(exits) > 30
    assert [ast.unparse(one) for one in numbers if isinstance(one.value, int)] == []
    assert [int(status) for status in Exit] == [0, 1, 2]


@pytest.mark.parametrize("function", [Settlement, effect], ids=["Settlement", "effect"])
def test_every_setting_is_told(function):
    told = {name for names in settings.arguments(function) for name in names.split(", ")}
    assert told == set(inspect.signature(function).parameters)


def test_a_declaration_of_another_function_takes_what_the_decorator_takes():
    given = set(inspect.signature(declare).parameters) - {"tool", "function"}
    assert given == set(inspect.signature(effect).parameters) - {"name"}


def test_every_variable_of_the_environment_that_is_read_is_told():
    assert set(settings.read_from_the_environment()) == set(settings.ENVIRONMENT)


def test_every_public_module_has_a_page_and_says_what_it_is_for():
    table = (REFERENCE / "api.md").read_text()
    for door in doors():
        assert f"::: {door}\n" in (REFERENCE / "api" / f"{door}.md").read_text()
        row = next(line for line in table.splitlines() if f"(api/{door}.md)" in line)
        assert re.search(r"\| \w.+\w.* \|$", row), row


def test_the_picture_of_the_states_has_the_transitions_of_the_table_and_no_other():
    drawn = list(ET.parse(DIAGRAMS / "states.svg").iter())
    arrows = {tuple(one.get(f"data-{part}") for part in ("from", "said", "to")) for one in drawn if one.get("data-to")}
    finished = {one.get("data-name") for one in drawn if one.get("class") in ("good", "bad")}

    assert arrows == {
        (state.value, event.value, to.value) for state, events in TRANSITIONS.items() for event, to in events.items()
    }
    assert finished == {state.value for state in FINISHED}
    assert {one.get("data-name") for one in drawn} - {None} == {state.value for state in TRANSITIONS}


def test_every_picture_stands_on_a_page_of_the_concepts_and_each_of_them_has_one():
    shown = {
        page.stem: re.findall(r"!\[[^]]+\]\(\.\./diagrams/([\w.]+)\)", page.read_text())
        for page in (DOCS / "concepts").glob("*.md")
    }
    assert [page for page, pictures in shown.items() if not pictures] == []
    assert {name for pictures in shown.values() for name in pictures} == {path.name for path in DIAGRAMS.iterdir()}


def test_an_example_in_a_docstring_gets_a_fence():
    assert fenced("Say.\n\n>>> 1 + 1\n2\n\nMore.") == "Say.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."
    assert fenced("Say.\n\n>>> 1 + 1\n2") == "Say.\n\n\n```pycon\n>>> 1 + 1\n2\n```"
    assert fenced("No example.") == "No example."
