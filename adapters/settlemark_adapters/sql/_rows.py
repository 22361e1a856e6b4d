"""Rows by their primary key: read, change, and restore if unchanged since.

A row is recorded in its exact form before and after each change, in the transaction of the change.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import sqlalchemy as sa
from sqlalchemy import exc

from settlemark.hosting import escape
from settlemark_adapters._database import Database, DatabaseRefused
from settlemark_adapters.sql._effects import Done, effects
from settlemark_adapters.sql._values import Exact, as_json, bound, exact, parameter, python_value, restored, segment

Verb = Literal["insert", "update", "delete", "upsert"]
Key = str | int | float | dict[str, Any]

# Differs when a foreign key was added or dropped, which may happen while a process runs.
_CATALOG = {
    "sqlite": "PRAGMA schema_version",
    "postgresql": "SELECT count(*), max(oid::bigint) FROM pg_constraint WHERE contype = 'f'",
}
_SPREADS = ("CASCADE", "SET NULL", "SET DEFAULT")
# PostgreSQL's text form of values depends on these; a value written in one process is compared in another.
_WRITING = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
}


class RowChanged(RuntimeError):
    """A row has changed since, so it was not undone: nothing was changed.

    Attributes: `scope` (the row's), `left` and `found` (the row, in its exact form, or None).
    """

    def __init__(self, message: str, *, scope: str = "", left: Exact | None = None, found: Exact | None = None) -> None:
        super().__init__(message)
        self.scope, self.left, self.found = scope, left, found


@dataclass(frozen=True)
class Change:
    """A requested change: a verb, a table, a row's key, and values by column."""

    verb: Verb
    table: str
    key: Key
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class _Link:
    """A foreign key that points at a table: a change there spreads to `columns` here."""

    table: sa.TableClause
    columns: tuple[str, ...]
    target: str
    targets: tuple[str, ...]
    rules: Mapping[str, str]


@dataclass(frozen=True)
class _Row:
    """A row's address: its table, and the values of its primary key."""

    table: sa.Table
    pk: Mapping[str, Any]
    named: str
    dialect: str

    @property
    def where(self) -> sa.ColumnElement[bool]:
        return sa.and_(
            *(self.table.c[name] == parameter(self.table.c[name], v, self.dialect) for name, v in self.pk.items())
        )

    @property
    def columns(self) -> list[str]:
        return [column.name for column in self.table.columns]


class Rows:
    """The rows of the named tables; no other table is touched.

    Args:
        database: the database.
        tables: their names, `schema.table` outside of the default schema. They are inspected at their first use.
    """

    def __init__(self, database: Database, tables: Iterable[str]) -> None:
        self.database = database
        self.names = tuple(dict.fromkeys(tables))
        self._tables: dict[str, sa.Table] = {}
        self._links: tuple[Any, list[_Link]] = (None, [])  # as of that state of the catalog
        self._lock = threading.Lock()
        if taken := [name for name in self.names if name.rpartition(".")[2].lower() == effects.name]:
            raise ValueError(f"tables= names {taken[0]}, which is settlemark's own: leave it out")

    # ---- addresses

    def scope(self, table: str, key: Key) -> str:
        """Return the scope of a row.

        Raises:
            ValueError: there is no such table here, or the key is none of its.
        """
        row = self._row(table, key)
        name = row.table.name if row.table.schema is None else f"{row.table.schema}.{row.table.name}"
        if row.dialect == "sqlite":
            name = name.lower()  # SQLite ignores the case of table names
        return "/".join([f"row:/{escape(self.database.name)}", *map(escape, [name, *map(segment, row.pk.values())])])

    def check(self, change: Change) -> None:
        """Check that a change can be asked of the database.

        Raises:
            ValueError: its table, key, columns or values are invalid; the message says what to give.
        """
        row = self._row(change.table, change.key)
        self._read(row, change)

    def know(self, table: str) -> None:
        """Inspect a table, unless done: within a transaction that would take a second connection."""
        self._table(table)

    def _row(self, table: str, key: Key) -> _Row:
        found = self._table(table)
        columns = list(found.primary_key.columns)
        names = [column.name for column in columns]
        given: Mapping[str, Any] = {}
        if isinstance(key, Mapping):
            given = key
        elif len(names) == 1:
            given = {names[0]: key}
        if set(given) != set(names):
            form = ", ".join(f'"{name}": …' for name in names)
            raise ValueError(
                f"{key!r:.80} is no key of {table}: give {{{form}}}{' or its value' if len(names) == 1 else ''}"
            )
        if missing := [name for name in names if given[name] is None]:
            raise ValueError(f"the key of {table} has no {missing[0]}: give a value, since it names the row")
        pk = {c.name: python_value(c, given[c.name], self.database.dialect) for c in columns}
        told = ", ".join(str(given[name]) for name in names)
        return _Row(found, pk, f"row {told} of {table}", self.database.dialect)

    def _table(self, name: str) -> sa.Table:
        allowed = ", ".join(self.names) or "none"
        if name == "" and len(self.names) == 1:
            name = self.names[0]  # a user's own function over the only table
        if not isinstance(cast("object", name), str) or name not in self.names:
            raise ValueError(f"there is no table {name!r:.80} for these tools: name one of {allowed}")
        with self._lock:
            if name not in self._tables:
                self._tables[name] = self._reflected(name)
            return self._tables[name]

    def _reflected(self, name: str) -> sa.Table:
        schema, _, bare = name.rpartition(".")
        with self.database.looking(f"looking at table {name}") as connection, warnings.catch_warnings():
            warnings.simplefilter("ignore", exc.SAWarning)  # for unknown types, which are not needed
            inspector = sa.inspect(connection)
            own = None if schema in ("", inspector.default_schema_name) else schema
            try:
                table = sa.Table(bare, sa.MetaData(), schema=own, autoload_with=connection, resolve_fks=False)
            except exc.NoSuchTableError:
                raise DatabaseRefused(f"there is no table {name} in {self.database.shown}: mend tables=") from None
            if not table.primary_key.columns:
                raise DatabaseRefused(f"{name} has no primary key, so its rows have no names: leave it out of tables=")
            return table

    def forget(self) -> None:
        """Inspect the tables again at their next use."""
        with self._lock:
            self._tables.clear()

    # ---- reading

    def view(self, connection: sa.Connection, table: str, key: Key) -> dict[str, Any] | None:
        """Return a row as a model sees it, or None."""
        found = self._look(connection, self._row(table, key))
        return None if found is None else found[0]

    def snapshot(self, connection: sa.Connection, table: str, key: Key, *, lock: bool = True) -> Exact | None:
        """Return a row in its exact form, or None: there is none."""
        self._write_alike(connection)
        found = self._look(connection, self._row(table, key), lock=lock)
        return None if found is None else found[1]

    def _look(self, connection: sa.Connection, row: _Row, *, lock: bool = False) -> tuple[dict[str, Any], Exact] | None:
        texts: list[Any] = []
        if row.dialect == "postgresql":
            texts = [sa.cast(c, sa.Text).label(f"settlemark_{n}") for n, c in enumerate(row.table.columns)]
        everything: sa.ColumnElement[Any] = sa.literal_column("*")
        query = sa.select(everything, *texts).select_from(row.table).where(row.where)
        answer = connection.execute(query.with_for_update() if lock else query)
        names = list(answer.keys())[: len(row.columns)]
        if names != row.columns or len(answer.keys()) != len(row.columns) + len(texts):
            self.forget()
            raise DatabaseRefused(
                f"the columns of {row.table.name} are not what they were when it was first looked at, and nothing was"
                " changed: call again"
            )
        line = answer.one_or_none()
        if line is None:
            return None
        found: list[Any] = list(line)
        raw = dict(zip(names, found, strict=False))
        for name, value in row.pk.items():
            if isinstance(value, str) and raw[name] != value:
                raise DatabaseRefused(f"there is no {row.named}: it is written {raw[name]!r}; write it so")
        cells = found[len(names) :] if texts else [exact(value) for value in found]
        return {name: as_json(value) for name, value in raw.items()}, dict(zip(names, cells, strict=True))

    @staticmethod
    def _write_alike(connection: sa.Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(*(sa.func.set_config(name, value, True) for name, value in _WRITING.items())))

    # ---- changing

    def apply(self, connection: sa.Connection, change: Change) -> Done:
        """Make a change, and return what it did.

        Raises:
            LookupError: there is no such row to change.
            ValueError: it cannot be done. Nothing was changed.
        """
        row = self._row(change.table, change.key)
        values = self._read(row, change)
        self._write_alike(connection)
        found = self._look(connection, row, lock=True)
        before = None if found is None else found[1]
        if change.verb == "insert" and before is not None:
            raise DatabaseRefused(f"there is a {row.named} already, and nothing was changed: update or upsert it")
        if change.verb in ("update", "delete") and before is None:
            raise LookupError(f"there is no {row.named}, and nothing was changed: look at what there is, or insert it")
        if change.verb == "delete":
            self._delete(connection, row)
        elif before is None:
            connection.execute(row.table.insert().values(self._bound(row, {**row.pk, **values})))
        elif values:
            self._check_links(connection, row, "onupdate", set(values))
            connection.execute(row.table.update().where(row.where).values(self._bound(row, values)))
        left = self._look(connection, row)
        if (left is None) != (change.verb == "delete"):
            raise DatabaseRefused(
                f"{change.verb} had no effect on {row.named}, and nothing was changed: see its triggers"
            )
        seen = left or found
        return Done(
            None if seen is None else seen[0], change.table, change.key, before, None if left is None else left[1]
        )

    def _read(self, row: _Row, change: Change) -> dict[str, Any]:
        given = change.values
        if unknown := [name for name in given if name not in row.columns]:
            named = " and no ".join(f"{name!r:.80}" for name in unknown)
            raise ValueError(f"{change.table} has no column {named}: there are {', '.join(row.columns)}")
        if change.verb == "update" and not given:
            raise ValueError(f"there is nothing to update of {row.named}: give at least one column in values")
        read = {name: python_value(row.table.c[name], value, row.dialect) for name, value in given.items()}
        for name, value in read.items():
            if row.table.c[name].computed is not None:
                raise ValueError(f"column {name} of {change.table} is computed by the database: leave it out")
            if name in row.pk and value != row.pk[name]:
                raise ValueError(
                    f"{name} names {row.named}, and {value!r} another: delete the one and insert the other"
                )
        if change.verb == "delete" and (
            always := [c.name for c in row.table.columns if c.identity and c.identity.always]
        ):
            raise ValueError(f"{change.table}.{always[0]} is always generated, so a deleted row could not be put back")
        return {name: value for name, value in read.items() if name not in row.pk}

    def _bound(self, row: _Row, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: parameter(row.table.c[name], value, row.dialect) for name, value in values.items()}

    def _delete(self, connection: sa.Connection, row: _Row) -> None:
        self._check_links(connection, row, "ondelete", None)
        connection.execute(row.table.delete().where(row.where))

    def _check_links(self, connection: sa.Connection, row: _Row, rule: str, changed: set[str] | None) -> None:
        """Check that no other row would change with this one, since no undo could restore it."""
        own = f"{row.table.schema}.{row.table.name}" if row.table.schema else row.table.name
        # SQLite ignores the case of names, and a foreign key may be spelled unlike its table.
        alike = str.lower if row.dialect == "sqlite" else str
        columns = {alike(column.name): column for column in row.table.columns}
        for link in self._known_links(connection):
            if alike(link.target) != alike(own) or link.rules.get(rule, "").upper() not in _SPREADS:
                continue
            if changed is not None and not set(map(alike, changed)).intersection(map(alike, link.targets)):
                continue
            other = link.table.alias()
            pairs = zip(link.columns, link.targets, strict=True)
            linked = sa.and_(*(other.c[mine] == columns[alike(its)] for mine, its in pairs), row.where)
            if connection.scalar(sa.select(sa.select(sa.true()).select_from(other.join(row.table, linked)).exists())):
                raise DatabaseRefused(
                    f"rows of {link.table.name} refer to {row.named} and would change with it"
                    f" ({link.rules[rule].upper()}), which no undo takes back: change those first; nothing was done"
                )

    def _known_links(self, connection: sa.Connection) -> list[_Link]:
        now = connection.exec_driver_sql(_CATALOG[connection.dialect.name]).one()
        then, links = self._links
        if now != then:
            links = _links(connection)
            self._links = (now, links)
        return links

    # ---- restoring

    def restore(self, connection: sa.Connection, done: Done) -> None:
        """Restore a row as it was before a change.

        Raises:
            RowChanged: it has changed since, or others refer to it by now: nothing was changed.
        """
        table, key = done.table or "", done.pk
        row, scope = self._row(table, key), self.scope(table, key)
        found = self.snapshot(connection, table, key)
        if found != done.after:
            what = "is gone" if found is None else "is there again" if done.after is None else "was changed by another"
            raise RowChanged(
                f"{row.named} {what} since, so it was not put back as it was: mend {scope} by hand",
                scope=scope,
                left=done.after,
                found=found,
            )
        before, after = done.before, done.after
        known = before or after or {}  # a column may have been added since
        kept = [c.name for c in row.table.columns if c.computed is None and c.name in known]
        try:
            if before is None and after is not None:
                self._delete(connection, row)
            elif before is not None and after is None:
                values = {name: bound(restored(before[name])) for name in kept}
                connection.execute(row.table.insert().values(values))
            elif before is not None and after is not None:
                values = {name: bound(restored(before[name])) for name in kept if before[name] != after[name]}
                if values:
                    self._check_links(connection, row, "onupdate", set(values))
                    connection.execute(row.table.update().where(row.where).values(values))
        except DatabaseRefused as error:
            raise RowChanged(f"{row.named} was not put back as it was: {error}", scope=scope) from error


def _links(connection: sa.Connection) -> list[_Link]:
    inspector = sa.inspect(connection)
    if connection.dialect.name == "sqlite":
        return [link for table in inspector.get_table_names() for link in _sqlite_links(connection, inspector, table)]
    links: list[_Link] = []
    default = inspector.default_schema_name
    for schema in inspector.get_schema_names():
        if schema == "information_schema":
            continue
        for (_, name), keys in inspector.get_multi_foreign_keys(schema=schema).items():
            for key in keys:
                columns = tuple(key["constrained_columns"])
                there = key["referred_schema"]
                target = key["referred_table"] if there in (None, default) else f"{there}.{key['referred_table']}"
                rules = {name: str(rule) for name, rule in key.get("options", {}).items() if isinstance(rule, str)}
                table = sa.table(name, *map(sa.column, columns), schema=schema)
                links.append(_Link(table, columns, target, tuple(key["referred_columns"]), rules))
    return links


def _sqlite_links(connection: sa.Connection, inspector: sa.Inspector, table: str) -> list[_Link]:
    # Not the inspector: it misses the rules of constraints that are not on lines of their own.
    quoted = connection.dialect.identifier_preparer.quote(table)
    found: dict[int, list[Any]] = {}
    for line in connection.exec_driver_sql(f"PRAGMA foreign_key_list({quoted})").mappings():
        found.setdefault(line["id"], []).append(line)
    links: list[_Link] = []
    for lines in found.values():
        first, *_ = lines  # each says the table and the rules of all
        target = str(first["table"])
        columns = tuple(str(line["from"]) for line in lines)
        targets = tuple(line["to"] for line in lines)
        if None in targets:
            targets = tuple(inspector.get_pk_constraint(target)["constrained_columns"])
        rules = {"ondelete": str(first["on_delete"]), "onupdate": str(first["on_update"])}
        links.append(_Link(sa.table(table, *map(sa.column, columns)), columns, target, targets, rules))
    return links


__all__ = ["Change", "Key", "RowChanged", "Rows", "Verb"]
