"""What the user writes in SQL: statements that become tools, and invariants that must hold."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from settlemark import DeclarationError, ScopeTemplate
from settlemark.hosting import EffectName
from settlemark_adapters.sql._effects import Done
from settlemark_adapters.sql._rows import RowChanged
from settlemark_adapters.sql._values import Raw, as_json, restored

Scalar = str | int | float | bool | None

_NAME = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_SHOWN = 3


@dataclass(frozen=True)
class Statement:
    """A statement of the user's own, with `:name` parameters, which are always bound and never written into it.

    Args:
        name: of its tool; a statement that reads is called by this name through the tool `query`.
        sql: one statement.
        scope: what it touches, a template over its parameters.
        kind: its effect class; when left out, `reversible` with `undo=` and else `irreversible`, held until its step
            settles. `read` for one that only looks.
        undo: the statement that takes it back, with parameters of the same names. It has to change as many rows as the
            statement did, else another program has changed them since, and it is rolled back: let it say in its WHERE
            how the statement left them.
        description: what it does, for a model.
        parameters: Python types by parameter; by default any text, number or truth value.

    Raises:
        DeclarationError: its parts contradict each other. ScopeError: its scope is malformed.

    >>> close = Statement("close_books", "UPDATE period SET closed = 1 WHERE id = :period", scope="period:/{period}")
    >>> close.effect, list(close.takes)
    ('irreversible', ['period'])
    """

    name: str
    sql: str
    scope: str
    kind: EffectName | None = None
    undo: str | None = None
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DeclarationError(f"{self.name!r} is no name of a tool: write letters, digits and _", tool=self.name)
        takes = self.takes
        for what, names in (
            ("undo=", () if self.undo is None else _parameters(self.undo)),
            ("scope=", ScopeTemplate.parse(self.scope).fields),
            ("parameters=", self.parameters),
        ):
            if unknown := [name for name in names if name not in takes]:
                raise DeclarationError(
                    f"{what} of {self.name} uses {unknown[0]!r}, which its statement does not take: it takes"
                    f" {', '.join(takes) or 'nothing'}",
                    tool=self.name,
                )
        if self.undo is not None and self.effect not in ("reversible", "idempotent"):
            raise DeclarationError(f"{self.name} is {self.effect}, which is never undone: drop undo=", tool=self.name)

    @property
    def effect(self) -> EffectName:
        """Its effect class."""
        return self.kind or ("irreversible" if self.undo is None else "reversible")

    @property
    def reads(self) -> bool:
        """Whether it only reads."""
        return self.kind == "read"

    @property
    def takes(self) -> dict[str, Any]:
        """Its parameters and their types, in the order of their names."""
        return {name: self.parameters.get(name, Scalar) for name in _parameters(self.sql)}

    def check(self, given: Mapping[str, Any]) -> None:
        """Check parameters.

        Raises:
            ValueError: they are invalid; the message says what to give.
        """
        takes = self.takes
        if set(given) != set(takes):
            raise ValueError(
                f"{self.name} takes {', '.join(takes) or 'no parameters'}, and not {', '.join(given) or 'none'}"
            )
        for name, value in given.items():
            wanted = takes[name]
            fits = value is None or isinstance(value, wanted if isinstance(wanted, type) else str | int | float)
            if not fits or (wanted is not bool and wanted is not Scalar and isinstance(value, bool)):
                called = wanted.__name__ if isinstance(wanted, type) else "a text, number or truth value"
                raise ValueError(f"{name} of {self.name} is {called}, and not {value!r:.80}")

    def fill(self, given: Mapping[str, Any]) -> str:
        """Return the scope it touches with these parameters."""
        return ScopeTemplate.parse(self.scope).fill(given).text

    def read(self, connection: sa.Connection, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows it finds, as a model sees them."""
        return _listed(run(connection, self.sql, given))

    def apply(self, connection: sa.Connection, given: Mapping[str, Any]) -> Done:
        """Run it, and return what it did."""
        answer = run(connection, self.sql, given)
        result: dict[str, Any] = {"rows": answer.rowcount}
        if answer.returns_rows:
            listed = _listed(answer)
            result = {"rows": len(listed), "returned": listed}
        return Done(result, before=dict(given))

    def take_back(self, connection: sa.Connection, done: Done) -> None:
        """Run its undo.

        Raises:
            RowChanged: that changes more or fewer rows than the statement did.
        """
        given = {name: (done.before or {}).get(name) for name in _parameters(self.undo or "")}
        changed = run(connection, self.undo or "", given).rowcount
        told: Any = done.result  # a user's own function may have answered with anything
        rows = told["rows"] if hasattr(told, "keys") and "rows" in told else None
        if isinstance(rows, int) and rows != changed:
            raise RowChanged(
                f"the undo of {self.name} would change {changed} rows, and {self.name} changed {rows}: another has"
                f" changed them since, so nothing was undone: mend {self.fill(done.before or {})} by hand",
                scope=self.fill(done.before or {}),
            )

    def function(self, act: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
        """Return a method with its parameters as arguments, which calls `act` with them."""
        takes = self.takes
        kinds = inspect.Parameter

        def acting(_self: Any, /, *args: Any, **kwargs: Any) -> Any:
            given = inspect.Signature(signature[1:]).bind(*args, **kwargs)
            return act(dict(given.arguments))

        signature = [kinds("self", kinds.POSITIONAL_ONLY)]
        signature += [kinds(name, kinds.POSITIONAL_OR_KEYWORD, annotation=hint) for name, hint in takes.items()]
        acting.__signature__ = inspect.Signature(signature, return_annotation=dict[str, Any])  # type: ignore[attr-defined]  # what inspect.signature looks for
        acting.__annotations__ = {**takes, "return": dict[str, Any]}
        acting.__name__ = acting.__qualname__ = self.name
        told = self.description or f"Run the declared statement {self.name}."
        listed = "".join(f"\n    {name}: a parameter of the statement." for name in takes)
        acting.__doc__ = told + (f"\n\nArgs:{listed}" if takes else "")
        return acting


@dataclass(frozen=True)
class Invariant:
    """What must hold when a step settles, its own rows included.

    Args:
        holds: a SELECT of whatever breaks it: no row, it holds. A parameter named as a column stands for the values
            that this column has, or had, in the rows the step has touched; it is asked once for each, and not for rows
            of others. Or a function of the connection: True or None, it holds; False, or a reason, it does not.
        table: look at touched rows of this table alone.

    >>> balanced = Invariant("SELECT entry FROM line WHERE entry = :entry HAVING SUM(debit) <> SUM(credit)")
    >>> balanced.bindings([("line", {"entry": 7, "debit": 5}), ("entry", {"id": 7})])
    [{'entry': 7}]
    """

    holds: str | Callable[[sa.Connection], object]
    table: str | None = None

    def bindings(self, touched: Iterable[tuple[str | None, Mapping[str, Any]]]) -> list[dict[str, Any]]:
        """Return the parameter sets to check, from the touched rows and their tables."""
        if callable(self.holds):
            return [{}]
        names = _parameters(self.holds)
        if not names:
            return [{}]
        found: list[dict[str, Any]] = []
        for table, row in touched:
            if self.table in (None, table) and all(name in row for name in names):
                bound = {name: restored(row[name]) for name in names}
                if bound not in found:
                    found.append(bound)
        return found

    def broken(self, connection: sa.Connection, touched: Iterable[tuple[str | None, Mapping[str, Any]]]) -> str | None:
        """Return why it does not hold, or None."""
        if callable(self.holds):
            said = self.holds(connection)
            return None if said is None or said is True else "" if said is False else str(said)
        for given in self.bindings(touched):
            if rows := _listed(run(connection, self.holds, given)):
                told = "; ".join(", ".join(f"{name} {value}" for name, value in row.items()) for row in rows[:_SHOWN])
                return told + ("; …" if len(rows) > _SHOWN else "")
        return None


def run(connection: sa.Connection, sql: str, given: Mapping[str, Any]) -> sa.CursorResult[Any]:
    """Run a statement with parameters that the driver gets unchanged."""
    # As text PostgreSQL would compare them with neither dates nor numbers.
    statement = sa.text(sql).bindparams(*(sa.bindparam(name, value, type_=Raw()) for name, value in given.items()))
    return connection.execute(statement, execution_options={"preserve_rowcount": True})


def _parameters(sql: str) -> list[str]:
    return list(sa.text(sql).compile().params)


def _listed(answer: sa.CursorResult[Any]) -> list[dict[str, Any]]:
    return [{name: as_json(value) for name, value in row.items()} for row in answer.mappings()]


__all__ = ["Invariant", "Scalar", "Statement", "run"]
