"""The `settlemark` command: what a ledger holds, what is left to mend, and further commands.

Further commands are found through the entry point group `settlemark.commands`, and loaded only when run: so the help
lists them all, whatever extras are installed.
"""

from __future__ import annotations

import importlib.metadata
from typing import Annotated

import typer

from settlemark._cli.commands.adopt import adopt
from settlemark._cli.commands.approvals import approvals, approve, edit, reject
from settlemark._cli.commands.budgets import budgets
from settlemark._cli.commands.check import check
from settlemark._cli.commands.claims import claims
from settlemark._cli.commands.doctor import doctor
from settlemark._cli.commands.doubts import in_doubt, resolve
from settlemark._cli.commands.export import export
from settlemark._cli.commands.halts import halt, halts, resume
from settlemark._cli.commands.leases import leases, release
from settlemark._cli.commands.lint import lint
from settlemark._cli.commands.migrate import migrate
from settlemark._cli.commands.obligations import obligations, waive
from settlemark._cli.commands.pauses import discard, go_on, hand_over, pause, pauses
from settlemark._cli.commands.primer import primer
from settlemark._cli.commands.prune import prune
from settlemark._cli.commands.recover import recover
from settlemark._cli.commands.show import residue, show
from settlemark._cli.commands.steering import steer, steering
from settlemark._cli.commands.stuck import settle_by_hand, stuck, undo_again
from settlemark._cli.commands.verdicts import verdicts
from settlemark._cli.commands.waiting import waiting
from settlemark._cli.commands.why import audit, why
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import PlainGroup, say

GROUP = "settlemark.commands"
COMMANDS = (
    show,
    waiting,
    residue,
    approvals,
    approve,
    edit,
    reject,
    in_doubt,
    resolve,
    stuck,
    undo_again,
    settle_by_hand,
    obligations,
    waive,
    halt,
    resume,
    halts,
    steer,
    steering,
    pause,
    pauses,
    go_on,
    hand_over,
    discard,
    recover,
    export,
    why,
    audit,
    primer,
    verdicts,
    claims,
    doctor,
    migrate,
    prune,
    budgets,
    leases,
    release,
    check,
    lint,
    adopt,
)


def _version(asked: bool) -> None:
    if asked:
        try:
            number = importlib.metadata.version("settlemark")
        except importlib.metadata.PackageNotFoundError:
            number = "(a source tree, not installed)"
        say(f"settlemark {number}")
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
        ImportError: a library it needs is not installed.
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
            say(f"settlemark {entry.name}: {error}{advice}", err=True)
            raise typer.Exit(Exit.FAILED) from None
        # A PlainGroup shows errors in its arguments safely.
        code = command(args=list(context.args), prog_name=f"settlemark {entry.name}", standalone_mode=False)
        raise typer.Exit(code if isinstance(code, int) else Exit.DONE)

    # Its own options, --help among them, are left for the command to read.
    app.command(
        entry.name,
        help=f"Provided by {entry.module.partition('.')[0]}: see settlemark {entry.name} --help.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(run_it)


def build() -> typer.Typer:
    """Return the whole command, with those of other packages."""
    app = typer.Typer(
        cls=PlainGroup,
        rich_markup_mode=None,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for command in COMMANDS:
        app.command(command.__name__.replace("_", "-"))(command)
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: entry.name):
        _add(app, entry)
    return app


def main() -> None:
    """Run the `settlemark` command."""
    build()(prog_name="settlemark")
