"""The statements of a SQL ledger, what each would be with one clause of it wrong, and a store to try them on."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect
from tests.rooms.doctor import doctor as _doctor
from tests.rooms.ledger import Page, Which
from tests.rooms.record import entries as _entries
from tests.rooms.record import pages as _pages
from tests.rooms.sql import Statement

from settlemark import State, ledger

_NAMED = DefaultDialect(paramstyle="named")
_TOKEN = re.compile(r"'(?:[^']|'')*'|:?[A-Za-z_][\w.]*|\{clock\}|<=|>=|<>|!=|\d+(?:\.\d+)?|\S")
_VERB = re.compile(r"(SELECT|INSERT|UPDATE|DELETE)\b.*\b(?:settlemark|pg_)", re.DOTALL)
_ENDS = {
    "WHERE": {"GROUP", "ORDER", "LIMIT", "RETURNING", "FOR", "ON", "UNION"},
    "ON": {"WHERE", "GROUP", "ORDER", "LIMIT", "LEFT", "JOIN", "UNION"},
    "WHEN": {"THEN"},
    "ORDER": {"LIMIT", "FOR"},
    "SET": {"WHERE", "RETURNING"},
    "(": {")"},
}
_ENOUGH = 500
_OTHER_SIDE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@cache
def named(statement: Statement) -> str:
    """Return the text of a statement, with its values named and `{clock}` for the store's clock."""
    clause = statement.clause
    text = clause if isinstance(clause, str) else str(clause.compile(dialect=_NAMED))
    return " ".join(_TOKEN.findall(text))


_ASKED = {"": Page(last=2), " of a run": Page(last=2, run="run"), " of a run since": Page(last=2, since=1.0, run="run")}
"""What is asked of pages: each part of it in one of them at least."""


_SOUGHT = {
    "any": Which("decision"),
    "newest": Which("decision", newest=2),
    "all": Which("decision", "run", "made", 2.0, "trip#1/0", "trip"),
}
"""What is asked of entries: each part of it in one of them at least."""


@cache
def all_statements() -> dict[str, str]:
    """Return every statement of the ledger and of the doctor, by its name, and the pages with all they may ask."""
    found: dict[str, str] = {}
    texts: dict[str, str] = {}
    for loaded in _modules():
        module = loaded.__name__.rpartition(".")[2]
        own = _assigned(loaded)
        for name, value in vars(loaded).items():
            if isinstance(value, Statement) and name in own and named(value) not in found.values():
                found[f"{module}.{name}"] = named(value)
        texts.update({text: f"{module}: {text[:60]}…{text[-20:]}" for text in _texts(loaded)})
    for which, page in _ASKED.items():
        for state in (State.COMMITTED, State.OPEN):
            found[f"pages.of_state({state}{which})"] = named(_pages.of_state(page, state)[0])
            found[f"pages.after({state}{which})"] = named(_pages.after(page, state))  # says nothing of since when
        for left, dealt in ((_pages.LEFT, ""), (_pages.DEALT, "dealt")):
            found[f"pages.left_of({f'{dealt}{which}'.strip()})"] = named(_pages.left_of(page, left)[0])
    for told, which in _SOUGHT.items():
        found[f"entries.finding({told})"] = named(_entries.finding(which)[0])
    found = {name: text for text, name in {text: name for name, text in found.items()}.items()}
    whole = "\n".join(found.values())
    return found | {name: text for text, name in texts.items() if text not in whole}


def _modules() -> Iterator[ModuleType]:
    for package in (ledger, _doctor):
        yield package
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations." not in module.name:  # each of these is run once, on a store of a known version
                yield importlib.import_module(module.name)


