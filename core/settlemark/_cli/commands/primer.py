"""`settlemark primer`: what a run's record says of it, for the model that takes it up again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Namespace, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say_json, say_text

if TYPE_CHECKING:
    from settlemark._claims.words import Primer
    from settlemark.ledger._contract import Ledger
    from settlemark.ledger._replica.looking import Look


def primer(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, as settlemark show --json has it.")],
    ledger: LedgerName = None,
    *,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Tell what a run's record says of it, as its model is told; exit with 1 when nothing of it is on record.

    What has happened, what is in doubt, what waits, what is owed, what others have changed since, what is left of its
    budgets.
    """
    from settlemark._claims.primer import primer_of
    from settlemark.ledger._replica.looking import looking

    def find(look: Look) -> Primer:
        return primer_of(look.replica(), look.book, run, at=look.clock())

    def query(opened: Ledger) -> Primer:
        return looking(opened, find)

    found = seen(ledger, namespace, query)
    if as_json:
        say_json(found.to_json())
    else:
        say_text(found.text)
    raise typer.Exit(Exit.DONE if found.known else Exit.FOUND)


__all__ = ["primer"]
