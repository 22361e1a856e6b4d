"""The `gauge` fixture, and the table that a measuring run ends with."""

from __future__ import annotations

import pytest
from tests.benchmarks.gauge import REPORT, Gauge, Row

HEADINGS = ("what", "N", "median", "aim", "", "ratio", "to", "growth per operation")


def pytest_configure(config):
    config.stash[REPORT] = []


@pytest.fixture
def gauge(benchmark, request):
    return Gauge(benchmark, request.config.stash[REPORT])


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[REPORT]
    if not rows or not config.getoption("benchmark_enable"):
        return
    told = [HEADINGS, *_lines(rows)]
    widths = [max(len(line[column]) for line in told) for column in range(len(HEADINGS))]
    terminalreporter.section("settlemark beside its controls")
    for line in told:
        cells = [
            cell.rjust(width) if column in (1, 2, 3, 5) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        terminalreporter.write_line("  ".join(cells).rstrip())


def _lines(rows: list[Row]) -> list[tuple[str, ...]]:
    lines = []
    before = None
    for row in rows:
        first = (row.name, row.size) != before
        same_name = before is not None and row.name == before[0]
        before = (row.name, row.size)
        bound = "≥" if row.at_least else "≤"
        lines.append(
            (
                "" if same_name else row.name,
                f"{row.size:,}" if first and row.size is not None else "",
                f"{_figure(row.value)} {row.unit}" if first else "",
                f"{bound} {_figure(row.aim)}" if first and row.aim is not None else "",
                {True: "met", False: "missed", None: ""}[row.met] if first else "",
                f"{_figure(row.ratio)} x" if row.ratio is not None else "",
                row.control,
                f"N^{row.exponent:.2f}" if row.exponent is not None and first else "",
            )
        )
    return lines


def _figure(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
