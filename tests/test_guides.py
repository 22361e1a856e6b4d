"""A framework's guide runs behind the README alone: whoever installed that one extra needs no other framework."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDES = {
    "langgraph": ("docs/start.md", "docs/guides/langgraph.md"),
    "crewai": ("docs/guides/crewai.md",),
    "autogen_agentchat": ("docs/guides/autogen.md",),
    "pydantic_ai": ("docs/guides/pydantic-ai.md",),
}
"""By the framework's module: what is read behind the README."""


def program_of(pages):
    """Return the pages' blocks as one program, and what stands below its blocks."""
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", *pages))
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(code for kind, code in blocks if kind == "python"), [
        shown for (before, _), (kind, shown) in itertools.pairwise(blocks) if (before, kind) == ("python", "text")
    ]


@pytest.mark.parametrize("framework", GUIDES)
def test_a_frameworks_guide_runs_behind_the_readme_alone(framework, tmp_path):
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    program, shown = program_of(GUIDES[framework])
    script = tmp_path / "guide.py"
    script.write_text(program, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    assert [text for text in shown if text not in done.stdout] == []
