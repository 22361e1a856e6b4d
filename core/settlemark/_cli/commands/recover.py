"""`settlemark recover`: end what ended processes have left."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Annotated

import typer

from settlemark._api.settlement import host_of
from settlemark._cli.commands import options
from settlemark._cli.commands.options import AsJson, LedgerName, Module, Namespace, declared_in, ledger_url, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import fail, say, say_json
from settlemark._edges.errors import LedgerError
from settlemark._observe.events import Acting, Event, Recovered, Recovery
from settlemark._report.sentences import short

_PAUSE_SECONDS = 0.2
NOTHING = "Nothing was left to recover."


class _Collector:
    """Collects also what a settlement's own thread recovers first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Recovered] = []

    def tell(self, event: Event, /) -> None:
        """Keep a report."""
        if isinstance(event, Recovery):
            with self._lock:
                self._found.append(event.report)

    def around(self, _acting: Acting, /) -> AbstractContextManager[None]:
        """Surround an act with nothing."""
        return nullcontext()

    def all_with(self, last: Recovered) -> Recovered:
        """Return one report: everything ended, and what the last look found."""
        with self._lock:
            found = list(self._found)
        for report in found:
            for theirs, ours in (
                (report.committed, last.committed),
                (report.undone, last.undone),
                (report.left, last.left),
            ):
                ours.extend(name for name in theirs if name not in ours)
        ended = {*last.committed, *last.undone}
        for standing in (last.kept, last.waiting):
            standing[:] = [name for name in standing if name not in ended]
        return last


def recover(
    ledger: LedgerName = None,
    *,
    as_json: AsJson = False,
    module: Module = None,
    keep_open: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Let frameworks resume what has been open for no longer than this; undo the rest.",
        ),
    ] = 0.0,
    namespace: Namespace = "default",
) -> None:
    """End what ended processes have left, and report; exit with 1 when something is stuck or left."""
    from settlemark._api.settlement import Settlement

    declare = declared_in(module)
    seen(ledger, namespace, lambda _ledger: None)  # a missing ledger is not created
    collector = _Collector()
    try:
        with Settlement(
            ledger_url(ledger), namespace=namespace, keep_open=keep_open, observe=collector, wait=options.WAIT_SECONDS
        ) as settlement:
            declare(settlement)
            report = settlement.recover(keep_open=keep_open)
            # Only watching a lease stand still shows whether another host's worker is dead.
            while (left := host_of(settlement).ledger.undecided()) > 0:
                time.sleep(min(left, _PAUSE_SECONDS))
                report = settlement.recover(keep_open=keep_open)
            until = time.monotonic() + keep_open
            while (report.kept or report.waiting) and (left := until - time.monotonic()) > 0:
                time.sleep(min(left, _PAUSE_SECONDS))
                report = settlement.recover(keep_open=keep_open)
    except LedgerError as error:
        fail(error)
    report = collector.all_with(report)
    if as_json:
        say_json(asdict(report))
    else:
        say(*_lines(report) or [NOTHING])
    raise typer.Exit(Exit.FOUND if report.stuck or report.left else Exit.DONE)


def _lines(report: Recovered) -> list[str]:
    left: set[str] = set(report.left)
    lines = [f"{short(name)} is committed." for name in report.committed if name not in left]
    lines += [f"{short(name)} is undone." for name in report.undone if name not in left]
    for name in report.left:
        became = "committed" if name in report.committed else "undone as far as it can be"
        lines.append(f"{short(name)} is {became}, and left something to mend: see settlemark residue.")
    lines += [f"{short(name)} is open, and kept for its framework to resume it." for name in report.kept]
    lines += [
        f"{short(name)} is complete, and its turn has not come: see settlemark waiting." for name in report.waiting
    ]
    for name, tools in report.stuck.items():
        them = ", ".join(tools)
        lines.append(
            f"{short(name)} is stuck: {them} is not declared here, or its record is encrypted; name the module that"
            " declares it with --module, or leave it to a process with encrypt=."
        )
    return lines


__all__ = ["recover"]
