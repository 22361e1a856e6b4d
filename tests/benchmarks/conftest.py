"""The `gauge` fixture, and the table that a measuring run ends with."""

from __future__ import annotations

import pytest
from tests.benchmarks.gauge import REPORT, Gauge
from tests.benchmarks.table import HEADINGS, RIGHT, lines


def pytest_configure(config):
    config.stash[REPORT] = []


@pytest.fixture
def gauge(benchmark, request):
    return Gauge(benchmark, request.config.stash[REPORT])


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[REPORT]
    if not rows or not config.getoption("benchmark_enable"):
        return
    told = [HEADINGS, *lines(rows)]
    widths = [max(len(line[column]) for line in told) for column in range(len(HEADINGS))]
    terminalreporter.section("settlemark beside its controls")
    for line in told:
        cells = [
            cell.rjust(width) if column in RIGHT else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        terminalreporter.write_line("  ".join(cells).rstrip())
