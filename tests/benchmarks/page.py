"""The page of figures: what is missed first, then the machine, then each benchmark with its controls."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.gauge import Row
from tests.benchmarks.table import HEADINGS, RIGHT, aim, figure, lines

HERE = Path(__file__).parent
PACKAGES = ("settlemark", "sqlalchemy", "msgspec", "psycopg", "langgraph", "dbos")
HEAD = """# Figures

What settling costs, measured by `python -m tests.benchmarks`, which writes this page. The ratios are to read: a case
and its controls take turns, round by round in one process or in processes beside each other, and a ratio is the median
of those within a round; times alone say as much of the machine as of the code.
"""


def page(found: Mapping[str, Any], left_out: Sequence[str] = ()) -> str:
    """Return the page of what pytest-benchmark has written of a run, as its JSON file has it.

    `left_out` are the benchmarks that were not asked for.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for benchmark in found["benchmarks"]:
        file = benchmark["fullname"].partition("::")[0]
        groups[file] += [Row(**row) for row in benchmark["extra_info"].get("figures", ())]
    missed = [row for rows in groups.values() for row in _once(rows) if row.met is False]
    met = [row for rows in groups.values() for row in _once(rows) if row.met]
    parts = [HEAD, _missed(missed, len(met)), _machine(found)]
    parts += [f"Not measured in this run: {', '.join(left_out)}.\n"] if left_out else []
    parts += [_section(file, rows) for file, rows in groups.items() if rows]
    return "\n".join(parts)


def _once(rows: Iterable[Row]) -> list[Row]:
    """Return a row of each figure: one that has several controls has a row for each."""
    return list({(row.name, row.size): row for row in rows}.values())


def _missed(rows: Sequence[Row], met: int) -> str:
    if not rows:
        return f"## What is missed\n\nNothing: every aim is met ({met}).\n"
    told = [(row.name.strip(), f"{figure(row.value)} {row.unit}", aim(row), f"{_times(row)} x") for row in rows]
    table = _table(("what", "measured", "aim", "beside the aim"), told, right=(1, 2, 3))
    return f"## What is missed\n\n{len(rows)} of {len(rows) + met} aims:\n\n{table}"


def _times(row: Row) -> str:
    assert row.aim
    return figure(row.aim / row.value if row.at_least else row.value / row.aim)


def _machine(found: Mapping[str, Any]) -> str:
    info, cpu = found["machine_info"], found["machine_info"].get("cpu", {})
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        "## The machine\n\n"
        f"{cpu.get('count', '?')} cores of {cpu.get('brand_raw', 'an unknown processor')}, {info['system']}"
        f" {info['release']}, {info['python_implementation']} {info['python_version']}; {found['datetime'][:10]};"
        f" {packages}.\n"
    )


def _section(file: str, rows: Sequence[Row]) -> str:
    said = (ast.get_docstring(ast.parse((HERE / Path(file).name).read_text())) or "").partition("\n\n")[0]
    title = re.sub(r"^test_|\.py$", "", Path(file).name).replace("_", " ")
    return f"## {title[0].upper()}{title[1:]}\n\n{said}\n\n{_table(HEADINGS, lines(rows), right=RIGHT)}"


def _table(headings: Sequence[str], told: Iterable[Sequence[str]], *, right: Sequence[int]) -> str:
    under = ["---:" if column in right else "---" for column in range(len(headings))]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in (headings, under, *told))


def _cell(text: str) -> str:
    # what belongs to the case above is told by its indentation
    return text.replace("|", "\\|").replace("  ", "&emsp;") if text.startswith(" ") else text.replace("|", "\\|")
