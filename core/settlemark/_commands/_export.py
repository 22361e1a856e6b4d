"""`settlemark export`: the record as JSON Lines, however long it is, in bounded memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from settlemark import _codec
from settlemark._commands._options import LedgerName, Namespace, reading, since_when
from settlemark._commands._show import Last, WithState
from settlemark._errors import LedgerError
from settlemark._private import private
from settlemark._terminal import fail, json_line

if TYPE_CHECKING:
    from settlemark.ledger._contract import Ledger, Page
    from settlemark.ledger._looking import Place

BATCH = 500
BEHIND_ALL = (1 << 31) - 1  # a position behind all that a transaction has


def export(
    ledger: LedgerName = None,
    *,
    run: Annotated[str | None, typer.Option(help="Only what belongs to this run.", show_default=False)] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only transactions begun or settled since: 2026-11-30, 2026-11-30T12:00Z, or 90m, 12h, 7d ago.",
            show_default=False,
        ),
    ] = None,
    last: Last = None,
    state: WithState = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write it to this file, which nobody else may read.",
            show_default=False,
        ),
    ] = None,
    _as_json: Annotated[bool, typer.Option("--json", help="JSON Lines is what it prints anyway.")] = False,
    namespace: Namespace = "default",
) -> None:
    """Print the record as JSON Lines: one line for each decision (a transaction) and for each of its effects.

    Lines of decisions have: line="decision", transaction, attempt, run, state, reason, epoch, ordinal, owner,
    opened_at, settled_at. Lines of effects, behind their decision's in issuance order, have: line="effect",
    transaction, attempt, run, position, key, tool, class, scope, held, call_id, fingerprint (of the arguments),
    version, outcome, tag, intended_at, settled_at. Times are seconds since 1970. Arguments, results and texts
    that people or models wrote are left out: settlemark show --json has them.

    It is ordered by transaction and attempt, and read in batches: what changes meanwhile may be told either way.
    With --last or --state no more of the store is read than is printed, and --since goes by when a transaction began.
    """
    from settlemark._states import State
    from settlemark.ledger._contract import Page

    start = None if since is None else since_when(since)
    page = Page(last, start, run, None if state is None else State(state.value))
    counted = 0
    told = sys.stderr.isatty()
    try:
        with reading(ledger, namespace=namespace) as opened, _written(output) as out:
            some = (last, state) != (None, None)
            for line in of_page(opened, page) if some else lines(opened, run=run, since=start or 0.0):
                out.write(json_line(line))
                counted += 1
                if told and counted % BATCH == 0:
                    sys.stderr.write(f"\r{counted} lines")
    except BrokenPipeError:
        # Whoever read it has had enough. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    except LedgerError as error:
        fail(error)
    if told:
        sys.stderr.write(f"\r{counted} lines\n")


@contextmanager
def _written(output: Path | None) -> Generator[TextIO]:
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        file = open(output, "w", encoding="utf-8", opener=private)  # noqa: SIM115 - a Path has no opener
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}; name another file with --output")
    with file:
        yield file


def lines(
    ledger: Ledger, *, run: str | None = None, since: float = 0.0, batch: int = BATCH
) -> Iterator[dict[str, Any]]:
    """Yield the lines of a ledger that was opened to be read; at most two batches are in memory.

    Raises:
        LedgerError: it cannot be read.
    """
    from settlemark.ledger._looking import decisions, looking

    after: Place = ("", 0)
    while found := looking(ledger, partial(decisions, after=after, run=run, since=since, most=batch)):
        places = {tuple(row[:2]) for row in found}
        last = tuple(found[-1][:2])
        # What comes between two of these belongs to one that was not asked for, or has just begun.
        theirs = (e for e in _effects(ledger, after=after, to=last, run=run, batch=batch) if tuple(e[:2]) in places)
        effect = next(theirs, None)
        for row in found:
            yield _decision(row)
            while effect is not None and effect[:2] == row[:2]:
                yield _effect(row[2], effect)
                effect = next(theirs, None)
        after = last


def of_page(ledger: Ledger, page: Page) -> Iterator[dict[str, Any]]:
    """Yield the lines of one page of the record, in the order of `lines`; no more of the store is read than that.

    Raises:
        LedgerError: it cannot be read.
    """
    from settlemark.ledger._looking import decisions, looking

    places = ledger.read(lambda book: [(found.row.name, found.row.attempt) for found in book.recent(page)])
    for name, attempt in sorted(places):
        before: Place = (name, attempt - 1)
        for row in looking(ledger, partial(decisions, after=before, run=None, since=0.0, most=1)):
            yield _decision(row)
            effects = _effects(ledger, after=before, to=(name, attempt), run=None, batch=BATCH)
            yield from (_effect(row[2], effect) for effect in effects)


def _effects(ledger: Ledger, *, after: Place, to: Place, run: str | None, batch: int) -> Iterator[Any]:
    from settlemark.ledger._looking import effects, looking

    place: Place = (*after, BEHIND_ALL)
    while found := looking(ledger, partial(effects, after=place, to=to, run=run, most=batch)):
        yield from found
        place = tuple(found[-1][:3])


def _decision(row: Any) -> dict[str, Any]:
    name, attempt, run, state, reason, epoch, ordinal, owner, opened, settled = row
    return {
        "line": "decision", "transaction": name, "attempt": attempt, "run": run, "state": state,
        # Behind the kind of reason stands what somebody's exception said.
        "reason": None if reason is None else reason.partition(": ")[0], "epoch": epoch, "ordinal": ordinal,
        "owner": owner, "opened_at": opened, "settled_at": settled,
    }  # fmt: skip


def _effect(run: str, row: Any) -> dict[str, Any]:
    (
        name, attempt, position, key, tool, kind, scopes, held, call_id, fingerprint, version, outcome, tag, intended,
        settled,
    ) = row  # fmt: skip
    return {
        "line": "effect", "transaction": name, "attempt": attempt, "run": run, "position": position, "key": key,
        "tool": tool, "class": kind, "scope": " ".join(_codec.decode(scopes)), "held": bool(held), "call_id": call_id,
        "fingerprint": fingerprint, "version": version, "outcome": outcome, "tag": tag, "intended_at": intended,
        "settled_at": settled,
    }  # fmt: skip


__all__ = ["export", "lines"]
