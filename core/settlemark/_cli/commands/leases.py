"""`settlemark leases` and `release`: which agent has which resource, since when and until when; and who ends that."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Module, Namespace, operating, seen
from settlemark._cli.terminal import say, say_json

if TYPE_CHECKING:
    from settlemark.ledger._leased.rows import LeaseRow

NOTHING = "Nobody holds a lease."


def leases(ledger: LedgerName = None, *, as_json: AsJson = False, namespace: Namespace = "default") -> None:
    """List the leases of agents: who holds which resource, since when, until when, and its fencing token.

    A lease that is not renewed stays listed until another one takes it.
    """
    found = seen(ledger, namespace, lambda opened: opened.read(lambda book: book.leases.every()))
    if as_json:
        say_json([row._asdict() for row in found])
    elif not found:
        say(NOTHING)
    else:
        say(*(line for row in found for line in _lines(row)))


def release(
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="What was leased, as settlemark leases prints it.")],
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who ends it; it is put on record.")],
    because: Annotated[str, typer.Option(help="Why; its holder is told.")],
    module: Module = None,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """End a lease, any agent's: its resource is free at once. Exits with 1 where there is none."""
    with operating(ledger, namespace, module) as settlement:
        found = settlement.end_lease(scope, by=by, because=because)
    if as_json:
        say_json(found._asdict())
    else:
        say(f"{found.scope} is free: the lease of {found.holder}, token {found.token}, is ended, by {by}.")


def _lines(row: LeaseRow) -> list[str]:
    from settlemark._report.sentences import short

    asked = "" if row.asked is None else f"; asked for at {_clock(row.asked)}, free at {_clock(row.free_at)}"
    return [
        f"{short(row.holder)} holds {short(row.scope)} since {_clock(row.since)}",
        f"  token: {row.token}, until {_clock(row.until)} if it is not renewed{asked}",
    ]


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


__all__ = ["leases", "release"]
