"""`settlemark adopt`: a first draft of declarations for the tools of a code base."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from settlemark._cli.commands.lint import Targets
from settlemark._cli.commands.options import AsJson
from settlemark._cli.terminal import fail, say, say_json, say_text
from settlemark._edges.errors import UsageError
from settlemark._edges.private import is_database

if TYPE_CHECKING:
    from settlemark.lint import Adopted


def adopt(
    targets: Targets = None,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write it; - is the screen.")
    ] = "declarations.py",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draft declarations for undeclared tools, guessed from their names, hints, docstrings and bodies.

    The draft cannot be imported until a person has decided each guess. Run again, this adds new tools and leaves the
    rest of the file as it is.
    """
    from settlemark.lint import adopt as draft

    if not targets:
        fail("name what to look at: settlemark adopt yourapp.tools, or path/to/tools.py")
    to_screen = output == "-"
    place = Path(output)
    try:
        existing = None if to_screen or force or not place.exists() else place.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        fail(f"{output} cannot be read: {error}; name another file with --output")
    try:
        found = draft(*targets)
        if existing is not None:
            found = draft(*targets, existing=existing)
    except UsageError as error:
        if existing is not None and getattr(error, "target", None) is None:
            fail(
                f"{output} is there already, and {error}; name another file with --output, or write over it with"
                " --force"
            )
        fail(error)
    if not to_screen and found.text != existing and (found.guesses or existing is None):
        _write(place, found.text)
    if as_json:
        say_json(_values(found, None if to_screen else output))
    elif to_screen:
        say_text(found.text.removesuffix("\n"))
    else:
        _tell(found, output)
    for unreadable in found.unreadable:
        say(f"settlemark: left out: {unreadable}", err=True)


def _write(place: Path, text: str) -> None:
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        if is_database(place):
            fail(f"{place} is a database, which would be lost: name another file with --output")
        beside.write_text(text, encoding="utf-8")
        beside.replace(place)
    except OSError as error:
        beside.unlink(missing_ok=True)
        fail(f"{place} cannot be written: {error}; name another file with --output")


def _values(found: Adopted, output: str | None) -> dict[str, object]:
    return {
        "output": output,
        "guesses": [{**asdict(each), "declaration": each.line} for each in found.guesses],
        "kept": list(found.kept),
        "gone": list(found.gone),
    }


def _tell(found: Adopted, output: str) -> None:
    for each in found.guesses:
        say(f"{each.file}:{each.at}: {each.tool}: {each.kind}{f' on {each.scope}' if each.scope else ''}")
        say(f"    {each.reasons[0]}")
    if found.gone:
        say(f"{output} declares {', '.join(found.gone)}, which no longer exist: delete them there")
    kept = f"; {len(found.kept)} existing ones stay as they are" if found.kept else ""
    if found.guesses:
        count = len(found.guesses)
        say(f"{output}: {count} guess{'' if count == 1 else 'es'} to decide{kept}")
    else:
        say(f"{output}: no tool is new{kept}")


__all__ = ["adopt"]
