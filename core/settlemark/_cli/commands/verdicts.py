"""`settlemark verdicts`: what policies have said of calls, and by which rule."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Namespace, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say_json, say_text

if TYPE_CHECKING:
    from settlemark._report.judged import PolicyVerdict
    from settlemark.ledger._contract import Ledger


def verdicts(
    ledger: LedgerName = None,
    *,
    run: Annotated[
        str | None, typer.Option("--run", help="Only those on calls of this run.", show_default=False)
    ] = None,
    denied: Annotated[
        bool, typer.Option("--denied", help="Only what was denied; exit with 1 when something was.")
    ] = False,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """List what policies have said of calls, the last verdict on each: by which rule, of which version."""

    def find(opened: Ledger) -> list[PolicyVerdict]:
        from settlemark._report.judged import verdicts_in

        return opened.read(lambda book: verdicts_in(book, run=run, verdict="deny" if denied else None))

    found = seen(ledger, namespace, find)
    if as_json:
        say_json([asdict(each) for each in found])
    else:
        from settlemark._report.judged import verdicts_account

        say_text(verdicts_account(found))
    raise typer.Exit(Exit.FOUND if denied and found else Exit.DONE)


__all__ = ["verdicts"]
