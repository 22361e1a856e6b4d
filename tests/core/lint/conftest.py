"""What the linter's tests share: a text, looked at as a file."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

from settlemark.lint import lint

HEAD = "from settlemark import effect, inverse, current_call, Settlement, UNKNOWN\n"


@pytest.fixture
def write(tmp_path):
    """Write a file, and return its path."""

    def write_it(text, name="tools.py", head=HEAD):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + dedent(text))
        return path

    return write_it


@pytest.fixture
def found(write):
    """Look at a text, and return what was found of the rules that are asked for, all by default."""
    return lambda text, *select: lint(write(text), select=select)


@pytest.fixture
def codes(found):
    """Look at a text, and return the rules that were found, with the tool."""
    return lambda text, *select: [(each.rule, each.tool) for each in found(text, *select)]


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """Let what the test writes be imported, from a process that has imported none of it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]
