"""`settlemark stuck`, `undo-again` and `settle-by-hand`: what could not be undone, and how an operator ends it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Module, Namespace, operating, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say, say_json

if TYPE_CHECKING:
    from settlemark._mending.remedy import Remedy
    from settlemark._mending.stuck import Stuck
    from settlemark.ledger._contract import Ledger

NOTHING = "Nothing is stuck."
Name = Annotated[str, typer.Argument(metavar="TRANSACTION", help="Its name, as settlemark stuck prints it.")]


def stuck(ledger: LedgerName = None, *, as_json: AsJson = False, namespace: Namespace = "default") -> None:
    """List the transactions of which something could not be undone, and what that is; exit with 1 when there is one."""
    found = seen(ledger, namespace, _found)
    if as_json:
        say_json([asdict(each) for each in found])
    elif not found:
        say(NOTHING)
    else:
        say(*(line for each in found for line in _lines(each)))
        say(
            "To have it undone once more: settlemark undo-again TRANSACTION [LEDGER] --module YOURAPP.TOOLS --by NAME",
            "To say that you have settled it: settlemark settle-by-hand TRANSACTION [LEDGER] --by NAME --note TEXT",
        )
    raise typer.Exit(Exit.FOUND if found else Exit.DONE)


def _found(ledger: Ledger) -> list[Stuck]:
    from settlemark._mending.stuck import stuck_in

    return ledger.read(stuck_in)


def _lines(found: Stuck) -> list[str]:
    lines = [f"{found.transaction}{f' (attempt {found.attempt})' if found.attempt > 1 else ''} is stuck:"]
    for effect in found.effects:
        since = "" if effect.at is None else f", since {_when(effect.at)}"
        where = f" on {' '.join(effect.scopes)}" if effect.scopes else ""
        lines.append(f"  {effect.tool}{where} stands{since} ({effect.cause}): {effect.note}")
        lines.append(f"    key: {effect.key}")
    if found.remedy is not None:
        lines.append(f"  {_tried(found.remedy)}")
    return lines


_TRIED = {
    "asked": "a plan is asked for",
    "gated": "a plan waits for a yes: see settlemark approvals",
    "proposed": "a plan runs as {transaction}",
    "refused": "no plan was run",
    "failed": "no plan has mended it",
    "silent": "no plan was proposed",
    "unproven": "a plan ran as {transaction}, and nothing proves that it has mended it",
}


def _tried(remedy: Remedy) -> str:
    words = _TRIED.get(remedy.tried or remedy.state, "{transaction}").format(transaction=remedy.transaction)
    why = f" ({remedy.why})" if remedy.why else ""
    told = f"; a person was told by {', '.join(remedy.told)}" if remedy.told else ""
    return f"{words}{why}{told}"


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def undo_again(
    name: Name,
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who wants it; it is put on record.")],
    note: Annotated[str, typer.Option(help="Why; it is put on record.")] = "",
    as_json: AsJson = False,
    module: Module = None,
    namespace: Namespace = "default",
) -> None:
    """Undo what is stuck of a transaction once more, here if --module declares its tools, else where they are declared.

    Exits with 1 when something of it still stands.
    """
    with operating(ledger, namespace, module) as settlement:
        became = settlement.undo_again(name, by=by, note=note)
        left = {effect.key for each in settlement.stuck() for effect in each.effects}
    told = {key: "stuck" if key in left else str(outcome) for key, outcome in became.items()}
    if as_json:
        say_json([{"key": key, "outcome": str(outcome), "stuck": key in left} for key, outcome in became.items()])
    else:
        words = {
            "stuck": "still stuck: see settlemark stuck",
            "confirmed": "yet to be undone where its undo is declared",
        }
        say(*(f"{key} is {words.get(state, state)}." for key, state in told.items()))
    raise typer.Exit(Exit.DONE if set(told.values()) == {"undone"} else Exit.FOUND)


def settle_by_hand(
    name: Name,
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who has settled it; it is put on record.")],
    note: Annotated[str, typer.Option(help="How; it is put on record.")] = "",
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Record that you have settled what is stuck of a transaction; it leaves the lists, and stays on record."""
    with operating(ledger, namespace, None) as settlement:
        ended = settlement.settle_by_hand(name, by=by, note=note)
    if as_json:
        say_json([asdict(each) for each in ended])
    else:
        say(f"{name} is settled by hand, by {by}{f': {note}' if note else ''}. It stays in the record.")


__all__ = ["settle_by_hand", "stuck", "undo_again"]
