"""`settlemark check`: which anomalies a trace of any source has, how often, and what the first of them were."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from settlemark._commands._options import AsJson, Module, Namespace, declared_in, fail, print_json, print_table, seen
from settlemark._commands._show import every
from settlemark._errors import ScopeError, UsageError

if TYPE_CHECKING:
    from settlemark._effect import Declaration
    from settlemark.history import Analysis, Format

_SQLITE = b"SQLite format 3\x00"
_NOT_COUNTED = ("A1-self", "A1-semantic", "A3x", "residue", "effects")
_SHOWN = 5


@dataclass(frozen=True)
class _Checked:
    """A file's analysis, and how much of the file was understood."""

    analysis: Analysis
    format: str
    parsed: int
    total: int
    skipped: list[tuple[int, str]]
    tools: Mapping[str, str]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": self.format, "parsed": self.parsed, "total": self.total,
            "skipped": [{"line": line, "why": why} for line, why in self.skipped], "tools": dict(self.tools),
            "notes": self.notes, **self.analysis.as_dict(),
        }  # fmt: skip


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Histories, ledgers (files or URLs), events or streams of LangGraph, OpenTelemetry spans, chat logs.",
        ),
    ],
    *,
    format: Annotated[  # noqa: A002 - the option is called that
        str, typer.Option(help="What the files are, where their first lines do not tell.", metavar="FORMAT")
    ] = "auto",
    effects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='What the tools in a trace do, as JSON: {"audit": "read", "wire": {"kind": "write", "scope":'
            ' "account:/{to}"}}. By default their names tell.',
            show_default=False,
        ),
    ] = None,
    module: Module = None,
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
    tools = _Tools(effects, module)
    found = {name: _checked(name, namespace, format, tools) for name in files}
    if plot is not None:
        _plot({name: checked.analysis for name, checked in found.items()}, plot)
    if as_json:
        print_json([{"file": name, **checked.as_dict()} for name, checked in found.items()])
    else:
        for name, checked in found.items():
            _tell(name, checked)
    wrong = any(
        verdict.count and (strict or verdict.anomaly not in _NOT_COUNTED)
        for checked in found.values()
        for verdict in checked.analysis.verdicts
    )
    raise typer.Exit(1 if wrong else 0)


class _Tools:
    """What is said of the tools in a trace, on the command line."""

    def __init__(self, effects: Path | None, module: str | None) -> None:
        self._effects, self._module = effects, module

    def effects(self) -> dict[str, Any]:
        """Read the file of `--effects`."""
        if self._effects is None:
            return {}
        from settlemark.history._messages import is_mapping

        try:
            said = json.loads(self._effects.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            fail(f"{self._effects} cannot be read: {error}")
        if not is_mapping(said):
            fail(f'{self._effects} is no JSON object: write {{"search": "read"}}, with what each tool does by its name')
        return said

    def declared(self) -> Callable[[str], Declaration | None] | None:
        """Import the module of `--module`."""
        if self._module is None:
            return None
        from settlemark._effect import declared_as
        from settlemark._settlement import Settlement

        settlement = Settlement("memory:")
        declared_in(self._module)(settlement)
        return lambda tool: settlement.declared(tool) or declared_as(tool)


def _checked(name: str, namespace: str, wanted: str, tools: _Tools) -> _Checked:
    from settlemark.history import HistoryError, analyze, import_trace, of_ledger, ordered
    from settlemark.history._importing import format_of

    try:
        if _is_ledger(name):
            return _whole(analyze(of_ledger(seen(name, namespace, every))), "ledger")
        chosen = cast("Format | None", wanted if wanted != "auto" else format_of(name))
        if chosen == "history":
            return _whole(_of_history(name), "history")
        found = import_trace(name, chosen or "auto", effects=tools.effects(), declared=tools.declared())
    except (HistoryError, UsageError, ScopeError) as error:
        fail(error)
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}")
    if found.total and not found.parsed:
        line, why = found.skipped[0]
        fail(f"{name}: none of {found.total:,} parsed as {found.format}; line {line}: {why}; name what it is: --format")
    return _Checked(
        analyze(ordered(found.records)), found.format, found.parsed, found.total, found.skipped, found.tools,
        found.notes,
    )  # fmt: skip


def _whole(analysis: Analysis, format_: str) -> _Checked:
    return _Checked(analysis, format_, analysis.records, analysis.records, [], {}, [])


def _of_history(name: str) -> Analysis:
    """Analyze a history one record at a time, and as a whole only where it is out of order."""
    from settlemark.history import HistoryError, analyze, ordered, read

    try:
        return analyze(read(name))
    except HistoryError as error:
        if error.field != "write_time" or error.file is not None:
            raise
    return analyze(ordered(read(name)))


def _is_ledger(name: str) -> bool:
    if "://" in name:
        return True
    try:
        with Path(name).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}")


def _tell(name: str, checked: _Checked) -> None:
    from rich.table import Table

    from settlemark.history import hasse

    analysis = checked.analysis
    table = Table(title=f"{name}: {analysis.records:,} operations, level {analysis.level.name}", title_justify="left")
    for column in ("", "anomaly", "found"):
        table.add_column(column, justify="right" if column == "found" else "left")
    for verdict in analysis.verdicts:
        table.add_row(verdict.anomaly, verdict.title, f"{verdict.count:,}" if verdict.count else "none")
    print_table(table)
    typer.echo(f"{checked.parsed:,} of {checked.total:,} parsed as {checked.format}")
    for line, why in checked.skipped[:_SHOWN]:
        typer.echo(f"not parsed, line {line}: {why}")
    if len(checked.skipped) > _SHOWN:
        typer.echo(f"not parsed: {len(checked.skipped) - _SHOWN:,} more; --json has them all")
    if checked.tools:
        typer.echo("by their names: " + ", ".join(f"{tool} {does}s" for tool, does in checked.tools.items()))
    for note in checked.notes:
        typer.echo(f"note: {note}")
    for verdict in analysis.verdicts:
        for witness in verdict.witnesses[:1]:
            lines = ", ".join(map(str, witness.records))
            unit = "line" if checked.format == "history" else "operation"
            typer.echo(f"{verdict.anomaly} ({unit} {lines}): {witness.sentence}")
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
