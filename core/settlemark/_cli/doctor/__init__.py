"""What weakens a ledger: `examine` only reads it, and does not join its workers."""

from __future__ import annotations

import time
from collections.abc import Callable

import sqlalchemy as sa

from settlemark._cli.doctor import files, server, work
from settlemark._cli.doctor.finding import Finding, Severity
from settlemark._edges.errors import LedgerError
from settlemark.ledger import open_ledger
from settlemark.ledger._contract import SCHEMA_VERSION
from settlemark.ledger._failures import explain
from settlemark.ledger._limits import is_late, within
from settlemark.ledger._replica.looking import Look, looking, open_any_schema


def examine(
    url: str, *, namespace: str = "default", clock: Callable[[], float] = time.time, wait: float = 30.0
) -> list[Finding]:
    """Return the findings about a ledger, in the order of the checks.

    Raises:
        LedgerError: there is no ledger, it cannot be read, or it has not answered in so many seconds.
    """
    found: list[Finding] = []
    sqlite = False

    def look_at(look: Look) -> None:
        found.extend(files.store(look) if sqlite else server.store(look))
        found.extend(work.examine(look, clock))

    try:
        ledger = open_ledger(url, namespace=namespace, readonly=True, wait=wait)
    except LedgerError as error:
        version = None if is_late(error.__cause__ or error) else _other_schema(url, wait)
        if version is None:
            raise
        told = f"schema version {version}, and this settlemark writes {SCHEMA_VERSION}: nothing can be settled"
        return [Finding("schema", Severity.ATTENTION, told, str(error))]
    sqlite = sa.make_url(url).get_backend_name() == "sqlite"
    try:
        looking(ledger, look_at)
    finally:
        ledger.close()
    if sqlite:
        found.extend(files.surroundings(sa.make_url(url)))
    return [Finding("schema", Severity.OK, f"schema version {SCHEMA_VERSION}, which this settlemark writes"), *found]


def _other_schema(url: str, wait: float) -> str | None:
    """Return the schema version of a ledger that cannot be opened for its version's sake."""
    try:
        with within(wait), open_any_schema(url) as look:
            rows = look.ask("SELECT value FROM settlemark_meta WHERE key = 'schema'")
    except Exception as error:
        explain(url, error)
        return None
    return str(rows[0][0]) if rows and rows[0][0] != str(SCHEMA_VERSION) else None


__all__ = ["Finding", "Severity", "examine"]
