"""Files that nobody but their owner reads: ledgers, histories, exports and pictures tell what tools were asked.

A file that is made here has the mode 0600, whatever the umask. One that is there already keeps its mode: its owner has
chosen it, and `settlemark doctor` tells of one that others may read.
"""

from __future__ import annotations

import os
from pathlib import Path

MODE = 0o600


def private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file; one that is made has the mode 0600. For `open(…, opener=private)`."""
    return os.open(path, flags, MODE)


def make_private(path: str | os.PathLike[str]) -> None:
    """Make an empty file unless it is there, for a library that would make one that others may read.

    Raises:
        OSError: it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), MODE))
    except FileExistsError:
        return


def others_may_read(path: Path) -> bool:
    """Whether a file is there that somebody beside its owner may read."""
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


__all__ = ["MODE", "make_private", "others_may_read", "private"]
