"""The adapter: tools for rows and declared statements, each acting and recorded in one database transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import sqlalchemy as sa

from settlemark import DeclarationError, EffectClass, Footprint, Settlement
from settlemark.hosting import EffectName
from settlemark_adapters._adapter import Operation, operation
from settlemark_adapters._database import Database
from settlemark_adapters._fence import Leased
from settlemark_adapters.sql import _effects
from settlemark_adapters.sql._acting import VERBS, Row
from settlemark_adapters.sql._own import Own
from settlemark_adapters.sql._rows import Change, Key, Rows
from settlemark_adapters.sql._statements import Invariant, Scalar, Statement

Values = dict[str, Any]


class Sql(Own):
    """The tools of one SQLite or PostgreSQL database.

    Args:
        url: of SQLAlchemy, or an engine.
        settlement: knows the tools' declarations.
        tables: the tables whose rows the tools may touch, by name; no others.
        statements: statements of your own: one that reads is called through `query`, each other is a tool.
        invariants: what must hold, by name: a SELECT of what breaks it, a function of the connection, or an
            `Invariant`. They are checked where `before_commit=[sql.invariants]` says so.
        staged: changes of rows wait for the commit, and only their own step sees them before; else they are made at
            once, and undone when the step fails.
        name: a prefix to the tools' names. effects: declares a tool otherwise; see `Adapter`.
        lease: a lease on rows, or a function that returns the one of the running work: rows on which one has acted are
            not changed under a lesser token, nor without one (`Fenced`). The tokens are in `settlemark_fences`.

    A row's scope is `row:/database/table/key`, where the database is called as it is or as its file, without `.db`. It
    gets two tables more, `settlemark_effects` and `settlemark_fences`.

    Not undone: what triggers write into other tables. A change that would spread to other rows (ON DELETE CASCADE) is
    refused. On PostgreSQL the tools for rows run with the time zone UTC.

    Raises:
        ValueError, DeclarationError: the arguments contradict each other.

    >>> import sqlite3, tempfile
    >>> file = f"{tempfile.mkdtemp()}/shop.db"
    >>> with sqlite3.connect(file) as shop:
    ...     _ = shop.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, stock INTEGER)")
    >>> shop.close()
    >>> settlement = Settlement("memory:")
    >>> sql = Sql(f"sqlite:///{file}", settlement, tables=["item"])
    >>> with settlement.transaction("monday") as tx:
    ...     tx.call(sql.insert, table="item", key=7, values={"stock": 3})
    {'id': 7, 'stock': 3}
    >>> try:
    ...     with settlement.transaction("tuesday") as tx:
    ...         tx.call(sql.update, table="item", key=7, values={"stock": 2})
    ...         raise RuntimeError("the step fails")
    ... except RuntimeError:
    ...     sql.read("item", 7)
    {'id': 7, 'stock': 2}
    {'id': 7, 'stock': 3}
    """

    def __init__(
        self,
        url: str | sa.URL | sa.Engine,
        settlement: Settlement | None = None,
        *,
        tables: Iterable[str] = (),
        statements: Iterable[Statement] = (),
        invariants: Mapping[str, str | Callable[[sa.Connection], object] | Invariant] | None = None,
        staged: bool = False,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
        lease: Leased = None,
    ) -> None:
        self._lease = lease
        self.database = Database(url)
        self.rows = Rows(self.database, [tables] if isinstance(tables, str) else tables)
        self._statements = {statement.name: statement for statement in statements}
        self._invariants = {
            name: given if isinstance(given, Invariant) else Invariant(given)
            for name, given in (invariants or {}).items()
        }
        taken = super().operations()
        if clash := [known for known in self._statements if known in taken]:
            raise DeclarationError(f"a statement is called {clash[0]}, as a tool for rows is: rename it", tool=clash[0])
        asked: dict[str, EffectName | Mapping[str, Any]] = dict.fromkeys(VERBS, "staged") if staged else {}
        super().__init__(settlement, name=name, effects={**asked, **(effects or {})})

    def operations(self) -> dict[str, Operation[Any, Any]]:
        """Return its operations, those of rows first, then those of its statements."""
        return super().operations() | {s.name: self._of(s) for s in self._statements.values() if not s.reads}

    # ---- shared by the tools

    def _row(self, key: Key, table: str = "") -> str:
        return self.rows.scope(table, key)

    def _query_scope(self, statement: str, parameters: dict[str, Scalar] | None = None) -> str:
        found = self._statement(statement)
        found.check(parameters or {})
        return found.fill(parameters or {})

    def _can_insert(self, key: Key, table: str = "", values: Values | None = None) -> None:
        self._check("insert_row", table, key, values)

    def _can_update(self, key: Key, table: str = "", values: Values | None = None) -> None:
        self._check("update_row", table, key, values)

    def _can_delete(self, key: Key, table: str = "") -> None:
        self._check("delete_row", table, key, {})

    def _can_upsert(self, key: Key, table: str = "", values: Values | None = None) -> None:
        self._check("upsert_row", table, key, values)

    # ---- rows

    def _digest(self, key: Key, table: str = "") -> Any:
        self.rows.know(table)
        with self.database.begin("read_row", keep=False, reads=True) as connection:
            return self.rows.snapshot(connection, table, key, lock=False)

    @operation("read_row", "read", scope=_row, live=_digest)
    def read(self, table: str, key: str | int | dict[str, Any]) -> Row | None:
        """Return a row of a table, or nothing if there is none.

        Args:
            table: the table's name.
            key: its primary key: the value, or an object with the columns of a key that has several.
        """
        self.rows.know(table)
        with self._overlaid("read_row", self.rows.scope(table, key)) as connection:
            return self.rows.view(connection, table, key)

    @operation(
        "insert_row",
        "reversible",
        scope=_row,
        check=_can_insert,
        undo=Own.undo_change,
        probe=Own.probe_change,
        keyed=True,
    )
    def insert(self, table: str, key: str | int | dict[str, Any], values: Values) -> Row:
        """Add a row to a table; refused if there is one with this key. Returns the row.

        Args:
            table: the table's name.
            key: its primary key: the value, or an object with the columns of a key that has several.
            values: the other columns' values by their names.
        """
        return self._changed("insert_row", Change("insert", table, key, values))

    @operation(
        "update_row",
        "reversible",
        scope=_row,
        check=_can_update,
        undo=Own.undo_change,
        probe=Own.probe_change,
        keyed=True,
    )
    def update(self, table: str, key: str | int | dict[str, Any], values: Values) -> Row:
        """Change columns of a row that is there. Returns the row as it is now.

        Args:
            table: the table's name.
            key: its primary key: the value, or an object with the columns of a key that has several.
            values: the new values by the columns' names; columns left out stay as they are.
        """
        return self._changed("update_row", Change("update", table, key, values))

    @operation(
        "delete_row",
        "reversible",
        scope=_row,
        check=_can_delete,
        undo=Own.undo_change,
        probe=Own.probe_change,
        keyed=True,
    )
    def delete(self, table: str, key: str | int | dict[str, Any]) -> Row:
        """Delete a row that is there. Returns the row as it was.

        Args:
            table: the table's name.
            key: its primary key: the value, or an object with the columns of a key that has several.
        """
        return self._changed("delete_row", Change("delete", table, key))

    @operation(
        "upsert_row",
        "reversible",
        scope=_row,
        check=_can_upsert,
        undo=Own.undo_change,
        probe=Own.probe_change,
        keyed=True,
    )
    def upsert(self, table: str, key: str | int | dict[str, Any], values: Values) -> Row:
        """Change columns of a row, or add it if there is none with this key. Returns the row as it is now.

        Args:
            table: the table's name.
            key: its primary key: the value, or an object with the columns of a key that has several.
            values: the values by the columns' names; of a row that is there, columns left out stay as they are.
        """
        return self._changed("upsert_row", Change("upsert", table, key, values))

    # ---- statements

    def _found(self, statement: str, parameters: dict[str, Scalar] | None = None) -> Any:
        found = self._statement(statement)
        with self.database.begin(statement, keep=False, reads=True) as connection:
            return found.read(connection, parameters or {})

    @operation("query", "read", scope=_query_scope, live=_found)
    def query(self, statement: str, parameters: dict[str, Scalar] | None = None) -> list[Row]:
        """Run one of the declared statements that read, and return the rows it finds.

        Args:
            statement: the statement's name.
            parameters: its parameters by name.
        """
        scope = self._query_scope(statement, parameters)
        with self._overlaid(statement, scope) as connection:
            self._only_look(connection)
            try:
                return self._statement(statement).read(connection, parameters or {})
            finally:
                self._only_look(connection, end=True)

    def _of(self, statement: Statement) -> Operation[Any, Any]:
        """Return the operation of a statement that changes something."""

        def act(given: dict[str, Any]) -> Any:
            given = {**dict.fromkeys(statement.takes), **given}
            statement.check(given)
            scope = statement.fill(given)
            return self._acted(statement.name, given, lambda connection: statement.apply(connection, given), scope)

        def touches(**given: Any) -> str:
            return statement.fill(given)

        def fits(**given: Any) -> None:
            given = {name: given.get(name) for name in statement.takes}  # a user's own function may take more
            statement.check(given)
            self._check_new(statement.fill(given))
            if self._held(statement.name):
                self._try(statement.name, lambda connection: statement.apply(connection, given))

        parts: dict[str, Any] = {"scope": touches, "check": fits, "probe": self.probe_change, "keyed": True}
        if statement.undo is not None:
            parts["undo"] = self.undo_change
        return Operation(statement.name, statement.effect, cast("Any", parts), statement.function(act))

    # ---- what is kept

    def prune(self, days: float) -> int:
        """Remove records older than so many days, and return how many calls they belonged to.

        These calls can neither be undone nor probed from then on: keep longer than any step takes to settle.
        """
        with self._acting("prune") as connection:
            return _effects.prune(connection, days)

    # ---- invariants

    def invariants(self, footprint: Footprint) -> str | None:
        """A pre-commit hook: return why the invariants do not hold with a step's changes, or None.

        >>> def book(settlement, sql): return settlement.transaction("entry-7", before_commit=[sql.invariants])
        """
        effects: list[dict[str, Any]] = footprint.effects
        staged = [
            (str(effect["tool"]), effect["arguments"])
            for effect in effects
            if effect["held"] and effect["class"] == EffectClass.STAGED
        ]
        self._know(staged)
        with self._acting("checking invariants", keep=False) as connection:
            done = _effects.of_step(connection, footprint.transaction)
            done += [found for tool, given in staged if (found := self._applied(connection, tool, given)) is not None]
            touched = [(d.table, row) for d in done for row in (d.before, d.after) if row is not None]
            for name, invariant in self._invariants.items():
                if (why := invariant.broken(connection, touched)) is not None:
                    return f"{name} does not hold{why and ': '}{why}"
        return None


__all__ = ["Sql"]
