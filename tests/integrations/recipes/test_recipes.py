"""Each recipe for what others have built on LangGraph prints what its own text promises, alone in a process.

What a recipe needs beside `settlemark[langgraph]` stands in its head; CI installs all of it in one environment.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

RECIPES = sorted((Path(__file__).parents[3] / "examples" / "langgraph").glob("*.py"))


def needed_by(text):
    """Return the distributions that a recipe's head names, but settlemark itself."""
    dependencies = re.search(r"^# dependencies = (\[.*\])$", text, re.MULTILINE)
    names = [re.split(r"[\[<>=]", each)[0] for each in ast.literal_eval(dependencies[1])]
    return [name for name in names if name != "settlemark"]


def promised_by(text):
    """Return the block with which a recipe's text ends: what it prints."""
    return textwrap.dedent(ast.get_docstring(ast.parse(text)).rpartition("\n\n")[2]).strip()


@pytest.mark.parametrize("recipe", RECIPES, ids=[path.stem for path in RECIPES])
def test_a_recipe_prints_what_it_promises(recipe):
    text = recipe.read_text(encoding="utf-8")
    for name in needed_by(text):
        try:
            version(name)
        except PackageNotFoundError:
            pytest.skip(f"{name} is not installed")

    done = subprocess.run([sys.executable, recipe], capture_output=True, text=True, check=False, timeout=120)

    assert (done.stdout.strip(), done.returncode) == (promised_by(text), 0), done.stderr


def test_each_recipe_is_told_of_in_the_guide():
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "langgraph.md").read_text(encoding="utf-8")

    assert [path.name for path in RECIPES if f"examples/langgraph/{path.name}" not in guide] == []
