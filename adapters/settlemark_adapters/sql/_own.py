"""Users' own functions under the adapter's declarations: their changes on its connection are recorded."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, cast

import sqlalchemy as sa

from settlemark import EffectClass, UsageError
from settlemark.hosting import declaration_of
from settlemark_adapters._database import LOCK_SECONDS, DatabaseLocked
from settlemark_adapters.sql import _effects
from settlemark_adapters.sql._acting import Acting
from settlemark_adapters.sql._effects import Done
from settlemark_adapters.sql._fences import pass_fences
from settlemark_adapters.sql._rows import Key

P = ParamSpec("P")
R = TypeVar("R")

_PAUSE_SECONDS = 0.01


class _Inside:
    """The transaction that a user's own function acts in; the row is read at the first request."""

    def __init__(self, owner: Own, connection: sa.Connection, look: Callable[[], Any]) -> None:
        self.owner, self._connection, self._look = owner, connection, look
        self.asked = False
        self.before: Any = None

    def connection(self) -> sa.Connection:
        if not self.asked:
            self.before, self.asked = self._look(), True
        return self._connection


_inside: ContextVar[_Inside | None] = ContextVar("settlemark_sql_inside", default=None)


class _Part:
    """A user's own function's answer, or its recorded one."""

    def __init__(self, recorded: _effects.Recorded | None) -> None:
        self.recorded = recorded
        self.result: Any = None

    def answer(self, result: Any) -> Any:
        self.result = result
        return result


class Own(Acting):
    """The part of the adapter for users' own functions."""

    @property
    def connection(self) -> sa.Connection:
        """The connection of the running function, which was declared as one of the tools.

        Raises:
            UsageError: no such function is running here.
        """
        inside = _inside.get()
        if inside is None or inside.owner is not self:
            raise UsageError("there is no connection outside of a function declared with sql.declare(…): call its tool")
        return inside.connection()

    def declare(self, tool: str, function: Callable[P, R], /, **arguments: str) -> Callable[P, R]:
        """Return a user's own function under the declaration of one of the tools; see `Adapter.declare`.

        It makes its changes on `sql.connection`: so they have happened exactly when they are on record, and an undo
        restores the row. Where the adapter has one table, the function needs no argument for it.

        Raises:
            DeclarationError: there is no such tool, or the function lacks an argument that the declaration needs.
            UsageError: at its call, if it did not use `sql.connection`.
        """
        known = declaration_of(self.tool(tool))
        if known is None or known.kind is not EffectClass.READ:
            function = self._within_transaction(tool, function, arguments)
        return super().declare(tool, function, **arguments)

    def _within_transaction(self, tool: str, function: Callable[P, R], names: Mapping[str, str]) -> Callable[P, R]:
        signature = inspect.signature(function)

        def given(args: Any, kwargs: Any) -> dict[str, Any]:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            back = {other: own for own, other in names.items()}
            return {back.get(name, name): value for name, value in bound.arguments.items()}

        def acting(*args: Any, **kwargs: Any) -> Any:
            with self._as_declared(tool, given(args, kwargs), function.__name__) as part:
                return part.answer(function(*args, **kwargs)) if part.recorded is None else part.recorded.done.result

        async def acting_async(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack:
                part = await self._in_its_turn(stack, tool, given(args, kwargs), function.__name__)
                if part.recorded is not None:
                    return part.recorded.done.result
                return part.answer(await cast("Any", function)(*args, **kwargs))

        chosen = acting_async if inspect.iscoroutinefunction(function) else acting
        return cast("Callable[P, R]", functools.wraps(function)(chosen))

    async def _in_its_turn(self, stack: ExitStack, tool: str, given: Mapping[str, Any], name: str) -> _Part:
        """Enter a transaction when no other writes to the SQLite file, and let the event loop go on until then."""
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                return stack.enter_context(self._as_declared(tool, given, name, waits=False))
            except DatabaseLocked:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    @contextmanager
    def _as_declared(
        self, tool: str, given: Mapping[str, Any], name: str, *, waits: bool = True
    ) -> Generator[_Part, None, None]:
        """Record what a function does as a tool's act, in its own transaction."""
        table, key = given.get("table", ""), given.get("key")
        statement = self._statements.get(tool)
        if statement is None:
            self.rows.know(table)
            table = table or self.rows.names[0]
        wanted = self._claim(tool, given)
        with self._acting(name, waits=waits) as connection:

            def look() -> Any:
                return None if statement else self.rows.snapshot(connection, table, cast("Key", key))

            part = _Part(_effects.claim(connection, wanted))
            if part.recorded is not None:
                _effects.check_same(part.recorded, wanted)
                yield part
                return
            where = self.rows.scope(table, cast("Key", key)) if statement is None else statement.fill(dict(given))
            pass_fences(connection, [where], self._lease)
            inside = _Inside(self, connection, look)
            token = _inside.set(inside)
            try:
                yield part
            finally:
                _inside.reset(token)
            if not inside.asked:
                raise UsageError(
                    f"{name} is declared as {tool} and did nothing on sql.connection, so it could neither be undone"
                    " nor probed: make its changes there"
                )
            if statement is None:
                done = Done(part.result, table, key, inside.before, look())
            else:
                done = Done(part.result, before={n: given[n] for n in statement.takes if n in given})
            _effects.keep(connection, wanted.key, done)


__all__ = ["Own"]
