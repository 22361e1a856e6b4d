"""`settlemark show` and `settlemark residue`: what became of every call, and what is left to mend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from settlemark._commands._options import AsJson, AsTable, LedgerName, Namespace, seen
from settlemark._terminal import say, say_json, say_table, say_text
from settlemark.ledger import RecordedTransaction
from settlemark.ledger._contract import Ledger


def every(ledger: Ledger) -> list[RecordedTransaction]:
    """Return every transaction of a ledger."""
    return ledger.read(lambda book: book.transactions())


def show(
    ledger: LedgerName = None,
    *,
    as_json: AsJson = False,
    as_table: AsTable = False,
    run: Annotated[str | None, typer.Option(help="Only the transactions of this run.", show_default=False)] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only the last so many.", show_default=False)] = None,
    namespace: Namespace = "default",
) -> None:
    """Tell what became of every call, who waits for whom, and what is left to mend."""
    from settlemark import _show

    found: Sequence[RecordedTransaction] = seen(ledger, namespace, every)
    if run is not None:
        found = [recorded for recorded in found if recorded.row.run == run]
    if last is not None:
        found = found[-last:]
    if as_json:
        say_json([_show.as_values(recorded) for recorded in found])
    elif as_table:
        say_table(_show.tables(found))
    elif run is not None and not found:
        say(f"Nothing of the run {run} is on record.")
    else:
        say_text(_show.account(found))


def residue(
    ledger: LedgerName = None, *, as_json: AsJson = False, as_table: AsTable = False, namespace: Namespace = "default"
) -> None:
    """Name what aborts and partial commits left for somebody to mend; exit with 1 when there is some."""
    from settlemark import _show

    found = seen(ledger, namespace, every)
    values = _show.residue_values(found)
    if as_json:
        say_json(values)
    elif as_table:
        say_table(_show.residue_table(found))
    else:
        say_text(_show.left_account(found))
    raise typer.Exit(1 if values else 0)


__all__ = ["residue", "show"]
