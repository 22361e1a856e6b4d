"""The state of a log of commits, in tables for queries: records, their fields, and their last writers.

Each commit is applied in one database transaction together with its number, so the tables always show the state at some
commit, and which. Where the log itself is in a database these are its own tables.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import StaticPool

from settlemark.hosting import discreet, patiently
from settlemark_adapters.records._commit import Commit, Head
from settlemark_adapters.records._entity import mark, read, split
from settlemark_adapters.records._errors import StoreError


@dataclass(frozen=True, slots=True)
class Row:
    """A record's row.

    Attributes:
        text: the record's, or None where it was deleted.
        commit: the id of the last commit that changed it.
        place: of all records in the order they were created.
    """

    path: str
    text: str | None
    commit: str
    place: tuple[int, int]

    def record(self) -> dict[str, Any]:
        """Return the record, with its id.

        Raises:
            StoreError: the row holds something else.
        """
        at = split(self.path)
        try:
            return {"id": "" if at is None else at[1], **read(self.text or "{}")}
        except ValueError as error:
            raise StoreError(f"{self.path} holds no record: {error}", store=self.path) from error


class Tables:
    """The tables of one log, under a prefix."""

    def __init__(self, prefix: str, schema: str | None = None) -> None:
        self.metadata = sa.MetaData(schema=schema)
        self.commits = sa.Table(
            f"{prefix}commits",
            self.metadata,
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("id", sa.String(64), nullable=False, unique=True),
            sa.Column("parent", sa.String(64)),
            sa.Column("message", sa.Text, nullable=False),
            sa.Column("author", sa.Text, nullable=False),
            sa.Column("at", sa.Double, nullable=False),
            sa.Column("result", sa.Text, nullable=False),
            sa.Column("key", sa.Text, unique=True),
            sa.Column("request", sa.String(64), nullable=False),
            sa.Column("reverts", sa.String(64), unique=True),
        )
        self.changes = sa.Table(
            f"{prefix}changes",
            self.metadata,
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("path", sa.String(255), primary_key=True),
            sa.Column("place", sa.Integer, nullable=False),
            sa.Column("text", sa.Text),
            sa.Column("before", sa.String(64)),  # the commit that had written the text before
            sa.Index(f"{prefix}changes_path", "path", "number"),
        )
        self.records = sa.Table(
            f"{prefix}current",
            self.metadata,
            sa.Column("path", sa.String(255), primary_key=True),
            sa.Column("space", sa.String(255), nullable=False),
            sa.Column("text", sa.Text),
            sa.Column("commit", sa.String(64), nullable=False),
            sa.Column("created", sa.Integer, nullable=False),
            sa.Column("place", sa.Integer, nullable=False),
            sa.Index(f"{prefix}current_space", "space", "created", "place"),
        )
        self.fields = sa.Table(
            f"{prefix}fields",
            self.metadata,
            sa.Column("path", sa.String(255), primary_key=True),
            sa.Column("name", sa.String(64), primary_key=True),
            sa.Column("mark", sa.String(64), nullable=False),  # a digest: values may be longer than an index can hold
            sa.Index(f"{prefix}fields_mark", "name", "mark"),
        )


class View:
    """The state at one commit, for as long as its connection's transaction is open."""

    def __init__(self, connection: sa.Connection, tables: Tables) -> None:
        self._connection = connection
        self._tables = tables

    @cached_property
    def head(self) -> Head:
        """The commit it shows."""
        commits = self._tables.commits
        found = self._one(sa.select(commits.c.number, commits.c.id).order_by(commits.c.number.desc()).limit(1))
        return Head() if found is None else Head(found.number, found.id)

    def row(self, path: str) -> Row | None:
        """Return the row of a path, a deletion included; None when it was never written."""
        records = self._tables.records
        found = self._one(sa.select(records).where(records.c.path == path))
        return None if found is None else _row(found)

    def rows(self, space: str, where: Mapping[str, Any]) -> list[Row]:
        """Return the records of a folder whose fields have these values, in the order they were created."""
        records, fields = self._tables.records, self._tables.fields
        wanted = sa.select(records).where(records.c.space == space, records.c.text.is_not(None))
        for name, value in where.items():
            having = sa.select(fields.c.path).where(fields.c.name == name, fields.c.mark == mark(value))
            wanted = wanted.where(records.c.path.in_(having))
        return [_row(found) for found in self._all(wanted.order_by(records.c.created, records.c.place))]

    def of_key(self, key: str) -> Commit | None:
        """Return the commit made under a key."""
        return self._commit(self._tables.commits.c.key == key)

    def of_id(self, commit: str) -> Commit | None:
        """Return a commit."""
        return self._commit(self._tables.commits.c.id == commit)

    def reverting(self, commit: str) -> Commit | None:
        """Return the commit that takes another one back."""
        return self._commit(self._tables.commits.c.reverts == commit)

    def before(self, commit: Commit) -> dict[str, tuple[str | None, str | None]]:
        """Return the rows of a commit's paths before it: by path the text, and the commit that had written it."""
        changes, commits = self._tables.changes, self._tables.commits
        found: dict[str, tuple[str | None, str | None]] = {}
        for change in self._all(sa.select(changes).where(changes.c.number == commit.number).order_by(changes.c.place)):
            earlier = self._one(
                sa.select(changes.c.text)
                .join(commits, commits.c.number == changes.c.number)
                .where(commits.c.id == change.before, changes.c.path == change.path)
            )
            found[change.path] = (None if earlier is None else earlier.text, change.before)
        return found

    def log(self, limit: int, below: str = "") -> list[Commit]:
        """Return the last commits, the newest first; only those that changed something at or below a path, if given."""
        commits, changes = self._tables.commits, self._tables.changes
        wanted = sa.select(commits).order_by(commits.c.number.desc()).limit(limit)
        if below:
            at = (changes.c.path == below) | changes.c.path.startswith(f"{below}/", autoescape=True)
            wanted = wanted.where(commits.c.number.in_(sa.select(changes.c.number).where(at)))
        return [self._made(found) for found in self._all(wanted)]

    def _commit(self, which: sa.ColumnElement[bool]) -> Commit | None:
        found = self._one(sa.select(self._tables.commits).where(which))
        return None if found is None else self._made(found)

    def _made(self, found: sa.Row[Any]) -> Commit:
        changes = self._tables.changes
        texts = sa.select(changes.c.path, changes.c.text).where(changes.c.number == found.number)
        contents = {change.path: change.text for change in self._all(texts.order_by(changes.c.place))}
        return Commit(
            found.message,
            found.author,
            found.at,
            contents,
            json.loads(found.result),
            found.key,
            found.request,
            found.reverts,
            found.number,
            found.parent,
            found.id,
        )

    def _one(self, query: sa.Executable) -> sa.Row[Any] | None:
        return self._connection.execute(query).first()

    def _all(self, query: sa.Executable) -> Sequence[sa.Row[Any]]:
        return self._connection.execute(query).all()


