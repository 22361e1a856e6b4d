"""`settlemark show` and `settlemark residue`: the outcome of every call, and what is left to mend."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.options import AsJson, AsTable, LedgerName, Namespace, since_when
from settlemark._cli.commands.waiting import say_unfinished, unfinished_values
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import say, say_json, say_table, say_text
from settlemark._protocol.states import FINISHED, State

if TYPE_CHECKING:
    from settlemark._api.who_waits import Standing
    from settlemark.ledger import RecordedTransaction
    from settlemark.ledger._contract import Ledger

ON_A_TERMINAL = 20
"""How many transactions a terminal is shown by default."""


OfRun = Annotated[str | None, typer.Option("--run", help="Only what belongs to this run.", show_default=False)]
_MOST = 2**31 - 1  # rows that any store can be asked for
Last = Annotated[
    int | None, typer.Option("--last", min=1, max=_MOST, help="Only the last so many.", show_default=False)
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="WHEN",
        help="Only what was begun since: 2026-11-30, 2026-11-30T12:00Z, or 90m, 12h, 7d ago.",
        show_default=False,
    ),
]
WithState = Annotated[
    State | None, typer.Option("--state", help="Only the transactions in this state.", show_default=False)
]


def on_terminal() -> bool:
    """Whether a person reads the output."""
    return sys.stdout.isatty()


def every(ledger: Ledger) -> list[RecordedTransaction]:
    """Return every transaction of a ledger."""
    return ledger.read(lambda book: book.transactions())


def show(
    ledger: LedgerName = None,
    *,
    as_json: AsJson = False,
    as_table: AsTable = False,
    run: OfRun = None,
    last: Last = None,
    since: Since = None,
    state: WithState = None,
    namespace: Namespace = "default",
) -> None:
    """Show the outcome of every call, who waits for whom, and what is left to mend.

    On a terminal the last 20 transactions, unless --last, --since, --run or --state says which.
    """
    from settlemark._api.who_waits import left_standing
    from settlemark._cli.commands.options import seen
    from settlemark._report import sentences
    from settlemark._report.questions import asked_account, asked_in
    from settlemark.ledger._contract import Page

    start = None if since is None else since_when(since)
    brief = not as_json and on_terminal() and (last, since, run, state) == (None, None, None, None)
    most = ON_A_TERMINAL + 1 if brief else last
    page = Page(most, start, run, state)
    found = seen(ledger, namespace, lambda opened: opened.read(lambda book: book.recent(page)))
    more = brief and len(found) > ON_A_TERMINAL
    found = found[-ON_A_TERMINAL:] if more else found
    stand = _standing(ledger, namespace, found)
    say_unfinished(left_standing(stand))
    if as_json:
        times = _times(stand, found)
        say_json([{**sentences.as_values(r), **times.get((r.row.name, r.row.attempt), _ENDED)} for r in found])
        return
    if as_table:
        say_table(sentences.tables(found))
    elif (run or since or state) and not found:
        say(f"Nothing of the run {run} is on record." if run is not None else "Nothing of that is on record.")
    else:
        say_text(sentences.account(found))
    names = {(recorded.row.name, recorded.row.attempt) for recorded in found}
    asked = [one for one in seen(ledger, namespace, asked_in) if (one.transaction, one.attempt) in names]
    if asked:
        say_text(f"\n{asked_account(asked)}")
    if more:
        say(f"\nThese are the last {ON_A_TERMINAL}: --last 100, --since 7d, --run or --state shows others.")


_ENDED: dict[str, object] = {"state_since": None, "approvals": []}


def _standing(ledger: str | None, namespace: str, found: list[RecordedTransaction]) -> list[Standing]:
    """Return the standing of those of the found that are unfinished."""
    from settlemark._api import who_waits
    from settlemark._cli.commands.options import seen

    names = {(r.row.name, r.row.attempt) for r in found if r.state not in FINISHED}
    stand, _ = seen(ledger, namespace, who_waits.standing) if names else ([], 0.0)
    return [one for one in stand if (one.transaction, one.attempt) in names]


def _times(stand: list[Standing], found: list[RecordedTransaction]) -> dict[tuple[str, int], dict[str, object]]:
    """Return since when each unfinished transaction is in its state, and since when it waits for whom."""
    told = {(one.transaction, one.attempt): one.values() for one in stand}
    over = {(r.row.name, r.row.attempt): [w._asdict() for w in r.waits if w.until is not None] for r in found}
    return {
        which: {
            **{name: values[name] for name in _ENDED},
            "waits": [*over.get(which, ()), *({**waits, "until": None} for waits in values["waits"])],
        }
        for which, values in told.items()
    }


def residue(
    ledger: LedgerName = None,
    *,
    as_json: AsJson = False,
    as_table: AsTable = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what an operator has dealt with, with who did, when and how.")
    ] = False,
    run: OfRun = None,
    last: Last = None,
    since: Since = None,
    namespace: Namespace = "default",
) -> None:
    """List what aborts and partial commits left for an operator to mend; exit with 1 when there is some.

    Also counts what a process that is gone or silent has left unfinished: its residue is not known before it is taken
    up, so an empty list proves nothing until then. With --json the count is the last element of the list.

    To take something that you have mended off the list: settlemark resolve KEY dealt-with --by NAME --note TEXT.
    """
    from settlemark._api.who_waits import found as found_standing
    from settlemark._api.who_waits import left_standing
    from settlemark._cli.commands.options import seen
    from settlemark._report import sentences
    from settlemark.ledger._contract import Page
    from settlemark.ledger._replica.looking import Look, looking

    page = Page(last, None if since is None else since_when(since), run)

    def look(look: Look) -> tuple[list[RecordedTransaction], list[Standing]]:
        stand, _ = found_standing(look)
        return look.book.left(page), left_standing(stand, run=page.run, since=page.since)

    # In one read: between two reads an unfinished transaction may lose its owner and be on neither list.
    found, unfinished = seen(ledger, namespace, lambda opened: looking(opened, look))
    values = sentences.residue_values(found)
    nothing = sentences.NOTHING_YET if unfinished else sentences.NOTHING_LEFT
    dealt: list[RecordedTransaction] = []
    if everything:
        dealt = seen(ledger, namespace, lambda opened: opened.read(lambda book: book.left(page, dealt=True)))
    if as_json:
        say_json([*values, *sentences.residue_values(dealt, dealt=True), *unfinished_values(unfinished)])
    elif as_table:
        say_table(sentences.residue_table(found, nothing))
        if dealt:
            say_table(sentences.dealt_table(dealt))
    else:
        say_text(sentences.left_account(found, nothing))
        if dealt:
            say_text(sentences.dealt_account(dealt))
    say_unfinished(unfinished)
    raise typer.Exit(Exit.FOUND if values or unfinished else Exit.DONE)


__all__ = ["every", "residue", "show"]
