"""`settlemark claims`: whether the record bears out what somebody says has come about."""

from __future__ import annotations

from typing import Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Namespace, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say, say_json


def claims(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is said, in English.")],
    ledger: LedgerName = None,
    *,
    run: Annotated[
        str | None,
        typer.Option("--run", help="Whose effects count; by default those of all runs.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Hold what is said to have come about against the record; exit with 1 when the record does not bear it out.

    The statements are found by rules for English. A program gives its own extractor: see settlement.claims.
    """
    from settlemark._claims.claim import hold, outcomes

    stated = outcomes(text)
    held = seen(ledger, namespace, lambda opened: opened.read(lambda book: hold(book, stated, run)))
    if as_json:
        say_json([each.to_json() for each in held])
    elif not held:
        say("Nothing is said to have come about.")
    else:
        for each in held:
            say(f"{each.verdict}: {each.claim.text} ({each.told})", *(f"  key: {key}" for key in each.keys))
    raise typer.Exit(Exit.DONE if all(each.stands for each in held) else Exit.FOUND)


__all__ = ["claims"]
