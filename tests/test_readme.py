"""The README and the pages of docs are true: their code runs, their commands exist, and every claim names a test."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
import yaml
from tests.rooms.cli import build
from typer.testing import CliRunner

from settlemark import EffectClass

ROOT = Path(__file__).parent.parent
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def _pages(nav):
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from _pages([below] if isinstance(below, str) else below)


IN_NAV = [page for page in _pages(SITE["nav"]) if (ROOT / "docs" / page).exists()]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / page for page in IN_NAV if not page.startswith("reference/"))]
"""In the order in which they are one story: that of the site. What is made of the code is not of it."""
README = "\n".join(f"#{page.read_text()}" for page in PAGES)  # a page's title is a section here
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
RUN_BY_CI = {"pip install", "settlemark demo", "pytest", "mkdocs", "python -m tests"}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SETTLEMARK_URL", raising=False)


def _blocks(language):
    return [text for found, text in BLOCKS if found == language]


def test_every_block_is_of_a_kind_that_is_checked():
    assert {language for language, _ in BLOCKS} <= {"python", "text", "console"}


def test_no_block_escapes_these_tests():
    fences = [line for page in PAGES for line in page.read_text().splitlines() if line.lstrip(" >").startswith("```")]
    assert len(fences) == 2 * len(BLOCKS)


@pytest.fixture
def story():
    """Where the README's blocks run: a later one goes on where an earlier one stopped."""
    names: dict[str, object] = {"__name__": "__main__"}
    yield names
    names["settlement"].close()


def _tell(names):
    for number, (language, text) in enumerate(BLOCKS):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"README block {number}", "exec"), names)  # the README's own code
        following = BLOCKS[number + 1] if number + 1 < len(BLOCKS) else ("", "")
        yield printed.getvalue(), following[1] if following[0] == "text" else ""


def test_every_python_block_runs_and_prints_what_stands_below_it(story):
    for printed, expected in _tell(story):
        assert printed == expected


def test_what_the_shell_tells_of_the_story_is_what_the_settlement_tells(story):
    list(_tell(story))
    settlement = story["settlement"]

    shown, left = (CliRunner().invoke(build(), [command, "trip.db"]) for command in ("show", "residue"))

    assert shown.stdout == f"{settlement.show()}\n"
    assert (shown.exit_code, left.exit_code) == (0, 1 if settlement.residue() else 0)


def test_the_first_ten_minutes_need_six_names():
    minutes = "".join(page.read_text() for page in PAGES[:2])
    code = "".join(re.findall(r"^```python\n(.*?)^```$", minutes, flags=re.MULTILINE | re.DOTALL))

    imported = re.findall(r"^from settlemark\w* import (.+)$", code, flags=re.MULTILINE)
    used = {name for line in imported for name in line.split(", ")}
    used |= set(re.findall(r"(?:settlement|tx)\.(\w+)\(", code)) - {"show"}
    assert used == {"Settlement", "effect", "SequencedToolNode", "WaitTimeout", "transaction", "call"}


def test_the_table_of_classes_has_them_all_in_their_order():
    section = README[README.index("## The six classes") :].split("\n## ")[0]

    assert re.findall(r"^\| `(\w+)`", section, flags=re.MULTILINE) == list(EffectClass)


def test_every_command_exists():
    runner = CliRunner()
    for block in _blocks("console"):
        for line in block.splitlines():
            if not line.startswith("$ "):
                continue
            for command in line[2:].split("#")[0].split("&&"):
                text = command.strip()
                if any(text.startswith(known) for known in RUN_BY_CI):
                    continue
                program, *arguments = text.split()
                assert program == "settlemark"
                assert runner.invoke(build(), [*arguments[:1], "--help"]).exit_code == 0


def test_every_claim_names_a_test_that_exists():
    claimed = README[README.index("\n## Guarantees") :]
    claimed = claimed[claimed.index("## What is guaranteed") : claimed.index("## What is not guaranteed")]
    claims = [line for line in claimed.splitlines() if line.startswith("| ") and "`tests/" in line]
    rows = [line for line in claimed.splitlines() if re.match(r"\| (?!Claim|---)", line)]
    assert len(claims) == len(rows) >= 10
    for claim in claims:
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", claim):
            assert f"def {name}(" in (ROOT / path).read_text(), claim
        assert re.search(r"`tests/[\w/]+\.py::\w+`", claim), claim


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_linked_file_exists(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
        assert (page.parent / target).exists(), target


def test_every_page_is_on_the_site_and_the_readme_leads_to_it():
    assert sorted(page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")) == sorted(
        IN_NAV
    )
    told = [page.relative_to(ROOT).as_posix() for page in PAGES[1:]]
    linked = re.findall(r"\]\((docs/(?!reference/)[\w/-]+\.md)", PAGES[0].read_text().split("## Read on")[1])
    assert linked == told


def test_the_site_has_its_parts():
    assert [part for entry in SITE["nav"] for part in entry] == [
        "Start", "Concepts", "Guides", "Reference", "Guarantees", "Architecture", "Contributing", "Security",
    ]  # fmt: skip # a list of names and values


def test_the_readme_is_read_in_two_minutes():
    assert len(PAGES[0].read_text().splitlines()) < 200
    assert len(PAGES[0].read_text().split()) < 1_000
