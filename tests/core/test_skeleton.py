"""What holds of the project's shape before any of its code runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("core", "adapters", "integrations")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = sorted(
    package
    for root in SOURCE_ROOTS
    for package in (ROOT / root).iterdir()
    if package.is_dir() and package.name.isidentifier() and package.name != "__pycache__"
)
LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


def project_files():
    """Every text file somebody wrote: sources, tests, notebooks, CI and the documents at the top."""
    written = {".py", ".md", ".toml", ".ipynb", ".json"}
    yield ROOT / ".ci" / "run"
    yield from (path for path in ROOT.iterdir() if path.suffix in written or path.name == "LICENSE")
    for folder in (*SOURCE_ROOTS, "tests", "notebooks"):
        inside = (path for path in (ROOT / folder).rglob("*") if path.suffix in written)
        yield from (path for path in inside if ".ipynb_checkpoints" not in path.parts)


def lines_matching(pattern):
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in project_files()
        if path.is_file()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_package_tells_type_checkers_that_it_is_typed(package):
    assert (package / "py.typed").is_file()


def test_every_extra_somebody_is_told_to_install_is_defined():
    defined = set(PROJECT["project"]["optional-dependencies"])
    texts = [path.read_text(encoding="utf-8") for path in project_files() if path.is_file()]
    asked = {
        extra.strip()
        for text in texts
        for extras in re.findall(r"settlemark\[([a-z][a-z, -]*)\]", text)
        for extra in extras.split(",")
    }
    assert asked - defined == set()


@pytest.mark.skipif(not LINT_IMPORTS.exists(), reason="import-linter is not installed")
def test_imports_point_one_way():
    done = subprocess.run(
        [LINT_IMPORTS, "--no-cache"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / root) for root in SOURCE_ROOTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_names_a_home_directory_or_the_place_of_this_checkout():
    # a scope such as `file:/home/x` is no path: it has its type before the slash
    start = r"(?:^|file://|[\s\"'`=(\[])"
    assert lines_matching(rf"{start}(?:/home/|/Users/|/root/|[A-Z]:\\Users\\)\w") == []
    assert lines_matching(rf"{start}{re.escape(str(ROOT))}(?:/|\b)") == []
