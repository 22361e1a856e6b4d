"""`settlemark analyze`: what can go wrong between the nodes of a graph, told by the exit status as well."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from settlemark import UsageError
from settlemark.commands import AsJson, fail, say, say_json, say_table
from settlemark.hosting import in_words

if TYPE_CHECKING:
    from settlemark_langgraph.analysis._findings import Report

Target = Annotated[
    str,
    typer.Argument(metavar="MODULE:GRAPH", help="yourapp.agent:graph, or path/to/agent.py:graph.", show_default=False),
]
RunInput = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="JSON",
        help="An input: run the graph once, models and tools included, to see what its nodes write.",
        show_default=False,
    ),
]


def analyze(
    target: Target,
    *,
    run: RunInput = None,
    limit: Annotated[int, typer.Option(min=1, help="How many ways to go on are looked at.")] = 200_000,
    as_json: AsJson = False,
) -> None:
    """Find channels open to a fail-stop, a lost update or a stale read, and undeclared tools.

    GRAPH is a StateGraph, what its compile() returns, or a function without arguments that returns one.
    Exits with 1 when something was found.
    """
    from settlemark_langgraph.analysis._analysis import analyze as look

    given = {} if run is None else {"run": _input(run)}
    try:
        report = look(load_graph(target), limit=limit, tell=lambda text: say(text, err=True), **given)
    except UsageError as error:
        fail(error)
    if as_json:
        say_json(report.to_json())
    else:
        _print(report)
    raise typer.Exit(0 if report.clean else 1)


def load_graph(target: str) -> Any:
    """Return what `module:attribute` or `file.py:attribute` names; a function without arguments is called.

    Raises:
        UsageError: it cannot be imported, is not there, or its function fails.
    """
    place, separator, attribute = target.rpartition(":")
    if not (separator and place and attribute):
        raise UsageError(
            f"{target!r} names no graph: say yourapp.agent:graph, or path/to/agent.py:graph", target=target
        )
    found: Any = _module(place)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UsageError(f"{place} has no {attribute!r}: name a graph, or a function that returns one") from None
    return _made(found, target) if inspect.isroutine(found) else found


def _made(function: Any, target: str) -> Any:
    needed = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if needed or inspect.iscoroutinefunction(function):
        needs = f"needs {', '.join(needed)}" if needed else "is async"
        raise UsageError(f"{target} {needs}: name a function without arguments that returns a graph", target=target)
    try:
        return function()
    except Exception as error:
        raise UsageError(f"{target}() failed: {in_words(error)}", target=target) from error


def _module(place: str) -> ModuleType:
    try:
        return _file(Path(place)) if place.endswith(".py") else _named(place)
    except Exception as error:
        raise UsageError(f"{place} cannot be imported: {in_words(error)}", target=place) from error


def _named(name: str) -> ModuleType:
    _find_from(os.getcwd())  # noqa: PTH109 - an entry of sys.path is a text
    return importlib.import_module(name)


def _file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise FileNotFoundError(f"there is no such file in {Path.cwd()}")
    # As when it is run as a script: what lies beside it can be imported.
    _find_from(str(path.resolve().parent))
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = before
        raise
    return module


def _find_from(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _input(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        fail(f"--run is no JSON: {error}")


def _print(report: Report) -> None:
    from settlemark.commands import add_row, new_table

    if report.findings:
        table = new_table("Findings", "", "kind", "what", "nodes", "superstep", "use")
        for number, found in enumerate(report.findings, 1):
            what = found.channel if found.channel is not None else found.tool or ""
            nodes, superstep = ", ".join(found.nodes), ", ".join(found.superstep)
            add_row(table, str(number), found.kind.value, what, nodes, superstep, found.suggestion)
        say_table(table)
        # A sentence would not fit in a column.
        for number, found in enumerate(report.findings, 1):
            say(f"{number}. {found.why}")
    for note in report.notes:
        say(f"note: {note}")
    count = len(report.findings)
    many = len(report.supersteps)
    looked = f"{many} superstep{'' if many == 1 else 's'}{'' if report.complete else ', and not all'}"
    told = "nothing found" if not count else f"{count} finding{'' if count == 1 else 's'}"
    say(f"{told} ({looked})")


__all__ = ["analyze", "load_graph"]
