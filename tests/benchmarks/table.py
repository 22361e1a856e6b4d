"""The table of what was measured: at the end of a run, and on the page of figures."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks.gauge import Row

HEADINGS = ("what", "N", "median", "aim", "", "ratio", "to", "growth per operation")
RIGHT = (1, 2, 3, 5)
"""The columns of numbers."""


def lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return the table's lines: what is as in the line before is not said again."""
    found = []
    before = None
    for row in rows:
        first = (row.name, row.size) != before
        same_name = before is not None and row.name == before[0]
        before = (row.name, row.size)
        found.append(
            (
                "" if same_name else row.name,
                f"{row.size:,}" if first and row.size is not None else "",
                f"{figure(row.value)} {row.unit}" if first else "",
                aim(row) if first else "",
                {True: "met", False: "missed", None: ""}[row.met] if first else "",
                f"{figure(row.ratio)} x" if row.ratio is not None else "",
                row.control,
                f"N^{row.exponent:.2f}" if row.exponent is not None and first else "",
            )
        )
    return found


def aim(row: Row) -> str:
    """Return what a figure is to be, or nothing."""
    return "" if row.aim is None else f"{'≥' if row.at_least else '≤'} {figure(row.aim)}"


def figure(value: float) -> str:
    """Return a number with as many digits as mean something on a noisy machine."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
