"""Commits in a database: the log and the tables for queries change in one transaction."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import exc

from settlemark.hosting import shown
from settlemark_adapters.records._backend import DAY, Moved
from settlemark_adapters.records._commit import Commit, Head
from settlemark_adapters.records._errors import OutcomeUnknown, StoreError
from settlemark_adapters.records._projection import Projection, View


class SqlBackend:
    """Commits in an SQLite or PostgreSQL database, in tables of their own.

    Args:
        database: an SQLAlchemy URL or engine.
        prefix: of the tables' names: `records_commits`, `…changes`, `…current`, `…fields`.
        schema: of the database, where they are.

    Laws: as `FileBackend`. A commit's number is a primary key, so of two committers one is refused.

    >>> from settlemark_adapters.records import Entity, Records
    >>> records = Records(SqlBackend("sqlite://"), entities=[Entity("Note", {"text": str})])
    >>> done = records.transaction("note it", lambda tx: tx.create("Note", {"text": "call Ada"}, "n1"))
    >>> records.query_records("Note", {"text": "call Ada"})
    [{'id': 'n1', 'text': 'call Ada'}]
    """

    def __init__(self, database: str | sa.Engine, *, prefix: str = "records_", schema: str | None = None) -> None:
        self._projection = Projection(database, prefix, schema)

    def __repr__(self) -> str:
        return f"SqlBackend({self._where!r})"

    @property
    def _where(self) -> str:
        return shown(self._projection.engine.url.render_as_string(hide_password=False))

    @contextmanager
    def view(self, *, fresh: bool = True) -> Generator[View]:
        """Yield the state at the last commit, unchanged while it is open."""
        del fresh
        with self._reached("read"), self._projection.reading() as view:
            yield view

    def stage(self, tenant: str, key: str) -> SqlStaging:
        """Return a place for a transaction's writes: its rows go into the database all at once."""
        del tenant, key
        return SqlStaging(self)

    def sweep(self, older_than: float = DAY) -> list[str]:
        """Return no names: a database itself removes what was not committed."""
        del older_than
        return []

    def publish(self, made: Commit) -> Commit:
        """Write a commit, unless another one has its number."""
        with self._reached("written"):
            try:
                with self._projection.writing() as connection:
                    if View(connection, self._projection.tables).head.number != made.number - 1:
                        raise Moved
                    self._projection.apply(connection, made)
                    self._commit(connection, made)
            except exc.IntegrityError as error:
                raise Moved from error
        return made

    def close(self) -> None:
        """Close its connections, if they are its own."""
        self._projection.close()

    def _commit(self, connection: sa.Connection, made: Commit) -> None:
        try:
            connection.commit()
        except exc.DBAPIError as error:
            # SQLite answers at once and truly; after a lost connection to a server nobody knows what it did.
            if isinstance(error, exc.IntegrityError) or connection.dialect.name == "sqlite":
                raise
            raise OutcomeUnknown(f"{self!r} did not say whether {made.id} is committed: {error.orig}") from error

    @contextmanager
    def _reached(self, what: str) -> Generator[None]:
        try:
            yield
        except exc.IntegrityError:
            raise
        except (exc.DBAPIError, exc.TimeoutError) as error:
            cause = error.orig if isinstance(error, exc.DBAPIError) else error
            raise StoreError(
                f"{self!r} could not be {what}: {cause}; nothing was committed", store=self._where
            ) from error


class SqlStaging:
    """What one transaction is to write: nothing is in the database before it is published."""

    def __init__(self, backend: SqlBackend) -> None:
        self._backend = backend

    def put(self, path: str, text: str | None) -> None:
        """Do nothing: the commit has it."""

    def publish(self, commit: Commit, head: Head) -> Commit:
        """Publish in one transaction of the database."""
        return self._backend.publish(commit.after(head))

    def discard(self) -> None:
        """Do nothing: there is nothing."""


__all__ = ["SqlBackend", "SqlStaging"]