def _assigned(module: ModuleType) -> set[str]:
    """Return the names that a module gives: what it imports is another's."""
    tree = ast.parse(inspect.getsource(module))
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _texts(module: ModuleType) -> Iterator[str]:
    """Return what stands in a module as a text, and looks like a statement, or a part of one."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _VERB.match(node.value):
            yield " ".join(_TOKEN.findall(node.value))


class Change(NamedTuple):
    """A statement with one clause of it wrong: what that is, and the whole text."""

    what: str
    text: str


class _Words(list[str]):
    """A statement in its words, with how deep in parentheses or cases each of them is."""

    def __init__(self, text: str) -> None:
        super().__init__(_TOKEN.findall(text))
        self.depths: list[int] = []
        depth = 0
        for word in self:
            depth -= word in (")", "END")
            self.depths.append(depth)
            depth += word in ("(", "CASE")

    def end(self, start: int, ends: set[str]) -> int:
        """Return where a clause that begins there ends."""
        depth = self.depths[start]
        for here in range(start + 1, len(self)):
            if self.depths[here] < depth or (self.depths[here] == depth and self[here].upper() in ends):
                return here
        return len(self)

    def parts(self, start: int, end: int, between: str) -> list[tuple[int, int]]:
        """Return the parts of a range that are between such words."""
        depth = min(self.depths[start:end], default=0)
        cuts = [n for n in range(start, end) if self.depths[n] == depth and self[n].upper() == between]
        return list(zip([start, *(cut + 1 for cut in cuts)], [*cuts, end], strict=True))

    def said(self, start: int, end: int) -> str:
        return " ".join(self[start:end])

    def instead(self, start: int, end: int, *words: str) -> str:
        return " ".join([*self[:start], *words, *self[end:]])


def changes(text: str) -> list[Change]:
    """Return a statement as it would be with one clause of it wrong, in each way that one can be."""
    words = _Words(text)
    found = dict[str, str]()
    for change in (*_conditions(words), *_orders(words), *_others(words)):
        if change.text == " ".join(words) or change.text in found:
            continue
        same = sum(what.partition(" (again")[0] == change.what for what in found.values())
        found[change.text] = f"{change.what}{f' (again: {same + 1})' if same else ''}"
    return [Change(what, wrong) for wrong, what in found.items()]


def _regions(words: _Words) -> Iterator[tuple[int, int, bool]]:
    """Where a statement has conditions, and whether one that stands alone counts."""
    for here, word in enumerate(words):
        kind = word.upper()
        if kind in ("WHERE", "WHEN") or (kind == "ON" and words[here + 1] != "CONFLICT"):
            yield here + 1, words.end(here, _ENDS[kind]), True
        elif word == "(" and words[here + 1].upper() != "SELECT":
            yield here + 1, words.end(here, _ENDS["("]), False


def _conditions(words: _Words) -> Iterator[Change]:
    for start, end, alone in _regions(words):
        either = words.parts(start, end, "OR")
        for one in either if len(either) > 1 else ():
            yield Change(f"never {words.said(*one)}", words.instead(*one, "1", "=", "0"))
        for one in either:
            both = words.parts(*one, "AND")
            for part in both if len(both) > 1 or (alone and len(either) == 1) else ():
                yield Change(f"without {words.said(*part)}", words.instead(*part, "1", "=", "1"))
    for here, word in enumerate(words):
        if word in _OTHER_SIDE:
            other = _OTHER_SIDE[word]
            said = f"{words.said(max(here - 1, 0), here)} {other} {words[here + 1]}"
            yield Change(f"with {said}", words.instead(here, here + 1, other))


def _orders(words: _Words) -> Iterator[Change]:
    for here, word in enumerate(words):
        if word.upper() == "ORDER":
            for start, end in words.parts(here + 2, words.end(here, _ENDS["ORDER"]), ","):
                term = words[start:end]
                turned = term[:-1] if term[-1] == "DESC" else [*term, "DESC"]
                yield Change(f"in the order of {' '.join(turned)}", words.instead(start, end, *turned))


def _others(words: _Words) -> Iterator[Change]:
    for here, word in enumerate(words):
        kind = word.upper()
        if kind in ("LIMIT", "FOR"):
            yield Change(f"without {words.said(here, here + 2)}", words.instead(here, here + 2))
        elif kind == "DISTINCT":
            yield Change("without DISTINCT", words.instead(here, here + 1))
        elif kind in ("MIN", "MAX"):
            other = "max" if kind == "MIN" else "min"
            yield Change(f"{other} in place of {word}", words.instead(here, here + 1, other))
        elif kind == "ON" and words[here + 1] == "CONFLICT":
            yield Change("without ON CONFLICT", words.instead(here, len(words)))
        elif kind == "SET" and words[0].upper() in ("UPDATE", "INSERT"):
            terms = words.parts(here + 1, words.end(here, _ENDS["SET"]), ",")
            for number, (start, end) in enumerate(terms if len(terms) > 1 else ()):
                cut = (start, end + 1) if number == 0 else (start - 1, end)
                yield Change(f"without {words.said(start, end)}", words.instead(*cut))


@contextmanager
def heard() -> Generator[set[str]]:
    """Collect the text of each statement that is sent."""
    sent: set[str] = set()
    said = Statement.said

    def hear(statement: Statement, dialect: sa.Dialect) -> tuple[str, tuple[str, ...]]:
        sent.add(named(statement))
        return said(statement, dialect)

    with _as_said(hear):
        yield sent


@contextmanager
def said_wrongly(text: str, wrong: str) -> Generator[None]:
    """Have one statement be another."""
    said, other, left = Statement.said, Statement(wrong), iter(range(_ENOUGH))

    def say(statement: Statement, dialect: sa.Dialect) -> tuple[str, tuple[str, ...]]:
        if named(statement) != text:
            return said(statement, dialect)
        if next(left, None) is None:
            raise RecursionError("it is sent for ever")
        return said(other, dialect)

    with _as_said(say):
        yield


@contextmanager
def _as_said(say: Callable[[Statement, sa.Dialect], tuple[str, tuple[str, ...]]]) -> Generator[None]:
    said = Statement.said
    Statement.said = say  # type: ignore[method-assign]
    try:
        yield
    finally:
        Statement.said = said  # type: ignore[method-assign]


__all__ = ["Change", "all_statements", "changes", "heard", "named", "said_wrongly"]
