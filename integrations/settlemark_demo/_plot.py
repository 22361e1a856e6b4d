"""A picture of the demo: when each tool's effect happened, on both sides, from the logs' own times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from settlemark.hosting import make_private
from settlemark_demo._evidence import HAPPENED, Evidence
from settlemark_demo._report import Pair
from settlemark_demo._scenarios import Scenario, Side

_DONE, _UNDONE, _REFUSED = "#1b6ca8", "#e08e1b", "#b3262e"
_MILLISECONDS = 1000


def save(path: Path, sides: Sequence[Side], played: Sequence[tuple[Scenario, Pair]]) -> None:
    """Write the picture: a row a scenario, a column a side, a lane a tool, numbers as they were issued.

    Raises:
        ValueError: the file's ending names no format that can be written.
        OSError: the file cannot be written.
    """
    # Not pyplot: this needs no screen, and leaves no state in the process. Any, here and below: the library's keyword
    # arguments have no types.
    figure: Any = Figure(figsize=(12, 2.3 * len(played) + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(played), len(sides), squeeze=False, sharex="row")
    for row, (scenario, pair) in enumerate(played):
        for column, (side, evidence) in enumerate(zip(sides, pair, strict=True)):
            axes: Any = grid[row][column]
            _panel(axes, evidence, scenario.tools, labels=column == 0)
            verdict = "clean" if evidence.clean else "NOT clean"
            verdict += "" if evidence.in_order else ", out of order"
            axes.set_title(f"{scenario.name}, {side.label}: {verdict}", fontsize=9, loc="left")
            if row == len(played) - 1:
                axes.set_xlabel("ms since the first log entry")
    figure.legend(handles=_legend(), loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    make_private(path)
    figure.savefig(path, dpi=120)


def _panel(axes: Any, evidence: Evidence, tools: Sequence[str], *, labels: bool) -> None:
    lanes = {tool: number for number, tool in enumerate(tools)}
    start = evidence.entries[0].at if evidence.entries else 0.0
    began: dict[str, float] = {}
    numbers = iter(evidence.order)
    for entry in evidence.entries:
        at, lane = (entry.at - start) * _MILLISECONDS, lanes[entry.tool]
        if entry.event in HAPPENED:
            began[entry.id] = at
            axes.plot(at, lane, "o", color=_DONE, markersize=13, zorder=3)
            axes.annotate(
                str(next(numbers)), (at, lane), color="white", ha="center", va="center", fontsize=8, fontweight="bold"
            )
        elif entry.event in ("cancelled", "reverted"):
            axes.plot([began.get(entry.id, at), at], [lane, lane], color=_UNDONE, linewidth=2, zorder=1)
            axes.plot(at, lane, "s", color=_UNDONE, markersize=8, zorder=2)
        elif entry.event == "replayed":
            axes.plot(at, lane, "D", color=_DONE, markerfacecolor="white", markersize=7, zorder=2)
        else:
            # Only an undo has an id.
            color = _UNDONE if entry.id else _REFUSED
            axes.plot(at, lane, "x", color=color, markersize=8, markeredgewidth=2, zorder=2)
    axes.set_yticks(list(lanes.values()), [f"{n + 1} {tool}" if labels else "" for tool, n in lanes.items()])
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.margins(x=0.06)
    for spine in ("top", "right", "left"):
        axes.spines[spine].set_visible(False)


def _legend() -> list[Line2D]:
    def mark(shape: str, color: str, label: str, face: str | None = None) -> Line2D:
        return Line2D(
            [], [], linestyle="", marker=shape, color=color, label=label, markersize=8, markerfacecolor=face or color
        )

    return [
        mark("o", _DONE, "effect (number: order issued)"),
        mark("s", _UNDONE, "undone"),
        mark("x", _REFUSED, "refused"),
        mark("x", _UNDONE, "undo refused"),
        mark("D", _DONE, "repeat answered, no second effect", "white"),
    ]
