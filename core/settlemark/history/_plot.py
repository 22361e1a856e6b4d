"""Draws the first witness of each anomaly: who read and wrote what, when, with a time line for each agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from settlemark._edges.private import make_private
from settlemark.history._verdict import Verdict

_INCHES = (9.0, 2.2)
_STALE = "read", "overwritten", "committed"
_MARKS = {
    "A1": _STALE,
    "A1-self": _STALE,
    "A1-semantic": _STALE,
    "A2": ("chosen", "committed"),
    "A4": ("read", "read"),
    "residue": ("read",),
}
_COMMITTED = ("committed",)
_COLOURS = ("#4477aa", "#cc3311", "#228833")


def draw(found: Mapping[str, Sequence[Verdict]], path: str | Path) -> None:
    """Write a picture: a row for the first witness of each anomaly of each file.

    Raises:
        OSError: the picture cannot be written.
    """
    rows = [(name, v) for name, verdicts in found.items() for v in verdicts if v.witnesses]
    figure: Any = Figure(figsize=(_INCHES[0], _INCHES[1] * max(1, len(rows))), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(max(1, len(rows)), 1, squeeze=False)
    for (name, verdict), axis in zip(rows, axes[:, 0], strict=False):
        _row(axis, name, verdict)
    if not rows:
        axes[0, 0].text(0.5, 0.5, "no anomaly", ha="center", va="center")
        axes[0, 0].set_axis_off()
    make_private(path)
    figure.savefig(path, dpi=120)


def _row(axis: Any, name: str, verdict: Verdict) -> None:
    witness = verdict.witnesses[0]
    marks = _MARKS.get(verdict.anomaly, _COMMITTED)
    times = witness.times or range(1, len(marks) + 1)  # a log of reads may have no times: then the order
    axis.hlines(0, min(times), max(times), color="#bbbbbb", linewidth=3)
    for time, mark, colour in zip(times, marks, _COLOURS, strict=False):
        axis.plot([time], [0], "o", color=colour, markersize=9)
        axis.annotate(
            f"{mark} at {time}" if witness.times else mark,
            (time, 0),
            textcoords="offset points",
            xytext=(0, 12),
            ha="center",
        )
    axis.set_title(f"{name}: {verdict.anomaly}, {verdict.title}, {verdict.count:,} times", loc="left", fontsize=10)
    axis.set_xlabel(witness.sentence, fontsize=8, wrap=True)
    axis.set_yticks([])
    axis.margins(x=0.15, y=0.6)
    for side in ("left", "right", "top"):
        axis.spines[side].set_visible(False)


__all__ = ["draw"]
