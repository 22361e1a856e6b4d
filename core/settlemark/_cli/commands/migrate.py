"""`settlemark migrate`: upgrade a ledger of an older release."""

from __future__ import annotations

from typing import Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, named_url
from settlemark._cli.terminal import fail, say, say_json
from settlemark._edges.errors import LedgerError


def migrate(
    ledger: LedgerName = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Try it, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Upgrade a ledger of an older release to this one: stop its users first, and keep a copy."""
    from settlemark.ledger._record.migrating import migrate as migrate_store

    try:
        done = migrate_store(named_url(ledger), dry_run=dry_run)
    except LedgerError as error:
        fail(error)
    if as_json:
        say_json(done._asdict())
    elif done.before == done.after:
        say(f"{done.ledger} has schema version {done.after} already.")
    elif dry_run:
        say(f"{done.ledger} can be migrated from schema version {done.before} to {done.after}.")
    else:
        say(f"{done.ledger} was migrated from schema version {done.before} to {done.after}.")


__all__ = ["migrate"]
