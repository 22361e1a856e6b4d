"""The evidence as a command: `python -m tests.evidence anomalies`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from tests.evidence._experiments import EXPERIMENTS
from tests.evidence._playing import play_all

WIDE = 220
"""Columns of a table in a file."""
app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def evidence() -> None:
    """Figures with the real engine under them, each beside its unguarded control."""


@app.command()
def anomalies(
    runs: Annotated[int, typer.Option(min=1, help="Sessions of a cell; what has fewer than 1000 shrinks with it.")] = (
        1000
    ),
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(EXPERIMENTS)}; may be repeated.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures there.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Draw into this folder.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many experiments are played at a time.")] = 2,
) -> None:
    """Play what the anomaly paper has measured, and print its tables."""
    names = only or list(EXPERIMENTS)
    unknown = sorted(set(names) - set(EXPERIMENTS))
    if unknown:
        raise typer.BadParameter(f"there is no {unknown[0]!r}: choose from {', '.join(EXPERIMENTS)}")
    if json_file is not None and not json_file.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {json_file.parent} to write {json_file.name} in")
    if plots is not None:
        if plots.exists() and not plots.is_dir():
            raise typer.BadParameter(f"{plots} is no folder")
        plots.mkdir(parents=True, exist_ok=True)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    found = []
    for findings in play_all(names, runs, plots, jobs):
        findings.show(console)
        found.append(findings.as_json())
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    app()
