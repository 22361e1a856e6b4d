"""`settlemark check`: which anomalies a history has, how often, and what the first of them were."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._commands._options import AsJson, Namespace, fail, print_json, print_table, seen
from settlemark._commands._show import every

if TYPE_CHECKING:
    from settlemark.history import Analysis

_SQLITE = b"SQLite format 3\x00"
_NOT_COUNTED = ("A1-self", "A1-semantic", "A3x", "residue", "effects")


def check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Histories (JSON Lines), or ledgers: a file or a URL.")
    ],
    *,
    as_json: AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the first witness of each anomaly to this picture.", show_default=False)
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Let the advisory findings (residue, lost effects) count, too.")
    ] = False,
    namespace: Namespace = "default",
) -> None:
    """Look for anomalies between agents; exit with 1 when there are some."""
    found = {name: _analyzed(name, namespace) for name in files}
    if plot is not None:
        _plot(found, plot)
    if as_json:
        print_json([{"file": name, **analysis.as_dict()} for name, analysis in found.items()])
    else:
        for name, analysis in found.items():
            _tell(name, analysis)
    wrong = any(
        verdict.count and (strict or verdict.anomaly not in _NOT_COUNTED)
        for analysis in found.values()
        for verdict in analysis.verdicts
    )
    raise typer.Exit(1 if wrong else 0)


def _analyzed(name: str, namespace: str) -> Analysis:
    from settlemark.history import HistoryError, analyze, of_ledger, ordered, read

    if _is_ledger(name):
        return analyze(of_ledger(seen(name, namespace, every)))
    try:
        return analyze(read(name))
    except HistoryError as error:
        if error.field != "write_time" or error.file is not None:
            fail(error)
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}")
    return analyze(ordered(read(name)))


def _is_ledger(name: str) -> bool:
    if "://" in name:
        return True
    try:
        with Path(name).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}")


def _tell(name: str, analysis: Analysis) -> None:
    from rich.table import Table

    from settlemark.history import hasse

    table = Table(title=f"{name}: {analysis.records:,} operations, level {analysis.level.name}", title_justify="left")
    for column in ("", "anomaly", "found"):
        table.add_column(column, justify="right" if column == "found" else "left")
    for verdict in analysis.verdicts:
        table.add_row(verdict.anomaly, verdict.title, f"{verdict.count:,}" if verdict.count else "none")
    print_table(table)
    for verdict in analysis.verdicts:
        for witness in verdict.witnesses[:1]:
            lines = ", ".join(map(str, witness.records))
            typer.echo(f"{verdict.anomaly} (line {lines}): {witness.sentence}")
    typer.echo(f"\n{hasse(analysis.point)}\n")


def _plot(found: dict[str, Analysis], path: Path) -> None:
    try:
        from settlemark.history._plot import draw
    except ImportError as error:
        fail(f'--plot needs {error.name}: pip install "settlemark[plot]"')
    try:
        draw(found, path)
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}")


__all__ = ["check"]