class Projection:
    """The tables in a database: SQLite's, in memory or in a file, or an engine's.

    Args:
        database: an SQLAlchemy engine or URL; `sqlite://` is memory.
        prefix: of the tables' names.
        schema: the database's schema for the tables.
    """

    def __init__(
        self, database: str | sa.Engine = "sqlite://", prefix: str = "records_", schema: str | None = None
    ) -> None:
        self.tables = Tables(prefix, schema)
        self._own = isinstance(database, str)
        self.engine = _engine(database) if isinstance(database, str) else database
        self.lock = threading.RLock()
        # A database in memory has only one connection.
        self._alone: AbstractContextManager[Any] = (
            self.lock if isinstance(self.engine.pool, StaticPool) else nullcontext()
        )
        self._made = False

    @contextmanager
    def reading(self) -> Generator[View]:
        """Yield the state at the last applied commit."""
        with self._within(write=False) as connection:
            yield View(connection, self.tables)

    @contextmanager
    def writing(self) -> Generator[sa.Connection]:
        """Yield a connection in a transaction that is committed at the end."""
        with self._within(write=True) as connection:
            yield connection
            connection.commit()

    def apply(self, connection: sa.Connection, commit: Commit) -> None:
        """Add the next commit.

        Raises:
            sqlalchemy.exc.IntegrityError: another one has its number, or its key.
        """
        tables, view = self.tables, View(connection, self.tables)
        values = {name: value for name, value in commit.plain().items() if name != "contents"}
        values["result"] = json.dumps(commit.result)
        connection.execute(tables.commits.insert().values(values))  # first: of two committers one fails here
        taken_back = None if commit.reverts is None else view.of_id(commit.reverts)
        owners = {} if taken_back is None else {path: owner for path, (_, owner) in view.before(taken_back).items()}
        for place, (path, text) in enumerate(commit.contents.items()):
            was = view.row(path)
            self._put(connection, commit, path, text, place, was, owners.get(path) if path in owners else commit.id)

    def forget(self, connection: sa.Connection) -> None:
        """Remove everything, to begin anew."""
        for table in reversed(self.tables.metadata.sorted_tables):
            connection.execute(table.delete())

    def close(self) -> None:
        """Close its connections, if they are its own."""
        if self._own:
            self.engine.dispose()

    def _put(
        self,
        connection: sa.Connection,
        commit: Commit,
        path: str,
        text: str | None,
        place: int,
        was: Row | None,
        owner: str | None,
    ) -> None:
        tables, at = self.tables, split(path)
        before = None if was is None else was.commit
        change = {"number": commit.number, "path": path, "place": place, "text": text, "before": before}
        connection.execute(tables.changes.insert().values(change))
        for table in (tables.fields, tables.records):
            connection.execute(table.delete().where(table.c.path == path))
        if owner is None or at is None:
            return  # as if it had never been
        stays = was is not None and (was.text is not None or commit.reverts is not None)
        created = was.place if was is not None and stays else (commit.number, place)
        row = {
            "path": path,
            "space": at[0],
            "text": text,
            "commit": owner,
            "created": created[0],
            "place": created[1],
        }
        connection.execute(tables.records.insert().values(row))
        marks = [{"path": path, "name": name[:64], "mark": mark(value)} for name, value in _fields(text).items()]
        if marks:
            connection.execute(tables.fields.insert(), marks)

    @contextmanager
    def _within(self, *, write: bool) -> Generator[sa.Connection]:
        with self._alone, self.engine.connect() as connection:
            if not self._made:
                self._make(connection)
            _begin(connection, write=write)
            yield connection

    def _make(self, connection: sa.Connection) -> None:
        if not self._is_made(connection):
            try:
                _begin(connection, write=True)  # all the tables, or none
                self.tables.metadata.create_all(connection)
                connection.commit()
            except exc.DBAPIError:
                connection.rollback()
                if not self._is_made(connection):  # made by another process, meanwhile
                    raise
        connection.rollback()
        self._made = True

    def _is_made(self, connection: sa.Connection) -> bool:
        table = self.tables.fields
        return bool(sa.inspect(connection).has_table(table.name, schema=table.schema))


