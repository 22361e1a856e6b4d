"""The options of a store's URL: those that leave a ledger's promises as they are; any other is refused.

SQLite's own options can turn its locks off, keep the database in memory alone, or give the files beside it to
everybody; psycopg's own arguments are Python objects, which no URL can hold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from settlemark._edges.errors import LedgerError
from settlemark.ledger._urls import shown

_SQLITE: Mapping[str, Collection[str]] = {
    "mode": ("rwc", "rw", "ro", "memory"),
    "cache": ("private",),
}
"""What SQLite itself may be told, once `uri=true` has it read the query, and the values of each."""
_PYSQLITE = ("cached_statements", "check_same_thread", "timeout", "uri")
_PSYCOPG = ("autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory")


def check_options(url: sa.URL, given: str) -> None:
    """Check that no option of a URL changes how its store locks, or what a commit waits for.

    Args:
        url: the parts of the URL.
        given: the URL as its user wrote it, for errors.

    Raises:
        LedgerError: one does, or has no effect, or is given twice.
    """
    if url.get_backend_name() == "sqlite":
        _check_sqlite(url, given)
        return
    for name in url.query:
        if name in _PSYCOPG:
            raise _refused(given, f"{name}=", "which the driver takes from Python alone: leave it out")


def check_name(url: sa.URL, given: str, *, is_uri: bool) -> None:
    """Check that SQLite takes the name of a URL's file for a name as a whole.

    Raises:
        LedgerError: it would read options in the name, or its end as a comment.
    """
    name = url.database or ""
    if not is_uri or not name.startswith("file:"):
        return
    for mark, written in (("?", "%253F"), ("#", "%2523")):
        if mark in name:
            raise _refused(given, f"{mark} in its file's name", f"where SQLite would end the name: write {written}")
    if "%00" in name:
        raise _refused(given, "%00 in its file's name", "which no file's name can hold: leave it out")


def _check_sqlite(url: sa.URL, given: str) -> None:
    for name, value in url.query.items():
        if not isinstance(value, str):
            raise _refused(given, f"{name}= twice", "of which SQLite would take one: leave the others out")
        if name in _PYSQLITE:
            continue
        allowed = _SQLITE.get(name)
        if allowed is None:
            *most, last = sorted((*_SQLITE, "timeout", "uri"))
            raise _refused(
                given,
                f"{name}=",
                "with which a ledger's promises were never tested: leave it out (a SQLite ledger takes"
                f" {', '.join(most)} and {last})",
            )
        if value not in allowed:
            known = " or ".join(f"{name}={one}" for one in allowed)
            raise _refused(given, f"{name}={value}", f"on which no ledger can be kept: write {known}, or leave it out")
        if "uri" not in url.query:
            raise _refused(
                given,
                f"{name}=",
                "which SQLite reads in a URI alone: write sqlite:///file:FILE?…&uri=true, or leave it out",
            )


def _refused(given: str, what: str, why: str) -> LedgerError:
    return LedgerError(f"{shown(given)!r} has {what}, {why}", url=shown(given))


__all__ = ["check_name", "check_options"]
