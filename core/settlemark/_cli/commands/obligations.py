"""`settlemark obligations` and `settlemark waive`: what is owed, and what nobody has to do any more."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Namespace, operating, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say, say_json

if TYPE_CHECKING:
    from settlemark._owing.obligation import Obligation
    from settlemark.ledger._contract import Ledger


def obligations(
    ledger: LedgerName = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="List what is fulfilled, waived or withdrawn, too.")] = False,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """List what is owed, those due first at the front; exit with 1 when something is."""
    found = seen(ledger, namespace, _found)
    owed = [each for each in found if each.state == "open"]
    listed = found if every else owed
    if as_json:
        say_json([asdict(each) for each in listed])
    elif not listed:
        say("Nothing is owed.")
    else:
        say(*(line for each in listed for line in _lines(each)))
        say("To strike one out: settlemark waive ID [LEDGER] --by NAME --note TEXT")
    raise typer.Exit(Exit.FOUND if owed else Exit.DONE)


def _found(ledger: Ledger) -> list[Obligation]:
    from settlemark._owing.obligation import obligation_in
    from settlemark.ledger._owed import OwedPage

    return [obligation_in(each) for each in ledger.read(lambda book: book.debts.find(OwedPage()))]


def _lines(owed: Obligation) -> list[str]:
    from settlemark._report.sentences import short

    by = f", by {owed.fulfilled_by} on {owed.scope}" if owed.fulfilled_by else ""
    due = owed.due_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return [
        f"{short(owed.transaction)} owes {owed.to}, due {due}{by}: {short(owed.text)}",
        f"  id: {owed.id}, {owed.state}{f' ({owed.told})' if owed.told else ''}",
    ]


def waive(
    number: Annotated[str, typer.Argument(metavar="ID", help="Its id, as settlemark obligations prints it.")],
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who strikes it out; it is put on record.")],
    note: Annotated[str, typer.Option(help="Why; it is put on record.")] = "",
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Strike out an open obligation: nobody has to fulfil it. Exits with 1 when it is not open."""
    with operating(ledger, namespace, None) as settlement:
        struck = settlement.waive(number, by=by, note=note)
    if as_json:
        say_json(asdict(struck))
    else:
        say(f"{number} is waived, by {by}{f': {note}' if note else ''}.")


__all__ = ["obligations", "waive"]
