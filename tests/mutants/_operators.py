"""Which mutants are made: one of each kind that cosmic-ray makes of a place, and those that it does not make.

It replaces an operator by every other one, so that arithmetic would be most of a score; and it drops no statement, no
argument and no condition, which is what a hand that slips leaves out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cosmic_ray import plugins
from cosmic_ray.operators.operator import Example, Operator
from parso.python.tree import Keyword

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAIRS = {
    "Comparison": (
        "Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Is_IsNot", "IsNot_Is", "Lt_GtE", "GtE_Lt",
    ),
    "Binary": ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "BitOr_BitAnd", "BitAnd_BitOr", "Mod_Mul", "FloorDiv_Mul"),
    "Unary": ("Delete_Not", "Delete_USub"),
}  # fmt: skip # a table
_WHOLE = (
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak",
    "ExceptionReplacer", "NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop",
)  # fmt: skip # a table of values
_CONDITIONS = frozenset({"where", "and_", "or_", "order_by", "filter", "filter_by"})
_SQL = re.compile(r"\b(?:SELECT|UPDATE|DELETE|INSERT|WHERE|AND|EXISTS)\b")
_CONJUNCT = re.compile(
    r" (?:AND|OR) (?:[^()'\"]|\([^()]*\))*?(?= (?:AND|OR|ORDER|LIMIT|GROUP|FOR|RETURNING) |[)'\"]|$)"
)
_ORDER = re.compile(r" ORDER BY [^()'\"]*?(?= LIMIT |[)'\"]|$)")


def _span(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return node.start_pos, node.end_pos


def _without(node: Any, index: int) -> Any:
    """Take a child away, with the comma or the word that joins it to the others."""
    gone = {index, index - 1} if index else {0, 1}
    prefix = node.children[0].get_first_leaf().prefix
    node.children = [child for place, child in enumerate(node.children) if place not in gone]
    if node.children:
        node.children[0].get_first_leaf().prefix = prefix
    return node


class DropStatement(Operator):
    """Leave a statement out: a call, a `raise`, a `return`, a change of an attribute or an item."""

    def mutation_positions(self, node: Any) -> list[Any]:
        statement = node.type == "simple_stmt" and _does_something(node.children[0])
        return [_span(node.children[0])] if statement else []

    def mutate(self, node: Any, _index: int) -> Any:
        first = node.children[0].get_first_leaf()
        node.children[0] = Keyword("pass", first.start_pos, first.prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("lock.release()\n", "pass\n"),)


def _does_something(statement: Any) -> bool:
    if statement.type in ("return_stmt", "raise_stmt", "del_stmt", "atom_expr", "power", "yield_expr", "await"):
        return True
    if statement.type != "expr_stmt" or statement.children[1].type == "annassign":
        return False
    # Without a plain name nothing runs any more: that shows nothing.
    plain = statement.children[0].type in ("name", "testlist_star_expr")
    return not plain or str(statement.children[1].get_code()).strip() != "="


class DropArgument(Operator):
    """Leave out an argument that is given by name, or one condition of a query."""

    def mutation_positions(self, node: Any) -> list[Any]:
        return [_span(node.children[index]) for index in self._droppable(node)]

    def mutate(self, node: Any, index: int) -> Any:
        place = self._droppable(node)[index]
        if node.type == "arglist":
            return _without(node, place)
        del node.children[place]
        return node

    @staticmethod
    def _droppable(node: Any) -> list[int]:
        if node.type == "arglist":
            before = node.parent.get_previous_sibling() if node.parent is not None else None
            name = before.get_last_leaf().value if before is not None else ""
            return [
                index
                for index, child in enumerate(node.children)
                if _is_named(child) or (name in _CONDITIONS and child.type not in ("operator", "argument"))
            ]
        return [1] if node.type == "trailer" and len(node.children) > 1 and _is_named(node.children[1]) else []

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("look(row, lock=True)", "look(row)"), Example("q.where(a, b)", "q.where(b)"))


def _is_named(node: Any) -> bool:
    return bool(node.type == "argument" and node.children[1].type == "operator" and node.children[1].value == "=")


class DropCondition(Operator):
    """Leave out one of several conditions that are joined by `and` or `or`."""

    def mutation_positions(self, node: Any) -> list[Any]:
        return [_span(child) for child in node.children[::2]] if node.type in ("and_test", "or_test") else []

    def mutate(self, node: Any, index: int) -> Any:
        return _without(node, 2 * index)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x = a and b and c", "x = b and c"), Example("x = a or b", "x = a", occurrence=1))


class DropSql(Operator):
    """Leave out one condition, or the order, of a query that is written as text."""

    def mutation_positions(self, node: Any) -> list[Any]:
        return [_span(node) for _ in self._found(node)]

    def mutate(self, node: Any, index: int) -> Any:
        found = self._found(node)[index]
        node.value = node.value[: found.start()] + node.value[found.end() :]
        return node

    @staticmethod
    def _found(node: Any) -> list[re.Match[str]]:
        told = node.type in ("string", "fstring_string") and node.parent.type != "simple_stmt"  # and no docstring
        if not told or not _SQL.search(node.value):
            return []
        return [*_CONJUNCT.finditer(node.value), *_ORDER.finditer(node.value)]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example('q = "UPDATE t SET x = 1 WHERE a = 1 AND b = 2"', 'q = "UPDATE t SET x = 1 WHERE a = 1"'),)


OWN = {each.__name__: each for each in (DropStatement, DropArgument, DropCondition, DropSql)}


class _Provider:
    def __iter__(self) -> Iterator[str]:
        return iter(OWN)

    def __getitem__(self, name: str) -> type[Operator]:
        return OWN[name]


plugins.OPERATOR_PROVIDERS["own"] = _Provider()
OPERATORS = tuple(
    [f"core/Replace{kind}Operator_{pair}" for kind in ("Comparison", "Binary") for pair in _PAIRS[kind]]
    + [f"core/ReplaceUnaryOperator_{pair}" for pair in _PAIRS["Unary"]]
    + [f"core/{name}" for name in _WHOLE]
    + [f"own/{name}" for name in OWN]
)
"""The names of all operators that make a mutant."""

__all__ = ["OPERATORS", "OWN"]
