"""The rooms of core: what stands above what, and that a reader who looks for a file finds it."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "settlemark"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def rooms():
    return {path.parent.name for path in CORE.glob("*/__init__.py")}


def doors():
    return {path.stem for path in CORE.glob("*.py") if not path.stem.startswith("_")}


def test_every_room_is_on_the_page_about_them():
    table = PAGE[: PAGE.index("## A call's way")]
    assert {room for room in rooms() | doors() if f"`{room}`" not in table} == set()


def test_every_file_that_the_page_names_is_there():
    named = re.findall(r"`((?:[\w.]+/)+\w+\.(?:py|toml))`", PAGE)
    assert named
    assert [name for name in named if not (CORE / name).exists() and not (ROOT / name).exists()] == []


def test_the_page_answers_where_to_look_and_each_file_has_the_name_that_it_is_said_to_have():
    table = PAGE[PAGE.index("## Where to look") :]
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", table, flags=re.MULTILINE)[1:])
    asked = (
        "an undo retried",
        "a wait end",
        "a rejected approval do on replay",
        "a worker's lease lost",
        "one transaction",
    )
    assert [words for words in asked if not any(words in question for question in rows)] == []
    named = [pair for said in rows.values() for pair in re.findall(r"`([\w/]+\.py)`, `(\w+)`", said)]
    assert len(named) >= 3
    assert [pair for pair in named if f"def {pair[1]}(" not in (CORE / pair[0]).read_text()] == []


def test_every_file_that_contributing_names_is_there():
    named = re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) >= 20
    assert [name for name in named if not (ROOT / name).exists() and not (CORE / name).exists()] == []


def test_a_door_opens_onto_nothing_that_an_extra_brings():
    code = f"import sys\nimport {', '.join(f'settlemark.{door}' for door in sorted(doors() - {'telemetry'}))}\n"
    code += (
        "print([name for name in ('sqlalchemy', 'matplotlib', 'opentelemetry', 'langgraph') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


MANY = {
    "_cli/commands": "a file for each command, with its name",
    "ledger": "a file for each thing that is kept beside transactions and effects, with its name",
}
"""Rooms with more files than a reader takes in at once, in which nobody looks for one without knowing its name."""


def test_a_room_has_no_more_files_than_a_reader_takes_in():
    folders = [path.parent for path in CORE.rglob("__init__.py")]
    many = {folder.relative_to(CORE).as_posix(): len(list(folder.glob("*.py"))) - 1 for folder in folders}
    assert {room for room, files in many.items() if files > 12} == set(MANY)


LONG = {
    "_protocol/protocol.py": "the facade: a line and a docstring for each thing that may be asked of the protocol",
    "_protocol/commands.py": "one table: the alphabet of the shared log",
    "ledger/_contract.py": "one contract: what every record answers",
    "_api/settlement.py": "the public face: what each method gives, takes and raises",
    "_model/declare.py": "one form: what a declaration can say, and what is wrong with it",
    "_model/scope.py": "one grammar: names, wildcards and templates of resources",
    "_report/sentences.py": "one table: the sentences in which a record is told",
}
"""Files that are one table or one story, and longer than a reader takes in at once."""


def test_a_file_begins_with_a_sentence_that_says_what_it_is_for():
    files = [file for part in ("core", "adapters", "integrations") for file in (ROOT / part).rglob("*.py")]
    first = {file: (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0] for file in files}
    odd = {
        f"{file.relative_to(ROOT)}": line for file, line in first.items() if not re.fullmatch(r"[A-Z`].*[.:?]", line)
    }
    assert {name: line for name, line in odd.items() if line or not name.endswith("__init__.py")} == {}


def test_a_file_of_core_is_read_in_one_sitting_but_for_those_that_are_listed():
    lines = {path.relative_to(CORE).as_posix(): len(path.read_text().splitlines()) for path in CORE.rglob("*.py")}
    long = {file: count for file, count in lines.items() if count > 405 and file not in LONG}
    assert long == {}
    assert {file for file in LONG if lines.get(file, 0) <= 405} == set(), "take it off the list"


def test_what_the_formatter_skips_says_why():
    lines = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for part in ("core", "adapters", "integrations", "examples", "tests")
        for file in (ROOT / part).rglob("*.py")
        for line in file.read_text().splitlines()
        if re.search(r"# fmt: (skip|off)", line)
    ]
    assert [line for line in lines if not re.search(r"# fmt: (skip|off) # \w+", line)] == []


@pytest.mark.parametrize(
    ("file", "line", "broken"),
    [
        ("_protocol/protocol.py", "import settlemark._engine.kernel", "the rooms of core"),
        ("_engine/kernel.py", "from settlemark._lifecycle import driver", "the rooms of core"),
        ("ledger/_contract.py", "from settlemark._api import settlement", "the rooms of core"),
        (
            "_model/scope.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from settlemark._acts.effect import Effect",
            "the rooms of core",
        ),
        (
            "_attempt/attempt.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from settlemark._engine.kernel import Kernel",
            "nothing in core is imported in circles",
        ),
        (
            "../../integrations/settlemark_crewai/_crew.py",
            "from settlemark._engine import kernel",
            "shims and adapters enter core",
        ),
        (
            "../../integrations/settlemark_langgraph/_identity.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from settlemark_langgraph import _turns",
            "nothing in an adapter or a shim is imported in circles",
        ),
        (
            "../../adapters/settlemark_adapters/records/_tool.py",
            "import settlemark_adapters.records._records",
            "nothing in an adapter or a shim is imported in circles",
        ),
        (
            "../../adapters/settlemark_adapters/mail.py",
            "import settlemark._model.scope",
            "shims and adapters enter core",
        ),
    ],
)
def test_an_import_that_is_turned_round_breaks_a_contract(tmp_path, file, line, broken):
    for part in ("core", "adapters", "integrations"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    turned = tmp_path / "core" / "settlemark" / file
    text = turned.read_text()
    at = text.index("from __future__ import annotations\n") + len("from __future__ import annotations\n")
    turned.write_text(f"{text[:at]}\n{line}\n{text[at:]}")
    paths = [str(tmp_path / part) for part in ("core", "adapters", "integrations")]
    code = f"import sys; sys.path[:0] = {paths!r}\nfrom importlinter import cli\ncli.lint_imports_command()"
    said = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert said.returncode == 1, said.stderr
    assert re.search(rf"{broken}[^\n]*(?:\n[^\n]*)?BROKEN", said.stdout), said.stdout
