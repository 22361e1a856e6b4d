"""`settlemark in-doubt` and `settlemark resolve`: unknown outcomes, and operators' verdicts on them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from settlemark._api.settlement import host_of
from settlemark._cli.commands.options import (
    AsJson,
    AsTable,
    LedgerName,
    Module,
    Namespace,
    declared_in,
    operating,
    seen,
)
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import fail, say, say_json, say_table
from settlemark._runtime.sync import run_sync

if TYPE_CHECKING:
    from settlemark._lifecycle.resolution import Doubt
    from settlemark._report.verdicts import Verdict
    from settlemark.ledger._contract import Ledger

NO_DOUBT = "Nothing is in doubt."


class Said(StrEnum):
    """An operator's verdict on an effect."""

    CONFIRMED = "confirmed"
    ABSENT = "absent"
    GIVE_UP = "give-up"
    DEALT_WITH = "dealt-with"


def in_doubt(
    ledger: LedgerName = None,
    *,
    as_json: AsJson = False,
    as_table: AsTable = False,
    module: Module = None,
    namespace: Namespace = "default",
) -> None:
    """List every effect whose outcome nobody knows, and what to do about each; exit with 1 when there is one."""
    declared_in(module)
    # Without --module no tool is declared here, which says nothing about the processes that have the tools.
    doubts = seen(ledger, namespace, partial(doubts_in, stuck=module is not None))
    if as_json:
        say_json([asdict(doubt) for doubt in doubts])
    elif not doubts:
        say(NO_DOUBT)
    elif as_table:
        say_table(_table(doubts))
    else:
        say(*(line for doubt in doubts for line in _lines(doubt)))
        say(
            "To have settlemark ask and undo by itself: settlemark recover [LEDGER] --module YOURAPP.TOOLS",
            "To say what you know: settlemark resolve KEY confirmed|absent|give-up [LEDGER] --by NAME --note TEXT",
        )
    raise typer.Exit(Exit.FOUND if doubts else Exit.DONE)


def doubts_in(ledger: Ledger, *, stuck: bool) -> list[Doubt]:
    """Return what is in doubt in a ledger that was opened for reading; a dead process's transactions have no owner.

    With `stuck`, also what cannot be ended for want of declarations.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    from settlemark._runtime.driver import Driver
    from settlemark.ledger._replica.looking import Look, looking

    driver = Driver(ledger, clock=time.time, monotonic=time.monotonic)

    def find(look: Look) -> list[Doubt]:
        replica = look.replica()
        alive = {worker.name for worker in look.workers() if worker.alive}
        for owner in {txn.owner for txn in replica.live.values()} - alive:
            replica.bury(owner)
        return driver.resolution.doubts(replica, look.book, stuck=stuck)

    return looking(ledger, find)


def _lines(doubt: Doubt) -> list[str]:
    from settlemark._report.sentences import short

    return [
        f"{short(doubt.transaction)}: {doubt.tool} on {doubt.scope}, since {_when(doubt.since)}: {doubt.why}",
        f"  key: {doubt.key}",
        f"  to do: {doubt.remedy}",
    ]


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _table(doubts: list[Doubt]) -> Any:
    from settlemark._report.sentences import add_row, new_table, short

    shown = new_table("In doubt", "transaction", "tool", "scope", "since", "what is known", "to do", "key")
    for doubt in doubts:
        add_row(
            shown,
            short(doubt.transaction),
            doubt.tool,
            doubt.scope,
            _when(doubt.since),
            doubt.why,
            doubt.remedy,
            doubt.key,
        )
    return shown


def resolve(
    key: Annotated[str, typer.Argument(help="The effect's key, as settlemark in-doubt and residue print it.")],
    verdict: Annotated[
        Said, typer.Argument(help="It happened; it did not; nobody will ever know; or its residue is mended.")
    ],
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who says so; it is put on record.")],
    note: Annotated[str, typer.Option(help="How that is known; it is put on record.")] = "",
    result: Annotated[
        str | None, typer.Option(metavar="JSON", help="What it returned, if that is known.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    module: Module = None,
    namespace: Namespace = "default",
) -> None:
    """Record the outcome of an effect, and undo the effect when it came too late and --module knows how.

    dealt-with takes residue that you have mended off the list. An effect resolved before stays as it is: exits with 1.
    """
    try:
        value = None if result is None else json.loads(result)
    except ValueError as error:
        fail(f"--result is not JSON: {error}; quote a text, as in --result '\"R-17\"'; nothing was recorded")
    if result is not None and verdict is not Said.CONFIRMED:
        fail(f"--result belongs to confirmed, not to {verdict}; nothing was recorded")
    said = cast("Verdict", verdict.value.replace("-", "_"))
    with operating(ledger, namespace, module) as settlement:
        outcome, news = run_sync(host_of(settlement).resolving(key, said, by, note, value))
    if as_json:
        say_json({"key": key, "outcome": str(outcome), "changed": news})
    elif not news:
        say(f"{key} was resolved already: it is {outcome}; nothing was changed", err=True)
    elif verdict is Said.DEALT_WITH:
        say(f"{key} is dealt with, by {by}{f': {note}' if note else ''}. It stays in the record: see residue --all.")
    else:
        say(f"{key} is {outcome}, by {by}{f': {note}' if note else ''}.")
    raise typer.Exit(Exit.DONE if news else Exit.FOUND)


__all__ = ["Said", "doubts_in", "in_doubt", "resolve"]
