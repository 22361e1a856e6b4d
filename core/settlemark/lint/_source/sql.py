"""A SQL statement's tables, whether it changes them, and which of its parameters say which rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from settlemark.lint._source.facts import Way
from settlemark.lint._source.values import Value

_STATEMENT = re.compile(
    r"^\s*(?P<verb>select|insert|update|delete|replace|merge|create|drop|alter|truncate|with)\b", re.IGNORECASE
)
_TABLE = re.compile(
    r'\b(?:from|into|update|join|table)\s+(?:if\s+(?:not\s+)?exists\s+)?["`\[]?([a-z_][\w.]*)', re.IGNORECASE
)
_PLACE = re.compile(r"\?|%s|\$\d+|%\((\w+)\)s|(?<!:):(\w+)|\{(\w*)\}")
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
_NO_TABLES = frozenset({"select", "set", "values", "only", "lateral"})


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed SQL statement.

    >>> found = Statement.read(Value(("UPDATE accounts SET amount = ? WHERE id = ?",)))
    >>> found.tables, found.way
    (('accounts',), 'write')
    """

    text: str
    tables: tuple[str, ...]
    way: Way

    @classmethod
    def read(cls, value: Value) -> Statement | None:
        """Parse a text as a statement; None if it is none."""
        text = value.text
        found = _STATEMENT.match(text)
        if found is None:
            return None
        verb = found["verb"].lower()
        if verb == "with":
            changed = re.search(r"\b(insert|update|delete)\b", text, re.IGNORECASE)
            verb = changed[1].lower() if changed else "select"
        tables = tuple(dict.fromkeys(t.lower() for t in _TABLE.findall(text) if t.lower() not in _NO_TABLES))
        way: Way = "read" if verb == "select" else "create" if verb in {"insert", "create"} else "write"
        return cls(text, tables, way)

    @property
    def shown(self) -> str:
        """The statement, shortened."""
        text = " ".join(self.text.split())
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 2]} …"

    def addressed(self, values: Sequence[Value], named: Mapping[str, Value]) -> tuple[str, ...]:
        """Return the tool's arguments that its WHERE compares with."""
        where = _WHERE.search(self.text)
        found: list[str] = []
        position = 0
        for place in _PLACE.finditer(self.text):
            name = place[1] or place[2]
            behind = where is not None and place.start() > where.end()
            if place[0].startswith("{"):
                found += [place[3]] if place[3] and (behind or where is None) else []
            elif name is not None:
                found += named[name].arguments if behind and name in named else []
            else:
                found += values[position].arguments if behind and position < len(values) else []
                position += 1
        return tuple(dict.fromkeys(found))


_SHOWN = 60

__all__ = ["Statement"]
