"""`settlemark export`: the record as JSON Lines, however long it is, in bounded memory."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from settlemark._cli.commands.options import LedgerName, Namespace, reading, since_when
from settlemark._cli.commands.show import Last, OfRun, Since, WithState
from settlemark._cli.terminal import drop_unwritten, fail, json_line
from settlemark._edges.errors import LedgerError
from settlemark._edges.private import is_database, private
from settlemark._model import json_text

if TYPE_CHECKING:
    from settlemark.ledger._contract import Ledger, Page, RecordedTransaction
    from settlemark.ledger._entries import Entry
    from settlemark.ledger._sql.wire import Row, Statement, Values

BATCH = 500
_BEFORE_ALL = -1  # before all effects of a transaction


def export(
    ledger: LedgerName = None,
    *,
    run: OfRun = None,
    since: Since = None,
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
    _as_json: Annotated[bool, typer.Option("--json", help="It prints JSON Lines anyway.")] = False,
    namespace: Namespace = "default",
) -> None:
    """Print the record as JSON Lines: one line for each decision (a transaction) and for each of its effects.

    Lines of decisions have: line="decision", transaction, attempt, run, agents, state, reason, link (what the reason
    points to), epoch, ordinal, owner, opened_at, sealed_at, decided_at, settled_at, waits (holder, scope, since,
    until). Lines of effects, behind their decision's in issuance order, have: line="effect", transaction, attempt, run,
    position, key, tool, class, scope, held, call_id, fingerprint (of the arguments), version, outcome, tag,
    intended_at, settled_at, disposition (what was decided about it), link (what the disposition points to), question,
    contradicted.
    Lines of entries, which come last, run by run, in the order of each run's chain, and are left out with --last and
    --state, have: line="entry", run, place, kind, id, version, transaction, attempt, key, state, open, at, due,
    content, digest.
    Times are seconds since 1970. Arguments, results and texts that people or models wrote are left out: settlemark show
    --json has them.

    The oldest come first, in batches: a change during the export may be told either way. No more of the store is read
    than is printed, and at most two batches are in memory. To continue from an earlier export, give --since the
    opened_at of the oldest that had not settled then.
    """
    from settlemark._protocol.states import State
    from settlemark.ledger._contract import Page

    start = None if since is None else since_when(since)
    page = Page(last, start, run, None if state is None else State(state.value))
    counted = 0
    told = sys.stderr.isatty()
    try:
        with reading(ledger, namespace=namespace) as opened, _written(output) as out:
            for line in lines(opened, page):
                out.write(json_line(line))
                counted += 1
                if told and counted % BATCH == 0:
                    sys.stderr.write(f"\r{counted} lines")
    except BrokenPipeError:
        drop_unwritten(sys.stdout)  # the reader closed the pipe: Python would complain when it flushes at exit
        return
    except LedgerError as error:
        fail(error)
    if told:
        sys.stderr.write(f"\r{counted} lines\n")


@contextmanager
def _written(output: Path | None) -> Generator[TextIO]:
    if output is None:
        with suppress(AttributeError, ValueError):  # a replaced stream may have no encoding
            cast("Any", sys.stdout).reconfigure(encoding="utf-8")  # JSON is UTF-8 everywhere
        yield sys.stdout
        sys.stdout.flush()
        return
    try:
        if is_database(output):
            fail(f"{output} is a database, which would be lost: name another file with --output")
        file = open(output, "w", encoding="utf-8", opener=private)  # noqa: SIM115 - a Path has no opener
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}; name another file with --output")
    with file:
        yield file


def lines(ledger: Ledger, page: Page, *, batch: int = BATCH) -> Iterator[dict[str, Any]]:
    """Yield the lines of a page of a ledger that was opened for reading, the oldest first, in bounded memory.

    No more of the store is read than is consumed.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    from settlemark.ledger._record.pages import oldest
    from settlemark.ledger._record.rows import transaction_in
    from settlemark.ledger._replica.looking import looking

    def ask(statement: Statement, values: Values) -> list[Row]:
        return looking(ledger, lambda look: look.rows(statement, values))

    rows = oldest(ask, page, batch)
    while some := [transaction_in(row) for row in islice(rows, batch)]:
        yield from _with_effects(ledger, deque(some), batch)
    if page.last is None and page.state is None:
        yield from _entries(ledger, page, batch)


