"""`settlemark fuzz`: whether an adapter's scopes cover what its calls change, told by the exit status as well."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from settlemark import UsageError
from settlemark.commands import AsJson, console, fail, say_json, say_text, unmarked
from settlemark.hosting import in_words
from settlemark_adapters.testing._fuzz import EXAMPLES
from settlemark_adapters.testing._fuzz import fuzz as fuzzed
from settlemark_adapters.testing._likeness import is_mapping
from settlemark_adapters.testing._subject import Subject

if TYPE_CHECKING:
    from settlemark_adapters.testing._findings import FuzzReport

Target = Annotated[
    str, typer.Argument(metavar="MODULE:SUBJECT", help="As in yourtests.subject:SUBJECT.", show_default=False)
]
Tools = Annotated[list[str] | None, typer.Option("--tool", help="Look at this tool only; may be repeated.")]


def fuzz(
    target: Target,
    *,
    examples: Annotated[int, typer.Option(min=1, help="How many calls of each tool are tried.")] = EXAMPLES,
    seed: Annotated[int, typer.Option(help="The same one makes up the same calls.")] = 0,
    tool: Tools = None,
    as_json: AsJson = False,
) -> None:
    """Make up calls, look at what they change, and report scopes that do not cover it, or cover too much.

    SUBJECT is a settlemark_adapters.testing.Subject, a mapping of such by name, or a function without arguments that
    returns either. Exits with 1 when a call changed what its scopes do not cover; a scope that is too broad is a hint.
    """
    try:
        reports = {
            name: _run(name, subject, examples, seed, tool, quiet=as_json) for name, subject in subjects(target).items()
        }
    except (ImportError, UsageError) as error:
        fail(error)
    if as_json:
        say_json([report.as_dict() for report in reports.values()])
    else:
        say_text("\n\n".join(map(str, reports.values())))
    raise typer.Exit(0 if all(report.ok for report in reports.values()) else 1)


def subjects(target: str) -> dict[str, Subject]:
    """Return the subjects that `module:attribute` names, by name.

    Raises:
        UsageError: it cannot be imported, is not there, or is none.
    """
    module, separator, attribute = target.partition(":")
    if not (separator and module and attribute):
        raise UsageError(f"{target!r} names no subject: say yourtests.subject:SUBJECT", target=target)
    if os.getcwd() not in sys.path:  # noqa: PTH109 - an entry of sys.path is a text
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise UsageError(
            f"{module} cannot be imported: {in_words(error)}; name one that can, from this folder"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{module} has no {attribute!r}: name a Subject, or a mapping of such", target=target)
        found = getattr(found, part)
    if callable(found):
        found = found()
    named = {attribute: found} if isinstance(found, Subject) else found
    if not is_mapping(named) or not all(isinstance(each, Subject) for each in named.values()):
        raise UsageError(f"{target} is no Subject, and no mapping of such by name", target=target)
    return dict(named)


def _run(name: str, subject: Subject, examples: int, seed: int, only: list[str] | None, *, quiet: bool) -> FuzzReport:
    from rich.progress import Progress

    shown_to = console(stderr=True)
    with Progress(console=shown_to, transient=True, disable=quiet or not shown_to.is_terminal) as progress:
        # How many calls it takes to shorten an example nobody knows before.
        bar = progress.add_task(unmarked(f"fuzzing {name}"), total=None)

        def told(tool: str) -> None:
            progress.update(bar, advance=1, description=unmarked(f"fuzzing {name}: {tool}"))

        return fuzzed(subject, examples=examples, seed=seed, only=only or None, progress=told)


__all__ = ["fuzz", "subjects"]
