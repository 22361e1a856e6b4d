"""The rooms of core: what stands above what, and that a reader who looks for a file finds it."""

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


def test_a_door_opens_onto_nothing_that_an_extra_brings():
    code = f"import sys\nimport {', '.join(f'settlemark.{door}' for door in sorted(doors() - {'telemetry'}))}\n"
    code += (
        "print([name for name in ('sqlalchemy', 'matplotlib', 'opentelemetry', 'langgraph') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_a_room_has_no_more_files_than_a_reader_takes_in():
    many = {room: len(list((CORE / room).glob("*.py"))) - 1 for room in rooms() if room.startswith("_")}
    assert {room: files for room, files in many.items() if files > 12} == {}


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
            "_engine/attempt.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from settlemark._engine.kernel import Programs",
            "nothing in core is imported in circles",
        ),
        (
            "../../integrations/settlemark_crewai/_crew.py",
            "from settlemark._engine import kernel",
            "shims and adapters enter core",
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
