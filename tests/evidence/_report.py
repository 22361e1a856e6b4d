"""What an experiment found: tables of counts and of shares with exact intervals, and how to draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table as RichTable
from scipy.stats import binomtest

Told = Callable[[], object]
"""Called when a session has been played."""


@dataclass(frozen=True)
class Share:
    """So many of so many, with the exact 95 % interval (Clopper and Pearson)."""

    count: int
    of: int

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Between which shares the true one lies."""
        if not self.of:
            return 0.0, 1.0
        low, high = binomtest(self.count, self.of).proportion_ci(0.95, method="exact")
        return float(low), float(high)

    @property
    def value(self) -> float:
        """The share itself; 0 of nothing."""
        return self.count / self.of if self.of else 0.0

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.count}/{self.of} = {self.value:.1%} [{100 * low:.1f}, {100 * high:.1f}]"

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {"count": self.count, "of": self.of, "value": self.value, "interval": list(self.interval)}


@dataclass(frozen=True)
class Table:
    """Rows of cells by their columns; the first column names the row.

    Attributes:
        paper: the same cells as the paper has them, by row and column, where it has them.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    paper: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns in order."""
        return list(dict.fromkeys(column for row in self.rows for column in row))

    def row(self, *names: object) -> Mapping[str, Any]:
        """Return the row whose first cells are these."""
        return next(row for row in self.rows if list(row.values())[: len(names)] == list(names))

    def text(self) -> RichTable:
        """Return it for a console."""
        told = RichTable(*self.columns, title=self.title, title_justify="left", title_style="bold")
        for row in self.rows:
            told.add_row(*(self._cell(row, column) for column in self.columns))
        return told

    def _cell(self, row: Mapping[str, Any], column: str) -> str:
        cell = row.get(column, "")
        text = f"{cell:.3g}" if isinstance(cell, float) else str(cell)
        paper = self.paper.get((str(next(iter(row.values()))), column))
        return text if paper is None else f"{text}\npaper: {paper}"


@dataclass(frozen=True)
class Findings:
    """What one experiment found.

    Attributes:
        name: the module's.
        title: what was tried, in a sentence.
        tables: in the order in which they are to be read.
        because: where a figure is not the paper's, and why: paragraphs.
        draw: draws it on axes.
    """

    name: str
    title: str
    tables: Sequence[Table]
    because: str = ""
    draw: Callable[[Any], None] | None = None

    def show(self, console: Console) -> None:
        """Print it."""
        console.rule(self.name)
        console.print(self.title)
        for table in self.tables:
            console.print(table.text())
        console.print(self.because, highlight=False, markup=False)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "because": self.because,
            "tables": [
                {"title": table.title, "rows": [{k: _plain(v) for k, v in row.items()} for row in table.rows]}
                for table in self.tables
            ],
        }

    def save(self, folder: Path) -> Path | None:
        """Draw it into a folder; None when there is nothing to draw."""
        if self.draw is None:
            return None
        figure: Any = Figure(figsize=(11, 5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        self.draw(axes)
        axes.set_title(self.title, loc="left", fontsize=10)
        path = folder / f"{self.name}.png"
        figure.savefig(path, dpi=120)
        return path


def _plain(cell: Any) -> Any:
    return cell.as_json() if isinstance(cell, Share) else cell


def bars(table: Table, columns: Iterable[str]) -> Callable[[Any], None]:
    """Return what draws some columns of shares as bars beside each other, with their intervals."""
    chosen = list(columns)

    def draw(axes: Any) -> None:
        width = 0.8 / len(chosen)
        for n, column in enumerate(chosen):
            shown = [(place, row[column]) for place, row in enumerate(table.rows) if isinstance(row[column], Share)]
            at = [place + n * width for place, _ in shown]
            high = [share.value for _, share in shown]
            low = [[max(0.0, s.value - s.interval[0]) for _, s in shown], [s.interval[1] - s.value for _, s in shown]]
            axes.bar(at, high, width, label=column, yerr=low, capsize=2)
        names = [", ".join(takewhile(lambda cell: isinstance(cell, str), row.values())) for row in table.rows]
        axes.set_xticks(
            [place + 0.4 - width / 2 for place in range(len(names))], names, rotation=30, ha="right", fontsize=7
        )
        axes.set_ylim(bottom=0)
        axes.set_ylabel("share of the sessions")
        axes.legend(fontsize=8)

    return draw


__all__ = ["Findings", "Share", "Table", "Told", "bars"]
