"""`settlemark why` and `settlemark audit`: why an agent acted, and whether that record is what was recorded."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from settlemark._cli.commands.options import AsJson, LedgerName, Namespace, seen
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import fail, say, say_json, say_text
from settlemark._edges.errors import UsageError

if TYPE_CHECKING:
    from settlemark._report.why import Chapter


def why(
    key: Annotated[
        str | None,
        typer.Argument(metavar="[KEY]", help="The effect's key, as settlemark show --json has it.", show_default=False),
    ] = None,
    ledger: LedgerName = None,
    *,
    run: Annotated[
        str | None,
        typer.Option("--run", help="In place of a key: the story of this run, for an auditor.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Tell why an effect was called: its decision, what that stood on, and what of it has changed since.

    With --run, the only argument is the ledger: each attempt of the run, its decisions, and the effects under each.
    """
    if run is not None:
        if key is not None and ledger is not None:
            fail("give a key or --run, not both: settlemark why KEY [LEDGER], or settlemark why --run RUN [LEDGER]")
        _tell_story(run, key, namespace, as_json=as_json)
        return
    if key is None:
        fail("name what is asked about: settlemark why KEY [LEDGER], or settlemark why --run RUN [LEDGER]")
    from settlemark._report.story import why_account
    from settlemark._steering.reasons import steered_why

    try:
        effect, found = seen(ledger, namespace, lambda opened: opened.read(lambda book: steered_why(book, key)))
    except UsageError as error:
        fail(error, code=Exit.FOUND)
    if as_json:
        say_json(asdict(found))
    else:
        say_text(why_account(effect, found))


def _tell_story(run: str, ledger: str | None, namespace: str, *, as_json: bool) -> None:
    from settlemark._report.story import story_account
    from settlemark._steering.reasons import steered_story

    story = seen(ledger, namespace, lambda opened: opened.read(lambda book: steered_story(book, run)))
    if as_json:
        say_json(list(map(_chapter, story)))
    else:
        say_text(story_account(story))


def _chapter(chapter: Chapter) -> dict[str, Any]:
    recorded, told = chapter
    return {
        "transaction": recorded.row.name,
        "attempt": recorded.row.attempt,
        "state": recorded.state.value,
        "because": recorded.because,
        "effects": [asdict(why) for _, why in told],
    }


def audit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run, as settlemark show --json has it.")],
    ledger: LedgerName = None,
    *,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest", help="A digest that an earlier audit has printed: it must still be there.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    namespace: Namespace = "default",
) -> None:
    """Verify a run's record: each row's digest is over the row before it; exit with 1 when a row is not as recorded.

    A row that was changed, removed or added by hand is named; what retention has removed is none of that. Keep the
    digest that is printed last: with it, a later audit proves that no row up to it was made anew.
    """
    from settlemark.ledger._audit import audit_of

    found = seen(ledger, namespace, lambda opened: opened.read(lambda book: audit_of(book, run, digest)))
    if as_json:
        say_json(found.values())
    elif not found.rows and not found.faults:
        say(f"Nothing of the run {run} is in a chain: it has decided nothing.")
    else:
        say(*map(str, found.faults))
        if not found.faults:
            say(f"All {found.rows} rows of the run {run} are what was recorded.")
        say(f"digest: {found.digest}")
    raise typer.Exit(Exit.FOUND if found.faults else Exit.DONE)


__all__ = ["audit", "why"]
