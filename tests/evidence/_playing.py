"""Experiments beside each other, each in a process of its own with a counterparty of its own."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tests.evidence._cells import close_cells
from tests.evidence._report import Findings

LOOK_SECONDS = 0.2
_PLAYED: list[Any] = []
"""In a worker of the pool: the counter of all."""


def play_all(names: Sequence[str], runs: int, plots: Path | None, jobs: int) -> Iterator[Findings]:
    """Play experiments in processes of their own, and yield what they found in the order of their names."""
    spawning = get_context("spawn")
    counter = spawning.Value("L", 0)
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress,
        ProcessPoolExecutor(jobs, spawning, _begin, (counter,)) as pool,
    ):
        bar = progress.add_task("experiments", total=len(names))
        futures = [pool.submit(_play, name, runs, plots) for name in names]
        left: set[Future[Findings]] = set(futures)
        while left:
            done, left = wait(left, LOOK_SECONDS, FIRST_COMPLETED)
            progress.update(bar, advance=len(done), description=f"experiments, {counter.value:,} sessions")
    yield from (future.result() for future in futures)


def _begin(counter: Any) -> None:
    _PLAYED.append(counter)
    logging.getLogger("settlemark").setLevel(logging.CRITICAL)  # what stays behind is in the tables


def _play(name: str, runs: int, plots: Path | None) -> Findings:
    try:
        findings: Findings = importlib.import_module(f"tests.evidence.{name}").run(runs, _told)
    finally:
        close_cells()
    if plots is not None:
        findings.save(plots)
    return replace(findings, draw=None)


def _told() -> None:
    (counter,) = _PLAYED
    with counter.get_lock():
        counter.value += 1


__all__ = ["play_all"]
