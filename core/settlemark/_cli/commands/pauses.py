"""`settlemark pause`, `pauses`, `go-on`, `hand-over` and `discard`: runs that stand, and what becomes of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Module, Namespace, operating, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say, say_json

if TYPE_CHECKING:
    from settlemark._steering.pause import Pause

Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]


def pause(
    run: Run,
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who pauses it; it is put on record.")],
    because: Annotated[str, typer.Option(help="Why; it is put on record.")],
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Have a run stop at its next boundary; nothing of it is undone."""
    with operating(ledger, namespace, None) as settlement:
        _told(settlement.pause(run, by=by, because=because), as_json=as_json)


def pauses(
    ledger: LedgerName = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="List those that are over, too.")] = False,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """List the runs that are paused, the oldest first, with their progress; exit with 1 when one is."""
    from settlemark._steering.pauses import pauses_in

    found = seen(ledger, namespace, lambda opened: opened.read(pauses_in))
    standing = [each for each in found if not each.is_over]
    listed = found if every else standing
    if as_json:
        say_json([asdict(each) for each in listed])
    elif not listed:
        say("No run is paused.")
    else:
        say(*(line for each in listed for line in _lines(each)))
    raise typer.Exit(Exit.FOUND if standing else Exit.DONE)


def go_on(
    run: Run,
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who goes on with it; it is put on record.")],
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Lift a run's pause: its program goes on when it is called again. Exits with 1 when it is not paused."""
    with operating(ledger, namespace, None) as settlement:
        _told(settlement.go_on(run, by=by), as_json=as_json)


def hand_over(
    run: Run,
    ledger: LedgerName = None,
    *,
    to: Annotated[str, typer.Option(help="Whose it is from now on.")],
    by: Annotated[str, typer.Option(help="Who hands it over; it is put on record.")],
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Hand a paused run over: nobody else goes on with it. Exits with 1 when it is not paused, or another's."""
    with operating(ledger, namespace, None) as settlement:
        _told(settlement.hand_over(run, to=to, by=by), as_json=as_json)


def discard(
    run: Run,
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who discards it; it is put on record.")],
    module: Module = None,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Undo what a paused run has done, and fence it for good. Exits with 1 when it is not paused, or another's."""
    with operating(ledger, namespace, module) as settlement:
        _told(settlement.discard(run, by=by), as_json=as_json)


def _told(found: Pause, *, as_json: bool) -> None:
    if as_json:
        say_json(asdict(found))
    else:
        say(*_lines(found))


_STATES = {
    "asked": "stops at its next boundary",
    "paused": "is paused",
    "discarding": "is being discarded",
    "gone_on": "was paused",
    "discarded": "was paused",
}


def _lines(found: Pause) -> list[str]:
    from settlemark._protocol.holdings import shown_time
    from settlemark._report.sentences import short

    lines = [f"{short(found.run)} {_STATES[found.state]}: {shown_time(found.at)} by {found.by}: {found.because}"]
    if found.paused_at is not None:
        count = len(found.stands)
        lines.append(f"  {count} step{'s' * (count != 1)} stand{'s' * (count == 1)}; next: {found.before or 'its end'}")
    if found.owner is not None:
        lines.append(f"  handed over to {found.owner}")
    if found.ended_at is not None:
        lines.append(f"  {found.state.replace('_', ' ')} at {shown_time(found.ended_at)} by {found.ended_by}")
    lines += [f"  undone: {short(each.transaction)}: {each.tool} on {each.scope}" for each in found.undone]
    lines += [
        f"  STAYS: {short(each.transaction)}: {each.tool} on {each.scope}{f': {each.why}' if each.why else ''}"
        for each in found.bound
    ]
    if not found.is_over:
        lines.append(f"  to go on: settlemark go-on {short(found.run)} [LEDGER] --by NAME")
    return lines


__all__ = ["discard", "go_on", "hand_over", "pause", "pauses"]
