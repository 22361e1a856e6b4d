"""What a store's failure means for a user of the ledger, and what to do about it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from settlemark._edges.errors import LedgerError
from settlemark._edges.wording import is_a, message_of
from settlemark.ledger._sql.patience import BASE_CODE
from settlemark.ledger._urls import shown, withhold, without_secrets

_ADVICE = (
    (("does not exist",), "create it, or name another one"),
    (("readonly", "read-only", "permission denied"), "make the file and its folder writable, or name another file"),
    (("unable to open",), "see that its folder is there and may be written, or name another file"),
    (("is full", "no space left", "disk full"), "free some space: nothing was run that could not be recorded"),
    (("no answer from the server",), "the server, or the network to it, hangs: see to that, then try again"),
    (("locked",), "another process holds it for long: look for one that hangs in a transaction of its own"),
    (("not a database", "malformed"), "this file is something else, or damaged: name another one, or restore a backup"),
    (("i/o error",), "its disk fails, or its files were removed while it was open: see to that, then start anew"),
    (
        (
            "connection refused",
            "could not connect",
            "server closed",
            "terminating connection",
            "connection failed",
            "connection is lost",
            "connection is bad",
            "consuming input failed",
            "no route",
            "timeout expired",
            "is the server running",
            "the database system is",
        ),
        "the server is not reachable: what was open is taken up when it is back",
    ),
    (("password authentication", "no password"), "check the user and password in the URL"),
)

_UNWRITABLE = ("unable to open", "readonly", "read-only", "permission denied")
_SCHEME = "sqlite"


def explain(url: str, error: BaseException) -> LedgerError:
    """Return an error that says what failed and what to do; its cause is the store's own error.

    No text of this error, or of its causes, has the URL's passwords.
    """
    if isinstance(error, LedgerError):
        withhold(url, error)
        error.data.setdefault("url", shown(url))
        return error
    text = " ".join(message_of(getattr(error, "orig", None) or error).split())
    lowered = text.lower()
    advice = next((then for signs, then in _ADVICE if any(sign in lowered for sign in signs)), "see the cause below")
    if isinstance(error, OSError) or any(sign in lowered for sign in _UNWRITABLE):
        advice = _unwritable(url) or advice
    withhold(url, error)
    text = without_secrets(url, text)
    failed = LedgerError(f"the ledger {shown(url)} failed: {text}; {advice}", url=shown(url))
    failed.__cause__ = error
    return failed


def _unwritable(url: str) -> str | None:
    """Return why a SQLite file cannot be written, and what to do; None when no cause is found."""
    if not url.startswith(_SCHEME):
        return None
    import sqlalchemy as sa

    from settlemark.ledger._sql.sqlite import file_of

    path = file_of(sa.make_url(url))
    if path is None:
        return None
    try:
        return next(_write_obstacles(path.absolute()), None)
    except PermissionError:
        return f"this user may not enter the folder {path.parent}: change its permissions, or name another file"
    except OSError:
        return None


def _write_obstacles(path: Path) -> Iterator[str]:
    """Yield what keeps a file from being written, the farthest folder first."""
    from settlemark.ledger._sql.sqlite import BESIDE

    folder = path.parent
    found = next((above for above in (folder, *folder.parents) if above.exists()), folder)
    if not found.is_dir():
        yield f"{found} is a file, not a folder: name another file"
    if _is_readonly(found):
        yield f"{found} is on a file system that is mounted read-only: name a file on one that can be written"
    if found != folder:
        yield f"there is no folder {folder}: create it, or name another file"
    if path.is_dir():
        yield f"{path} is a folder: name a file"
    for file in (path, *(path.with_name(f"{path.name}{end}") for end in BESIDE)):
        if file.exists() and not os.access(file, os.W_OK):
            yield f"this user may not write {file}: change its permissions, or name another file"
    if not os.access(folder, os.W_OK | os.X_OK):
        yield f"this user may not write in {folder}, where SQLite puts two more files: change that, or name another"


def _is_readonly(folder: Path) -> bool:
    tell = getattr(os, "statvfs", None)
    return tell is not None and bool(tell(folder).f_flag & os.ST_RDONLY)


def is_gone(error: BaseException) -> bool:
    """Whether a store's file was deleted or replaced while open: no step is at fault."""
    return is_a(error, LedgerError) and bool(error.data.get("gone"))


def is_transient(error: BaseException) -> bool:
    """Whether a store failed only because of another user at the same time."""
    if not is_a(error, Exception):
        return False
    if getattr(error, "sqlstate", None) in ("40001", "40P01"):
        return True
    code: int = getattr(error, "sqlite_errorcode", 0)
    return is_a(error, sqlite3.OperationalError) and code & BASE_CODE == sqlite3.SQLITE_BUSY


__all__ = ["explain", "is_gone", "is_transient"]
