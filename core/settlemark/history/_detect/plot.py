"""Draws the first witness of each anomaly: who read and wrote what, when, with a time line for each agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from settlemark._edges.private import make_private
from settlemark.history._detect.verdict import Verdict

_WIDTH, _HEIGHT = 9.0, 2.2  # of one row, in inches
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
    figure: Any = Figure(figsize=(_WIDTH, _HEIGHT * (len(rows) or 1)), layout="constrained")
    for place, (name, verdict) in enumerate(rows, 1):
        _row(figure.add_subplot(len(rows), 1, place), name, verdict)
    if not rows:
        figure.text(0.5, 0.5, "no anomaly", ha="center", va="center")
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
    axis.set_title(f"{name}: {verdict.anomaly}, {verdict.title}, {verdict.count:,} times", loc="left")
    axis.set_xlabel(witness.sentence, wrap=True)
    axis.set_yticks([])
    axis.margins(x=0.15)


__all__ = ["draw"]
