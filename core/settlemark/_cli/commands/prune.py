"""`settlemark prune`: old records leave a ledger while others work with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from settlemark._cli.commands import options
from settlemark._cli.commands.options import AsJson, LedgerName, Namespace, named_url, reading
from settlemark._cli.terminal import fail, progress, say, say_json
from settlemark._edges.errors import LedgerError, UsageError
from settlemark._runtime.retention import KEYS_DAYS, PAUSE_SECONDS, Pruned, age_of, duration
from settlemark._runtime.retention import prune as prune_ledger
from settlemark.ledger import open_ledger
from settlemark.ledger._age import Swept
from settlemark.ledger._contract import Ledger
from settlemark.ledger._urls import shown

NOTHING = "Nothing is old enough to go."


def prune(
    ledger: LedgerName = None,
    *,
    older_than: Annotated[str, typer.Option(help="Payloads of what finished longer ago go, as in 30d or 12h.")],
    keys: Annotated[
        str, typer.Option(help="For how long a decision's key stays where its tool declares no window.")
    ] = f"{KEYS_DAYS:g}d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Remove old payloads, and keys that nobody remembers; what is left to mend, or in doubt, stays.

    Others may use the ledger meanwhile. The freed space is used again; a file does not shrink.
    """
    try:
        age = age_of(time.time(), older_than=duration(older_than), keys=duration(keys))
        url = named_url(ledger)
        with reading(url, namespace=namespace) as looking:  # counting blocks nobody
            found = looking.read(lambda book: book.old(age))
        done = Pruned(found.payloads, found.keys, found.kept, entries=found.entries)
        if not dry_run:
            opened = open_ledger(url, namespace=namespace, create=False, wait=options.WAIT_SECONDS)
            try:
                done = _shown(opened, prune_ledger(opened, age), found, shows=not as_json)
            finally:
                opened.close()
    except (LedgerError, UsageError) as error:
        fail(error)
    if as_json:
        say_json({**done._asdict(), "dry_run": dry_run})
    else:
        say(_told(done, "would go" if dry_run else "went"))


def _shown(ledger: Ledger, steps: Iterator[Pruned], found: Swept, *, shows: bool) -> Pruned:
    done = Pruned()
    with progress(f"pruning {shown(ledger.url)}", found.payloads + found.keys, shows=shows) as told:
        for step in steps:
            done = Pruned(*map(sum, zip(done, step, strict=True)))
            told(done.payloads + done.keys)
            time.sleep(PAUSE_SECONDS)  # lets writers that wait for the same lock come in between
    return done


def _told(done: Pruned, went: str) -> str:
    if not any(done):
        return NOTHING
    parts = [f"The payloads of {done.payloads} transaction(s) {went}, and {done.keys} {went} whole"]
    if done.fences:
        parts.append(f"the cancellation of {done.fences} run(s) {went}")
    if done.entries:
        parts.append(f"what {done.entries} entries say {went}")
    if done.kept:
        parts.append(f"{done.kept} stay, with something left to mend or in doubt: see settlemark residue")
    return "; ".join(parts) + "."


__all__ = ["prune"]
