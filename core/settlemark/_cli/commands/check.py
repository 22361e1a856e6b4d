"""`settlemark check`: which anomalies a trace has, how often, and the first instances."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from settlemark._cli.commands.options import AsJson, Module, Namespace, declared_in, seen
from settlemark._cli.commands.show import every
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import fail, progress, say, say_json, say_table, say_text
from settlemark._edges.errors import ScopeError, UsageError
from settlemark._edges.plain import plain
from settlemark.ledger._urls import shown

if TYPE_CHECKING:
    from settlemark._model.declaration import Declaration
    from settlemark.history import Analysis, Format, Verdict

_SQLITE = b"SQLite format 3\x00"
_NOT_COUNTED = ("A1-self", "A1-semantic", "A3x", "residue", "effects")
_READS = "reads"
_UNITS = {"history": "line", _READS: "read"}
_OF_A_LEDGER = ("A6", "effects")
_NO_READS = (
    "a ledger keeps no reads, so A1, A2 and A3 were not looked at: Settlement(history=FILE) writes what tells them"
)
_NOTHING = "there is no operation in it, so there was nothing to look at"
_NOTHING_COMMITTED = "no effect in it has committed, so there was nothing to look at"
_SHOWN = 5


@dataclass(frozen=True)
class _Checked:
    """What was found in a file, and how much of it was understood.

    `analysis` is None where no level can be told: a split view is outside the lattice, a ledger keeps no reads, and an
    empty trace tells nothing.
    """

    analysis: Analysis | None
    verdicts: Sequence[Verdict]
    format: str
    parsed: int
    total: int
    skipped: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "parsed": self.parsed,
            "total": self.total,
            "skipped": [{"line": line, "why": why} for line, why in self.skipped],
            "tools": dict(self.tools),
            "notes": self.notes,
            "records": self.parsed,
            "level": None,
            "absent": None,
            "verdicts": [verdict.as_dict() for verdict in self.verdicts],
            **({} if self.analysis is None else self.analysis.as_dict()),
        }


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Histories, ledgers (files or URLs), events or streams of LangGraph, OpenTelemetry spans, chat logs,"
            " logs of reads from replicas.",
        ),
    ],
    *,
    format: Annotated[  # noqa: A002 - the option's name
        str,
        typer.Option(
            help="The format of the files, where their first lines do not tell: a format of traces, or reads.",
            metavar="FORMAT",
        ),
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
        bool, typer.Option("--strict", help="Count the advisory findings (residue, lost effects), too.")
    ] = False,
    namespace: Namespace = "default",
) -> None:
    """Look for anomalies between agents; exit with 1 when there are some."""
    if plot is not None:
        _require_drawable(plot)
    tools = _Tools(effects, module)
    found = {name: _checked(name, namespace, format, tools, shows=not as_json) for name in files}
    if plot is not None:
        from settlemark.history._detect.plot import draw

        draw({name: checked.verdicts for name, checked in found.items()}, plot)
    if as_json:
        told = [{"file": _named(name), **checked.as_dict()} for name, checked in found.items()]
        say_json(told)
    else:
        for name, checked in found.items():
            _tell(name, checked)
    wrong = any(
        verdict.count and (strict or verdict.anomaly not in _NOT_COUNTED)
        for checked in found.values()
        for verdict in checked.verdicts
    )
    raise typer.Exit(Exit.FOUND if wrong else Exit.DONE)


class _Tools:
    """What the command line says of the tools in a trace."""

    def __init__(self, effects: Path | None, module: str | None) -> None:
        self._effects, self._module = effects, module

    def effects(self) -> dict[str, Any]:
        """Read the file of `--effects`."""
        if self._effects is None:
            return {}
        from settlemark.history._importers.messages import is_mapping

        try:
            said = json.loads(self._effects.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            fail(f"{self._effects} cannot be read: {error}")
        if not is_mapping(said):
            fail(
                f'{self._effects} is not a JSON object: write {{"search": "read"}}, with what each tool does by its'
                " name"
            )
        return said

    def declared(self) -> Callable[[str], Declaration | None] | None:
        """Import the module of `--module`."""
        if self._module is None:
            return None
        from settlemark._api.settlement import Settlement
        from settlemark._model.declare import declared_as

        settlement = Settlement("memory:")
        declared_in(self._module)(settlement)
        return lambda tool: settlement.declared(tool) or declared_as(tool)


def _checked(name: str, namespace: str, wanted: str, tools: _Tools, *, shows: bool) -> _Checked:
    from settlemark.history import HistoryError, analyze, import_trace, of_ledger, ordered
    from settlemark.history._detect.replica_reads import is_read_log
    from settlemark.history._importers.importing import format_of

    try:
        if _is_ledger(name):
            return _of_ledger(analyze(of_ledger(seen(name, namespace, every))))
        if wanted == _READS or (wanted == "auto" and is_read_log(name)):
            return _of_reads(name)
        chosen = cast("Format | None", wanted if wanted != "auto" else format_of(name))
        if chosen == "history":
            return _whole(_of_history(name, shows=shows), "history")
        found = import_trace(name, chosen or "auto", effects=tools.effects(), declared=tools.declared())
        analysis = analyze(ordered(found.records))
    except HistoryError as error:
        fail(error if error.file is not None else f"{name}: {error}")
    except (UsageError, ScopeError) as error:
        fail(error)
    except RecursionError:
        fail(f"{name}: one of its values is nested too deep")
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}")
    if found.total and not found.parsed:
        line, why = found.skipped[0]
        fail(f"{name}: none of {found.total:,} parsed as {found.format}; line {line}: {why}; name the format: --format")
    level, notes = (analysis, found.notes) if analysis.records else (None, [*found.notes, _NOTHING])
    return _Checked(
        level, analysis.verdicts, found.format, found.parsed, found.total, found.skipped, found.tools, notes
    )


def _whole(analysis: Analysis, format_: str) -> _Checked:
    count = analysis.records
    notes = [] if count else [_NOTHING]
    return _Checked(analysis if count else None, analysis.verdicts, format_, count, count, notes=notes)


def _of_ledger(analysis: Analysis) -> _Checked:
    verdicts = [verdict for verdict in analysis.verdicts if verdict.anomaly in _OF_A_LEDGER]
    notes = [_NO_READS] if analysis.records else [_NOTHING_COMMITTED, _NO_READS]
    return _Checked(None, verdicts, "ledger", analysis.records, analysis.records, notes=notes)


def _of_reads(name: str) -> _Checked:
    """Look for split views in a log of reads, one read at a time."""
    from settlemark.history import replica_reads
    from settlemark.history._detect.split_view import SplitView

    detector, number = SplitView(), 0
    for number, read in enumerate(replica_reads(name), 1):
        detector.add(number, read)
    return _Checked(None, [detector.verdict()], _READS, number, number)


def _of_history(name: str, *, shows: bool) -> Analysis:
    """Analyze a history one record at a time, and as a whole only where it is out of order."""
    from settlemark.history import HistoryError, analyze, ordered, read

    with progress(f"looking through {name}", Path(name).stat().st_size, shows=shows) as told:
        try:
            return analyze(read(name, told=told))
        except HistoryError as error:
            if error.field != "write_time" or error.file is not None:
                raise
        return analyze(ordered(read(name, told=told)))


def _is_ledger(name: str) -> bool:
    if "://" in name:
        return True
    try:
        if Path(name).exists() and not Path(name).is_file() and not Path(name).is_dir():
            fail(f"{name} is not a file, but has to be read more than once: save it as a file")
        with Path(name).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}")


def _tell(name: str, checked: _Checked) -> None:
    from rich.table import Table
    from rich.text import Text

    from settlemark.history import hasse

    analysis = checked.analysis
    level = "reads" if checked.format == _READS else "operations"
    if analysis is not None:
        level += f", level {analysis.level.name}"
    total = checked.parsed if analysis is None else analysis.records
    table = Table(title=Text(plain(f"{_named(name)}: {total:,} {level}")), title_justify="left")
    for column in ("", "anomaly", "found"):
        table.add_column(column, justify="right" if column == "found" else "left")
    for verdict in checked.verdicts:
        table.add_row(verdict.anomaly, verdict.title, f"{verdict.count:,}" if verdict.count else "none")
    say_table(table)
    say(f"{checked.parsed:,} of {checked.total:,} parsed as {checked.format}")
    for line, why in checked.skipped[:_SHOWN]:
        say(f"not parsed, line {line}: {why}")
    if len(checked.skipped) > _SHOWN:
        say(f"not parsed: {len(checked.skipped) - _SHOWN:,} more; --json has them all")
    if checked.tools:
        say("by their names: " + ", ".join(f"{tool} {does}s" for tool, does in checked.tools.items()))
    for note in checked.notes:
        say(f"note: {note}")
    for verdict in checked.verdicts:
        for witness in verdict.witnesses[:1]:
            places = ", ".join(map(str, witness.records))
            unit = _UNITS.get(checked.format, "operation")
            say(f"{verdict.anomaly} ({unit} {places}): {witness.sentence}")
    if analysis is not None:
        say_text(f"\n{hasse(analysis.point)}\n")


def _named(name: str) -> str:
    return shown(name) if "://" in name else name


def _require_drawable(path: Path) -> None:
    from settlemark._cli.drawing import why_not

    try:
        why = why_not(path)
    except ImportError as error:
        fail(f'--plot needs {error.name}: pip install "settlemark[plot]"')
    if why:
        fail(f"{why}; nothing was looked at")


__all__ = ["check"]
