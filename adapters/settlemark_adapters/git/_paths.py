"""Paths inside a repository: plain, relative, and never into git's own folder."""

from __future__ import annotations

import re
import unicodedata

from settlemark_adapters.git._faults import GitFault

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SHORT_NAME = re.compile(r"git~\d+")


def inside(path: str) -> str:
    """Return a path that names a file of the tree.

    Raises:
        GitFault: it does not, or not plainly.

    >>> inside("src/a.py")
    'src/a.py'
    >>> inside("../secrets")
    Traceback (most recent call last):
    settlemark_adapters.git._faults.GitFault: '../secrets' is no path inside the repository: write it as in 'src/a.py'
    """
    check_text("path", path)
    parts = path.split("/")
    if not path or "\\" in path or _CONTROL.search(path) or any(part in ("", ".", "..") for part in parts):
        raise GitFault(f"{path!r} is no path inside the repository: write it as in 'src/a.py'", path=path)
    if any(_is_gits(part) for part in parts):
        raise GitFault(f"{path!r} is git's own: it is neither read nor written here", path=path)
    return path


def check_text(argument: str, given: object) -> None:
    """Check that an argument is a text.

    Raises:
        GitFault: it is none.
    """
    if not isinstance(given, str):
        raise GitFault(f"{argument}={given!r:.80}: give text", argument=argument)


def under(path: str) -> str:
    """Return a path of a folder of the tree; the empty one is the whole tree."""
    return inside(path.rstrip("/")) if path.rstrip("/") else ""


def above(path: str) -> list[str]:
    """Return the folders that a path is in.

    >>> above("a/b/c")
    ['a', 'a/b']
    """
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _is_gits(part: str) -> bool:
    # As a file system that folds case, drops invisible characters or has short names would read it.
    seen = "".join(c for c in part if unicodedata.category(c) != "Cf").casefold().split(":")[0].rstrip(". ")
    return seen == ".git" or _SHORT_NAME.fullmatch(seen) is not None


__all__ = ["above", "check_text", "inside", "under"]