def _entries(ledger: Ledger, page: Page, batch: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of entries, run by run, with a batch of them in memory."""
    from settlemark.ledger._replica.looking import looking

    run, place = ("", 0) if page.run is None else (page.run, 0)
    while some := looking(ledger, lambda look: look.book.entries.page(run, place, batch)):  # noqa: B023 - called at once
        for entry in some:
            if page.run is not None and entry.run != page.run:
                return
            if page.since is None or entry.at >= page.since:
                yield _entry(entry)
        run, place = some[-1].run, some[-1].place


def _with_effects(ledger: Ledger, decisions: deque[RecordedTransaction], batch: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of decisions and of their effects, with at most a batch of effects in memory."""
    from settlemark.ledger._replica.looking import Look, effects, looking

    position = _BEFORE_ALL  # where to continue within the first one's effects

    def some(look: Look) -> list[tuple[RecordedTransaction, list[Row]]]:
        found: list[tuple[RecordedTransaction, list[Row]]] = []
        room, after = batch, position
        for each in decisions:
            theirs = effects(look, name=each.row.name, attempt=each.row.attempt, position=after, most=room)
            found.append((each, theirs))
            room, after = room - len(theirs), _BEFORE_ALL
            if room <= 0:
                break
        return found

    while decisions:
        found = looking(ledger, some)
        whole = sum(len(theirs) for _, theirs in found) < batch  # else the last one may have more
        for number, (each, theirs) in enumerate(found):
            if number or position == _BEFORE_ALL:
                yield _decision(each)
            yield from (_effect(each.row.run, effect) for effect in theirs)
            if whole or number < len(found) - 1:
                decisions.popleft()
                position = _BEFORE_ALL
            elif theirs:
                position = theirs[-1][2]


def _decision(recorded: RecordedTransaction) -> dict[str, Any]:
    row = recorded.row
    return {
        "line": "decision", "transaction": row.name, "attempt": row.attempt, "run": row.run, "agents": list(row.agents),
        "state": recorded.state.value, "reason": None if recorded.reason is None else recorded.reason.value,
        "link": recorded.link, "epoch": recorded.epoch,
        "ordinal": row.ordinal, "owner": row.owner, "opened_at": row.at, "sealed_at": recorded.sealed_at,
        "decided_at": recorded.decided_at, "settled_at": recorded.settled_at,
        "waits": [waited._asdict() for waited in recorded.waits],
    }  # fmt: skip # a table of fields


def _effect(run: str, row: Any) -> dict[str, Any]:
    (
        name, attempt, position, key, tool, kind, scopes, held, call_id, fingerprint, version, outcome, tag, intended,
        settled, disposition, link, question, contradicted,
    ) = row  # fmt: skip # a row, unpacked in the order of its columns
    return {
        "line": "effect", "transaction": name, "attempt": attempt, "run": run, "position": position, "key": key,
        "tool": tool, "class": kind, "scope": " ".join(json_text.decode(scopes)), "held": bool(held),
        "call_id": call_id,
        "fingerprint": fingerprint, "version": version, "outcome": outcome, "tag": tag, "intended_at": intended,
        "settled_at": settled, "disposition": disposition, "link": link, "question": question,
        "contradicted": bool(contradicted),
    }  # fmt: skip # a table of fields


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "line": "entry", "run": entry.run, "place": entry.place, "kind": entry.kind, "id": entry.id,
        "version": entry.version, "transaction": entry.name, "attempt": entry.attempt, "key": entry.key,
        "state": entry.state, "open": entry.open, "at": entry.at, "due": entry.due, "content": entry.content,
        "digest": entry.digest,
    }  # fmt: skip # a table of fields


__all__ = ["export", "lines"]