def _engine(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
            return sa.create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
        waiting = {"timeout": 30} if parsed.get_backend_name() == "sqlite" else {}
        engine = discreet(sa.create_engine(url, connect_args=waiting, hide_parameters=True))
    except (exc.ArgumentError, exc.NoSuchModuleError) as error:
        raise StoreError(f"no database can be opened there: {error}; write for example 'sqlite:///books.db'") from None
    if waiting:
        event.listen(engine, "connect", _let_readers_by)
    return engine


def _let_readers_by(file: sqlite3.Connection, _record: Any) -> None:
    """Let readers and the writer of a file not wait for each other.

    SQLite refuses the change at once, whatever its timeout, while another connection has the write lock.
    """
    patiently(lambda: file.execute("PRAGMA journal_mode=WAL"))


def _begin(connection: sa.Connection, *, write: bool) -> None:
    """Begin a transaction that sees one state to its end, and, for writing, excludes other writers."""
    if connection.dialect.name == "sqlite":
        # Python's driver begins one only at the first write, unless the engine's owner changed that.
        connection.execute(sa.text("SELECT 1"))
        if not getattr(connection.connection.dbapi_connection, "in_transaction", False):
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
    elif not write:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def _row(found: sa.Row[Any]) -> Row:
    return Row(found.path, found.text, found.commit, (found.created, found.place))


def _fields(text: str | None) -> dict[str, Any]:
    try:
        return {} if text is None else read(text)
    except ValueError:
        return {}  # another's file, which no query finds


def apply_all(projection: Projection, commits: Iterable[Commit], *, anew: bool) -> None:
    """Bring a projection up to date, in one transaction; those that another process has applied are skipped."""
    with projection.writing() as connection:
        if anew:
            projection.forget(connection)
        have = View(connection, projection.tables).head.number
        for commit in commits:
            if commit.number > have:
                known = commit.key is not None and View(connection, projection.tables).of_key(commit.key) is not None
                # Somebody's copy of a commit, as made by git's cherry-pick, belongs to no call.
                projection.apply(connection, replace(commit, key=None, request="", reverts=None) if known else commit)


__all__ = ["Projection", "Row", "Tables", "View", "apply_all"]
