"""`settlemark halt`, `resume` and `halts`: a switch that stops what agents do, until it is lifted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Module, Namespace, operating, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say, say_json

if TYPE_CHECKING:
    from settlemark._protocol.holdings import Halt


def halt(
    what: Annotated[
        str, typer.Argument(help='A scope such as "payment:/**", run:ID, run:BEGINNING*, agent:NAME, or everything.')
    ],
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who halts it; it is put on record.")],
    because: Annotated[str, typer.Option(help="Why; those who meet it are told.")],
    wait: Annotated[float, typer.Option(help="Seconds to wait until nothing acts there any more.")] = 30.0,
    module: Module = None,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Halt a scope, a run, an agent or everything in all processes; exit with 1 when something may still act there."""
    run, agent = _named(what, "run:"), _named(what, "agent:")
    everything = what == "everything"
    with operating(ledger, namespace, module) as settlement:
        scope = None if everything or run is not None or agent is not None else what
        found = settlement.halt(scope, run=run, agent=agent, everything=everything, by=by, because=because, wait=wait)
    if as_json:
        moving = [each._asdict() for each in found.moving]
        say_json({**found._asdict(), "halt": found.halt.values(), "moving": moving, "silent": found.silent})
    else:
        say(*_lines(found.halt))
        for told, names in (("undone", found.undone), ("stay as they are", found.parked), ("left", found.finished)):
            if names:
                say(f"  {told}: {', '.join(names)}")
        for each in found.moving:
            who = f", of {each.worker}" if each.worker else ""
            say(f"  MAY STILL ACT: {each.transaction}, {each.state}{who}: {each.why}")
        say("Nothing acts there any more." if found.silent else "Halt it again to wait for longer.")
    raise typer.Exit(Exit.DONE if found.silent else Exit.FOUND)


def resume(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Its number, as settlemark halts prints it.")],
    ledger: LedgerName = None,
    *,
    by: Annotated[str, typer.Option(help="Who lifts it; it is put on record.")],
    module: Module = None,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Lift a halt: what it had put aside goes on. Exits with 1 when none of this number stands."""
    with operating(ledger, namespace, module) as settlement:
        found = settlement.resume(number, by=by)
    if as_json:
        say_json(found.values())
    else:
        say(f"{found.what} is resumed, by {by}.")


def halts(
    ledger: LedgerName = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="List those that were lifted, too.")] = False,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """List what is halted, the oldest first; exit with 1 when something is."""
    from settlemark._lifecycle.fences import halts_in

    found = seen(ledger, namespace, lambda opened: opened.read(halts_in))
    standing = [each for each in found if each.stands]
    listed = found if every else standing
    if as_json:
        say_json([each.values() for each in listed])
    elif not listed:
        say("Nothing is halted.")
    else:
        say(*(line for each in listed for line in _lines(each)))
    raise typer.Exit(Exit.FOUND if standing else Exit.DONE)


def _named(what: str, word: str) -> str | None:
    """Return the name behind a word; None where it begins otherwise, or is a scope of this type."""
    return what.removeprefix(word) if what.startswith(word) and not what.startswith(f"{word}/") else None


def _lines(halt: Halt) -> list[str]:
    from settlemark._protocol.holdings import shown_time
    from settlemark._report.sentences import short

    lines = [f"{halt.number}: {short(halt.what)} is halted since {shown_time(halt.since)} by {halt.by}: {halt.because}"]
    if halt.resumed_at is not None:
        lines[0] = lines[0].replace(" is halted since ", " was halted at ", 1)
        lines.append(f"  resumed at {shown_time(halt.resumed_at)} by {halt.resumed_by}")
    else:
        lines.append(f"  to lift it: settlemark resume {halt.number} [LEDGER] --by NAME")
    return lines


__all__ = ["halt", "halts", "resume"]
