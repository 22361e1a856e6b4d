"""What every test run tells at its end: how much the explorer visited."""

from __future__ import annotations

from collections import Counter


def pytest_terminal_summary(terminalreporter):
    explored: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name.startswith("explored_") and getattr(report, "when", "") == "call":
                    explored[name.removeprefix("explored_")] += value
    if explored:
        counts = ", ".join(f"{count:,} {name}" for name, count in explored.items())
        terminalreporter.write_line(f"explored: {counts}")
