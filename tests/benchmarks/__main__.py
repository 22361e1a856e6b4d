"""`python -m tests.benchmarks` measures everything, beside its controls, and writes the page of figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from tests.benchmarks.page import HERE, page

NAMES = sorted(path.stem.removeprefix("test_") for path in HERE.glob("test_*.py"))
TESTING = {"page"}
"""Files that test the harness, and measure nothing."""


def main(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A part of it alone; may be repeated. By default all, for half an hour."),
    ] = None,
    write: Annotated[Path, typer.Option(help="The page to write.")] = HERE.parents[1] / "docs" / "figures.md",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures there, too.")] = None,
) -> None:
    """Measure, and write the page; a benchmark that did not do its work fails, and nothing is written."""
    known = [name for name in NAMES if name not in TESTING]
    unknown = sorted({*(only or ())} - {*known})
    if unknown:
        raise typer.BadParameter(f"there is no {unknown[0]!r}: choose from {', '.join(known)}")
    for path in (write, json_file):
        if path is not None and not path.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {path.parent} to write {path.name} in")
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "figures.json")
        files = [str(HERE / f"test_{name}.py") for name in only or known]
        options = ["-n", "0", "--benchmark-enable", "--benchmark-only", f"--benchmark-json={told}"]
        every = {**os.environ, "SETTLEMARK_TESTS": "all"}  # else `pytest` leaves out what takes long
        ended = subprocess.run([sys.executable, "-m", "pytest", "-q", *options, *files], check=False, env=every)
        if ended.returncode:
            raise typer.Exit(ended.returncode)
        found = json.loads(told.read_text())
    write.write_text(page(found, sorted({*known} - {*(only or known)})), encoding="utf-8")
    if json_file is not None:
        figures = [row for each in found["benchmarks"] for row in each["extra_info"].get("figures", ())]
        json_file.write_text(json.dumps(figures, indent=2) + "\n")
    typer.echo(f"written: {write}")


if __name__ == "__main__":
    typer.run(main)
