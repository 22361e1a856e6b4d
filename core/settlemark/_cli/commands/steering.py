"""`settlemark steer` and `settlemark steering`: what is said to a run while it works, and what was done about it."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Namespace, operating, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say, say_json

if TYPE_CHECKING:
    from settlemark._steering.message import Steering, What


def steer(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run that is steered.")],
    what: Annotated[str, typer.Argument(metavar="WHAT", help="One of: add, revise, retract.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="In words, for the model.")],
    ledger: LedgerName = None,
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="What it is about, as in hotel:/**; more than once, for several.", show_default=False),
    ] = None,
    by: Annotated[str, typer.Option(help="Who says it; it is put on record.")],
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Say something to a run while it works: it takes it before its next step, once.

    A revision or a retraction has what the run did undone, from the earliest decision on that it is in conflict with.
    """
    with operating(ledger, namespace, None) as settlement:
        said = settlement.steer(run, cast("What", what), text, scope=scope or (), by=by)
    if as_json:
        say_json(asdict(said))
    else:
        say(*_lines(said))


def steering(
    ledger: LedgerName = None,
    *,
    run: Annotated[str | None, typer.Option(help="Only what was said to this run.", show_default=False)] = None,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """List what was said to runs, each run's in its order, with what was done; exit with 1 when something waits."""
    from settlemark._steering.steers import said_in, said_to

    look = said_in if run is None else partial(said_to, run=run)
    found = seen(ledger, namespace, lambda opened: opened.read(look))
    if as_json:
        say_json([asdict(each) for each in found])
    elif not found:
        say("Nothing was said to a run.")
    else:
        say(*(line for each in found for line in _lines(each)))
    raise typer.Exit(Exit.FOUND if any(each.is_open for each in found) else Exit.DONE)


_STATES = {
    "waiting": "waits for the run's next step",
    "taken": "taken; what it is in conflict with is being undone",
    "done": "taken",
    "unheard": "not heard: the run was cancelled before that",
}


def _lines(said: Steering) -> list[str]:
    from settlemark._report.sentences import short

    about = f" ({', '.join(said.scopes)})" if said.scopes else ""
    lines = [f"{short(said.run)}, {said.number}: {said.by} says {said.what}{about}: {said.text}"]
    where = f" before step {said.before}" if said.before else ""
    lines.append(f"  {_STATES[said.state]}{where}")
    if said.conflict is not None:
        found = said.conflict
        named = f", {found.title}," if found.title else ""
        how = "stood on" if found.ground else "touched"
        lines.append(f"  the earliest in conflict: {short(found.transaction)}{named} {how} {found.scope}")
    lines += [f"  undone: {short(each.transaction)}: {each.tool} on {each.scope}" for each in said.undone]
    lines += [
        f"  STAYS: {short(each.transaction)}: {each.tool} on {each.scope}{f': {each.why}' if each.why else ''}"
        for each in said.bound
    ]
    lines += [f"  stands: {short(each.transaction)}: {each.tool} on {each.scope}" for each in said.kept]
    if said.against:
        lines.append(f"  others have said about the same: {', '.join(map(str, said.against))}")
    return lines


__all__ = ["steer", "steering"]
