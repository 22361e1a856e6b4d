"""Files that only their owner may read: ledgers, histories, exports and pictures quote tools' arguments.

A new file gets mode 0600, whatever the umask. An existing file keeps the mode its owner chose; `settlemark doctor`
reports one that others may read.
"""

from __future__ import annotations

import os
from pathlib import Path

MODE = 0o600
_DATABASE = (
    b"SQLite format 3\0",
    b"\x37\x7f\x06\x82",
    b"\x37\x7f\x06\x83",
    b"\x18\xe2\x2d\x00",
    b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7",
)
"""How a SQLite file begins, and those beside it: its log, the log's index, its journal."""


def private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, for `open(…, opener=private)`; a new file gets mode 0600."""
    return os.open(path, flags, MODE)


def make_private(path: str | os.PathLike[str]) -> None:
    """Create an empty file unless it exists, before a library creates one that others may read.

    Raises:
        OSError: the file cannot be created.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), MODE))
    except FileExistsError:
        return


def is_database(path: Path) -> bool:
    """Whether a file is a SQLite database, or a part of one: to write over it would lose a ledger."""
    if not path.is_file():  # to look into a pipe would take from it
        return False
    with path.open("rb") as file:
        return file.read(len(_DATABASE[0])).startswith(_DATABASE)


def others_may_read(path: Path) -> bool:
    """Whether a file exists that other users than its owner may read."""
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


__all__ = ["MODE", "is_database", "make_private", "others_may_read", "private"]
