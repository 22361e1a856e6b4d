"""The mark on a guess: importing it before a person has decided it raises an error."""

from __future__ import annotations

import ast
import linecache
import sys

from settlemark._edges.errors import DeclarationError


def undecided(tool: str, at: str = "") -> None:
    """Refuse to be imported: the declaration below is a guess, and nobody has decided it.

    `settlemark adopt` writes this above each guessed declaration. A person reads and corrects the declaration, and
    deletes this line.

    Args:
        tool: the tool declared below.
        at: its function's place.

    Raises:
        DeclarationError: always. It names the tool, the file and line of the mark, and how many others there are.
            Attributes `tool`, `file`, `line`, `undecided` (the names of all undecided tools in this file).

    >>> undecided("book_room", "app/tools.py:12")
    Traceback (most recent call last):
    ...
    settlemark._edges.errors.DeclarationError: <doctest ...>:1: nobody has decided what book_room ...
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the caller's frame has the file and line
    file, line = frame.f_code.co_filename, frame.f_lineno
    linecache.checkcache(file)
    names = [tool, *(name for name in _marked("".join(linecache.getlines(file))) if name != tool)]
    others = f"; and so are {', '.join(names[1:])}" if len(names) > 1 else ""
    raise DeclarationError(
        f"{file}:{line}: nobody has decided what {tool}{f' ({at})' if at else ''} does: read the declaration below this"
        f" line, correct it, then delete the line{others}",
        tool=tool,
        file=file,
        line=line,
        undecided=names,
    )


def _marked(text: str) -> list[str]:
    """Return the tools that a file still marks."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [
        str(call.args[0].value)
        for call in calls
        if getattr(call.func, "id", getattr(call.func, "attr", "")) == "undecided"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    ]


marked = _marked

__all__ = ["marked", "undecided"]
