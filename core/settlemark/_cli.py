"""The `settlemark` command: what a ledger holds, what is left to mend, and the commands of others.

Further commands are found through the entry point group `settlemark.commands`, and loaded only when
they are run: so the help lists them all, whatever extras are installed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from settlemark._errors import LedgerError
from settlemark.ledger import RecordedTransaction, open_ledger

GROUP = "settlemark.commands"
_SQLITE = "sqlite:///"

_Ledger = Annotated[
    str | None,
    typer.Argument(
        metavar="[LEDGER]",
        help="A file or a URL; by default $SETTLEMARK_URL, else settlemark.db in this folder.",
        show_default=False,
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, with every field the ledger has.")]
_Table = Annotated[bool, typer.Option("--table", help="Print tables instead of sentences.")]
_Namespace = Annotated[str, typer.Option(help="The namespace the ledger was written under.")]


def ledger_url(given: str | None) -> str:
    """Return the URL of the ledger a user named: a path becomes one of SQLite.

    >>> ledger_url("trip.db"), ledger_url("postgresql+psycopg://db/trips")
    ('sqlite:///trip.db', 'postgresql+psycopg://db/trips')
    """
    from settlemark._settlement import DEFAULT_URL

    text = given or os.environ.get("SETTLEMARK_URL") or DEFAULT_URL
    return text if "://" in text or text == "memory:" else f"{_SQLITE}{text}"


def read_ledger(given: str | None, *, namespace: str = "default") -> list[RecordedTransaction]:
    """Return every transaction of a ledger that exists; nothing is created and nothing changed.

    Raises:
        LedgerError: there is no ledger of that name; the message says what to do.
    """
    url = ledger_url(given)
    if url == "memory:":
        raise LedgerError("a memory: ledger ends with its process: name a file or a URL", url=url)
    ledger = open_ledger(url, namespace=namespace, readonly=True)
    try:
        return ledger.transactions()
    finally:
        ledger.close()


def _read(given: str | None, namespace: str) -> list[RecordedTransaction]:
    try:
        return read_ledger(given, namespace=namespace)
    except LedgerError as error:
        typer.echo(f"settlemark: {error}", err=True)
        raise typer.Exit(2) from None


def _print(values: Any) -> None:
    typer.echo(json.dumps(values, indent=2, ensure_ascii=False))


def show(
    ledger: _Ledger = None,
    *,
    as_json: _Json = False,
    as_table: _Table = False,
    run: Annotated[str | None, typer.Option(help="Only the transactions of this run.", show_default=False)] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only the last so many.", show_default=False)] = None,
    namespace: _Namespace = "default",
) -> None:
    """Tell what became of every call, who waits for whom, and what is left to mend."""
    from settlemark import _show

    found: Sequence[RecordedTransaction] = _read(ledger, namespace)
    if run is not None:
        found = [recorded for recorded in found if recorded.row.run == run]
    if last is not None:
        found = found[-last:]
    if as_json:
        _print([_show.as_values(recorded) for recorded in found])
    elif as_table:
        from rich.console import Console

        Console().print(_show.tables(found))
    elif run is not None and not found:
        typer.echo(f"Nothing of the run {run} is on record.")
    else:
        typer.echo(_show.account(found))


def residue(
    ledger: _Ledger = None, *, as_json: _Json = False, as_table: _Table = False, namespace: _Namespace = "default"
) -> None:
    """Name what aborts and partial commits left for somebody to mend; exit with 1 when there is some."""
    from settlemark import _show

    found = _read(ledger, namespace)
    values = _show.residue_values(found)
    if as_json:
        _print(values)
    elif as_table:
        from rich.console import Console

        Console().print(_show.residue_table(found))
    else:
        typer.echo(_show.left_account(found))
    raise typer.Exit(1 if values else 0)


def _version(asked: bool) -> None:
    if asked:
        try:
            number = importlib.metadata.version("settlemark")
        except importlib.metadata.PackageNotFoundError:
            number = "(a source tree, not installed)"
        typer.echo(f"settlemark {number}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Settle the effects of agent tools; look at what was settled."""


def command_of(entry: importlib.metadata.EntryPoint) -> typer.Typer:
    """Return the command behind an entry point, as an app of its own.

    Raises:
        ImportError: what it needs is not installed.
    """
    loaded = entry.load()
    if isinstance(loaded, typer.Typer):
        return loaded
    app = typer.Typer(add_completion=False)
    app.command(name=entry.name)(loaded)
    return app


def _add(app: typer.Typer, entry: importlib.metadata.EntryPoint) -> None:
    def run_it(context: typer.Context) -> None:
        try:
            command = command_of(entry)
        except ImportError as error:
            advice = "" if "pip install" in str(error) else f'; pip install "settlemark[{entry.name}]"'
            typer.echo(f"settlemark {entry.name}: {error}{advice}", err=True)
            raise typer.Exit(2) from None
        command(args=list(context.args), prog_name=f"settlemark {entry.name}")

    # Its own options, --help among them, are for the command itself to read.
    app.command(
        entry.name,
        help=f"Provided by {entry.module.partition('.')[0]}: see settlemark {entry.name} --help.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(run_it)


def build() -> typer.Typer:
    """Return the whole command, with what other packages add to it."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_options)
    app.command()(show)
    app.command()(residue)
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: entry.name):
        _add(app, entry)
    return app


def main() -> None:
    """Run the `settlemark` command."""
    build()(prog_name="settlemark")
