"""How the tools act: one database transaction under the call's key, with the act and its record."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, cast

import sqlalchemy as sa

from settlemark import Scope, current_call
from settlemark.hosting import HELD_CLASSES, declaration_of, escape, json_text
from settlemark_adapters._adapter import Adapter
from settlemark_adapters._database import Database
from settlemark_adapters._fence import Leased
from settlemark_adapters._keyed import check_new
from settlemark_adapters.sql import _effects
from settlemark_adapters.sql._effects import Claim, Done
from settlemark_adapters.sql._fences import pass_fences
from settlemark_adapters.sql._rows import Change, Key, Rows, Verb
from settlemark_adapters.sql._statements import Statement

Row = dict[str, Any]
VERBS: dict[str, Verb] = {
    "insert_row": "insert",
    "update_row": "update",
    "delete_row": "delete",
    "upsert_row": "upsert",
}

_DONE = {"done": True}


class Acting(Adapter):
    """The part of the adapter that acts, probes and undoes."""

    database: Database
    rows: Rows
    _statements: dict[str, Statement]
    _lease: Leased

    # ---- shared by all tools

    def probe_change(self) -> Any:
        """Return the result of the act under the call's key, or None; waits for a concurrent act under it."""
        wanted = Claim(self.key, "probe")
        with self._acting("probe", keep=False) as connection:
            found = _effects.claim(connection, wanted)
            if found is None or found.undone:
                return None
            return _DONE if found.done.result is None else found.done.result

    def undo_change(self) -> None:
        """Undo the act under the call's key, unless that is done."""
        key = self.key
        with self._acting("undo", keep=False) as connection:
            found = _effects.claim(connection, Claim(key, "undo"))
        if found is not None and found.done.table is not None:
            self.rows.know(found.done.table)
        with self._acting("undo") as connection:
            # An unknown key is claimed: an act that comes late finds that it must not happen any more.
            found = _effects.claim(connection, Claim(key, "undo"))
            if found is not None and not found.undone:
                if found.done.table is None:
                    statement = self._statement(found.tool)
                    pass_fences(connection, [statement.fill(found.done.before or {})], self._lease)
                    statement.take_back(connection, found.done)
                else:
                    pass_fences(connection, [self.rows.scope(found.done.table, found.done.pk)], self._lease)
                    self.rows.restore(connection, found.done)
            _effects.mark_undone(connection, key)

    def _statement(self, name: str) -> Statement:
        found = self._statements.get(name) if isinstance(cast("object", name), str) else None
        if found is None:
            listed = ", ".join(s.name for s in self._statements.values() if s.reads) or "none"
            raise ValueError(f"there is no statement {name!r:.80}: those that read are {listed}")
        return found

    # ---- acting

    @contextmanager
    def _acting(self, doing: str, *, keep: bool = True, waits: bool = True) -> Generator[sa.Connection, None, None]:
        self.database.prepare(_effects.metadata)
        with self.database.begin(doing, keep=keep, waits=waits) as connection:
            yield connection

    def _claim(self, tool: str, request: Mapping[str, Any]) -> Claim:
        call = current_call()
        step = "" if call is None else call.transaction
        return Claim(self.key, tool, step, json_text.encode_result(dict(request)))

    def _changed(self, tool: str, change: Change) -> Row:
        self.rows.check(change)
        request = {"table": change.table, "key": change.key, "values": dict(change.values)}
        scope = self.rows.scope(change.table, change.key)
        return cast("Row", self._acted(tool, request, lambda connection: self.rows.apply(connection, change), scope))

    def _acted(self, tool: str, request: Mapping[str, Any], act: Callable[[sa.Connection], Done], scope: str) -> Any:
        """Act once under the running call's key, and return the result, or the earlier one."""
        wanted = self._claim(tool, request)
        with self._acting(tool) as connection:
            found = _effects.claim(connection, wanted)
            if found is not None:
                _effects.check_same(found, wanted)
                return found.done.result
            pass_fences(connection, [scope], self._lease)
            done = act(connection)
            _effects.keep(connection, wanted.key, done)
            return done.result

    def _held(self, tool: str) -> bool:
        declaration = declaration_of(self.tool(tool))
        return declaration is not None and declaration.kind in HELD_CLASSES

    def _check_new(self, about: str) -> None:
        """Check that nothing is on record under the key of a call that is made for the first time.

        A probe would take that record for this call's.
        """
        if current_call() is None:
            return
        self.database.prepare(_effects.metadata)
        with self.database.looking("looking for the key") as connection:
            check_new(self.key, about, known=_effects.is_known(connection, self.key))

    def _check(self, tool: str, table: str, key: Key, values: Mapping[str, Any] | None) -> None:
        self._check_new(self.rows.scope(table, key))
        if values is None:
            return  # a user's own function: what it will write is unknown
        change = Change(VERBS[tool], table, key, values)
        self.rows.check(change)
        if self._held(tool):
            self._try(tool, lambda connection: self.rows.apply(connection, change))

    def _try(self, tool: str, act: Callable[[sa.Connection], Done]) -> None:
        """Do something and roll it back: a held call is refused now rather than at its release."""
        with self._overlaid(tool, f"row:/{escape(self.database.name)}", writes=True) as connection:
            act(connection)
            if self.database.dialect == "postgresql":
                connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")

    # ---- what is staged

    @contextmanager
    def _overlaid(self, doing: str, scope: str, *, writes: bool = False) -> Generator[sa.Connection, None, None]:
        """Yield a connection that sees what the running step has staged; all of it is rolled back at the end."""
        call = current_call()
        everything = f"row:/{escape(self.database.name)}"
        staged = [] if call is None else [(found.tool, found) for found in call.staged(everything)]
        if call is not None and not Scope.parse(everything).overlaps(Scope.parse(scope)):
            staged += [(found.tool, found) for found in call.staged(scope)]
        self._know(staged)
        with self.database.begin(doing, keep=False, reads=not (staged or writes)) as connection:
            for tool, given in staged:
                self._applied(connection, tool, given)
            yield connection

    def _know(self, staged: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        for tool, given in staged:
            if tool.removeprefix(self._prefix) in VERBS and given.get("table") in self.rows.names:
                self.rows.know(given["table"])

    def _applied(self, connection: sa.Connection, tool: str, given: Mapping[str, Any]) -> Done | None:
        """Apply a call of one of our own tools; the effect of other tools is unknown."""
        bare = tool.removeprefix(self._prefix)
        if not tool.startswith(self._prefix) or bare not in self._tools:
            return None
        if bare in self._statements:
            return self._statements[bare].apply(connection, given)
        return self.rows.apply(connection, Change(VERBS[bare], given["table"], given["key"], given.get("values", {})))

    def _only_look(self, connection: sa.Connection, *, end: bool = False) -> None:
        if self.database.dialect == "sqlite":
            connection.exec_driver_sql(f"PRAGMA query_only={'off' if end else 'on'}")
        elif not end:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")


__all__ = ["VERBS", "Acting", "Row"]
