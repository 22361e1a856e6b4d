"""The mutants as a command: `python -m tests.mutants --room ledger --sample 40`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from tests.mutants._mutating import Mutant
from tests.mutants._rooms import ROOMS, Room
from tests.mutants._running import Checkout, NothingShown, Score
from tests.servers import VARIABLE, PostgresServer

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".mutants"
EQUIVALENTS = Path(__file__).with_name("equivalent.toml")
app = typer.Typer(add_completion=False)


@app.command()
def mutants(
    *,
    room: Annotated[list[str] | None, typer.Option(help="Of this room; may be repeated.")] = None,
    changed: Annotated[str, typer.Option(metavar="BASE", help="Of the files that differ from this commit.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Of every room.")] = False,
    sample: Annotated[int | None, typer.Option(min=1, help="So many of each room, and not all.")] = None,
    seed: Annotated[int, typer.Option(help="Which ones these are.")] = 0,
    again: Annotated[bool, typer.Option(help="Run again what survived, with the tests as they are now.")] = False,
    processes: Annotated[int, typer.Option(min=1, help="How many at a time.")] = os.cpu_count() or 1,
    deep: Annotated[float, typer.Option(min=0, help="For how many seconds of the processor deeper tests run.")] = 60,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the scores there.")] = None,
) -> None:
    """Change the program in one place at a time, and see whether a test notices."""
    if bool(room) + bool(changed) + everything != 1:
        raise typer.BadParameter("say which: --room NAME, --changed BASE, or --all")
    unknown = sorted(set(room or ()) - {each.name for each in ROOMS})
    if unknown:
        raise typer.BadParameter(f"there is no room {unknown[0]!r}: choose from {', '.join(r.name for r in ROOMS)}")
    errors = Console(stderr=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stopped so, it ends what it runs, too
    try:
        with opened(processes, deep) as checkout:
            checkout.check_listed(ROOMS)
            scores, broken = [], False
            for each, files in _asked(room, changed):
                try:
                    chosen = checkout.chosen(each, files, sample, seed)
                    scores.append(_played(checkout, each, chosen, errors, again=again))
                except NothingShown as error:  # the other rooms are shown all the same
                    broken = True
                    errors.print(f"[red]{escape(str(error))}[/]")
    except NothingShown as error:
        errors.print(f"[red]{escape(str(error))}[/]")
        raise typer.Exit(2) from None
    _show(scores, Console())
    if json_file is not None:
        json_file.write_text(json.dumps([each.as_json() for each in scores], indent=2) + "\n")
    if broken:
        raise typer.Exit(2)
    if any(each.percent is not None and each.percent < each.room.aim for each in scores):
        raise typer.Exit(1)


@contextmanager
def opened(processes: int, deep: float = 60) -> Generator[Checkout]:
    """Yield this checkout, with a PostgreSQL for all: each run of the tests would start its own."""
    with ExitStack() as stack:
        environment = {}
        if VARIABLE not in os.environ:
            environment[VARIABLE] = stack.enter_context(PostgresServer()).url("postgres")
        options = {"processes": processes, "environment": environment, "deep": deep}
        yield stack.enter_context(Checkout(ROOT, EQUIVALENTS, STATE, **options))


def _asked(names: list[str] | None, base: str) -> list[tuple[Room, list[str] | None]]:
    """Return the rooms, each with the files that are mutated: None for all of them."""
    if not base:
        return [(each, None) for each in ROOMS if not names or each.name in names]
    differs = subprocess.run(
        ["git", "diff", "--name-only", base, "--"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    changed = differs.stdout.splitlines()
    found: list[tuple[Room, list[str] | None]] = []
    for each in ROOMS:
        files = [file for file in each.files(ROOT) if file in changed]
        if files:
            found.append((each, files))
        elif any(each.is_about(file) for file in changed):
            found.append((each, None))
    return found


def _played(checkout: Checkout, room: Room, chosen: list[Mutant], console: Console, *, again: bool) -> Score:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(room.name, total=len(chosen))

        def told(score: Score) -> None:
            survived = score.count("survived")
            description = f"{room.name}, {survived} survived" if survived else room.name
            progress.update(task, completed=len(chosen) - score.left, description=description)

        return checkout.play(room, chosen, again=again, told=told)


def _show(scores: list[Score], console: Console) -> None:
    table = Table("room", "noticed", "aim", "run", "killed", "timed out", "survived", "equivalent")
    for score in scores:
        for test in score.aside:
            console.print(f"{score.room.name}: fails without a mutant, and was set aside: {test}", highlight=False)
        for survivor in score.survivors:
            console.print(f"\n{score.room.name}:\n{survivor}", markup=False, highlight=False)
        percent = "-" if score.percent is None else f"{score.percent:.0f} %"
        counts = (len(score.endings), score.count("killed"), score.count("timed out"), score.count("survived"))
        table.add_row(score.room.name, percent, f"{score.room.aim} %", *map(str, (*counts, len(score.equivalent))))
    console.print(table)


if __name__ == "__main__":
    app()
