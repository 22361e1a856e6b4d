"""`settlemark lint`: mistakes in a code base's declarations."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from settlemark._cli.commands.options import AsJson
from settlemark._cli.exits import Exit
from settlemark._cli.terminal import fail, say, say_json, say_text
from settlemark._edges.errors import UsageError

Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODULE_OR_PATH…",
        help="yourapp.tools, or path/to/tools.py; packages, folders, notebooks and Markdown too.",
        show_default=False,
    ),
]
Rules = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help="Only these: SM203, or SM2 for all of its kind.", show_default=False),
]
Ignored = Annotated[list[str] | None, typer.Option(metavar="RULE", help="All but these.", show_default=False)]


def lint(
    targets: Targets = None,
    *,
    as_json: AsJson = False,
    select: Rules = None,
    ignore: Ignored = None,
    rules: Annotated[bool, typer.Option("--rules", help="Tell what is looked for.")] = False,
) -> None:
    """Find undo, probe, key, scope and class mistakes in declarations, and say how to mend each; nothing is run.

    Exits with 1 when something was found. `# settlemark: ignore[SM203]` on its line silences a finding.
    """
    from settlemark.lint import RULES
    from settlemark.lint import lint as look

    if rules:
        for rule in RULES.values():
            say(f"{rule.code}  {rule.name:<28} {rule.severity:<8} {rule.about}")
        return
    if not targets:
        fail("name what to look at: settlemark lint yourapp.tools, or path/to/tools.py")
    try:
        found = look(*targets, select=split(select), ignore=split(ignore))
    except UsageError as error:
        fail(error)
    if as_json:
        say_json([asdict(finding) for finding in found])
    else:
        for finding in found:
            say_text(str(finding))
        count = len(found)
        say("nothing found" if not count else f"{count} finding{'' if count == 1 else 's'}")
    raise typer.Exit(Exit.FOUND if found else Exit.DONE)


def split(given: list[str] | None) -> list[str]:
    """Return the values of an option that is given several times, or once with commas."""
    return [each.strip() for text in given or () for each in text.split(",") if each.strip()]


__all__ = ["lint"]
