"""Where a graph can go from a node: what its router or its `Command(goto=…)` may name, read from the source.

What cannot be read counts as every end there is: alone where an annotation or the expression says that
it is one, else all together, and several times each, as a list of `Send` would have it.
"""

from __future__ import annotations

import ast
import contextlib
import types
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union, cast, get_args, get_origin

from langgraph.types import Send

from settlemark_langgraph.analysis._function_source import FunctionSource, source_of
from settlemark_langgraph.analysis._routes import NOWHERE, Ends, Route, Routes, fanned, product

_PART = str | Send
_DEEP = 4
_TEXT_METHODS = frozenset({"lower", "upper", "strip", "casefold", "replace", "format", "removeprefix", "removesuffix"})


def destinations(router: object, ends: Ends) -> Routes:
    """Return the ways a router may send a graph.

    Raises:
        TooManyRoutes: there are more than can be told one by one.
    """
    source = source_of(router)
    if source is None or source.generates:
        return _annotated(_hint(router), ends, source)
    return _returned(source, ends, _DEEP)


def goes_to(source: FunctionSource, expression: ast.expr, ends: Ends) -> Routes:
    """Return where a `goto=` may lead.

    Raises:
        TooManyRoutes: there are more than can be told one by one.
    """
    return _Reader(source, ends, _DEEP).read(expression)


def _returned(source: FunctionSource, ends: Ends, deep: int) -> Routes:
    reader = _Reader(source, ends, deep, hint=source.hints.get("return", Any))
    found = [reader.read(value) for value in source.returns if value is not None]
    return frozenset[Route]().union(*found)


def _hint(router: object) -> Any:
    return getattr(router, "__annotations__", {}).get("return", Any)


def _annotated(hint: Any, ends: Ends, source: FunctionSource | None) -> Routes:  # noqa: PLR0911 - a table
    """Return what an annotation leaves open."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return frozenset[Route]().union(*(_annotated(part, ends, source) for part in get_args(hint)))
    if hint is type(None):
        return frozenset()
    if origin is Literal:
        return frozenset[Route]().union(*(ends.at(value) for value in get_args(hint)))
    if hint in (str, bool, int):
        return ends.one()
    if hint is Send:
        return frozenset(Route(sent=route.to) for route in ends.one())
    if isinstance(origin, type) and issubclass(origin, Sequence):
        parts = set(get_args(hint)) - {...}
        if parts == {Send}:
            return fanned(_sent_to(source, ends)) if source is not None else ends.any(edges=False)
        if parts == {str} or all(get_origin(part) is Literal for part in parts):
            return ends.any(sends=False)
    return ends.any()


def _sent_to(source: FunctionSource, ends: Ends) -> Routes:
    """Return the nodes that the `Send`s in a function's source name."""
    reader = _Reader(source, ends, _DEEP)
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and source.called(node) is Send]
    found = [reader.read(call) for call in calls]
    return frozenset[Route]().union(*found) if found else frozenset(Route(sent=end.to) for end in ends.one())


class _Reader:
    """Reads expressions of one function; `hint` is the type of the one being read, where it is known."""

    def __init__(self, source: FunctionSource, ends: Ends, deep: int, hint: Any = Any) -> None:
        self._source = source
        self._ends = ends
        self._deep = deep
        self._hint = hint
        self._following: set[str] = set()

    def read(self, node: ast.expr) -> Routes:  # noqa: PLR0911 - a table
        """Return where an expression may lead."""
        match node:
            case ast.Constant(value=value):
                return frozenset() if value is None else self._ends.at(cast("Hashable", value))
            case ast.IfExp(body=body, orelse=other):
                return self.read(body) | self.read(other)
            case ast.BoolOp(values=values):
                return frozenset[Route]().union(*(self.read(value) for value in values))
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self.read(value)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return product(self._part(part) for part in parts)
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.SetComp(elt=part):
                return fanned(self._part(part))
            case ast.BinOp(left=left, op=ast.Add(), right=right) if not self._is_one(node):
                return product((self.read(left), self.read(right)))
            case ast.Call():
                return self._call(node)
            case ast.Name(id=name) if name in self._source.assigned and name not in self._source.parameters:
                return self._local(name)
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._known(node)
            case _:
                return self._unknown(node)

    def _as(self, hint: Any, node: ast.expr) -> Routes:
        before, self._hint = self._hint, hint
        try:
            return self.read(node)
        finally:
            self._hint = before

    def _part(self, node: ast.expr) -> Routes:
        """Return where one part of a list leads, which is no list."""
        if isinstance(node, ast.Starred):
            return fanned(self._parts_of(node.value))
        return self._as(_PART, node)

    def _parts_of(self, node: ast.expr) -> Routes:
        match node:
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part):
                return self._part(part)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return frozenset[Route]().union(*(self._part(part) for part in parts))
            case _:
                return self._as(_PART, node)

    def _call(self, node: ast.Call) -> Routes:
        called = self._source.called(node)
        if called is Send:
            target = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "node"), None)
            nodes = _Reader(self._source, self._ends.as_nodes(), self._deep, str)
            found = self._ends.one() if target is None else nodes.read(target)
            return frozenset(Route(sent=route.to) for route in found)
        if called in (list, tuple, sorted) and node.args:
            return self.read(node.args[0])
        if isinstance(called, types.FunctionType) and self._deep:
            helper = source_of(called)
            if helper is not None and not helper.generates:
                return _returned(helper, self._ends, self._deep - 1)
        return self._unknown(node)

    def _local(self, name: str) -> Routes:
        if name in self._following:
            return frozenset()
        hint = str if any(_compares(part, name) for part in self._source.nodes) else self._hint
        self._following.add(name)
        found: Routes = frozenset()
        for given in self._source.assigned[name]:
            narrow = hint if given.annotation is None else self._resolved(given.annotation)
            # Of a loop's target and the like nothing can be read.
            found |= self._guess(narrow) if given.value is None else self._as(narrow, given.value)
        grown = self._grown(name)
        self._following.discard(name)
        return found if grown is None else product((found | NOWHERE, fanned(grown)))

    def _grown(self, name: str) -> Routes | None:
        """Return what is appended to a local list, None when nothing is."""
        parts: list[Routes] = []
        for node in self._source.nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=how), args=[part]) if owner == name:
                    if how in ("append", "extend"):
                        parts.append(self._part(part) if how == "append" else self._parts_of(part))
                case _:
                    pass
        return frozenset[Route]().union(*parts) if parts else None

    def _known(self, node: ast.expr) -> Routes:
        """Return where a name from outside leads, or an entry of a table."""
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            return frozenset[Route]().union(*(self.read(value) for value in node.value.values))
        try:
            value = self._source.stands_for(node.value if isinstance(node, ast.Subscript) else node)
        except LookupError:
            return self._unknown(node)
        if isinstance(value, str | int):
            return self._ends.at(value)
        entries: Iterable[object] = ()
        if isinstance(node, ast.Subscript) and isinstance(value, Mapping):
            entries = cast("Mapping[object, object]", value).values()
        elif isinstance(value, list | tuple):
            entries = cast("Sequence[object]", value)
        ends = [entry for entry in entries if isinstance(entry, str)]
        if not ends or len(ends) < len(list(entries)):
            return self._unknown(node)
        if isinstance(node, ast.Subscript):
            return frozenset[Route]().union(*(self._ends.at(end) for end in ends))
        return product(self._ends.at(end) for end in ends)

    # ---- what cannot be read

    def _unknown(self, node: ast.expr) -> Routes:
        key = _field_of_state(node, self._source.state)
        typed = self._ends.types.get(key) if key is not None else None
        if typed in (str, bool, int) or get_origin(typed) is Literal:
            return self._guess(typed)
        return self._guess(str if self._is_one(node) else self._hint)

    def _guess(self, hint: Any) -> Routes:
        return _annotated(hint, self._ends, self._source)

    def _resolved(self, annotation: ast.expr) -> Any:
        if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name | ast.Attribute):
            with contextlib.suppress(LookupError):
                if self._source.stands_for(annotation.value) is Literal:
                    return str
        try:
            return self._source.stands_for(annotation)
        except LookupError:
            return self._hint

    def _is_one(self, node: ast.expr) -> bool:
        """Say whether an expression is a single text, number or truth value, whichever."""
        match node:
            case ast.JoinedStr() | ast.Compare() | ast.UnaryOp():
                return True
            case ast.BinOp(left=left, right=right):
                return any(isinstance(side, ast.Constant | ast.JoinedStr) for side in (left, right))
            case ast.Call(func=ast.Attribute(attr=method)) if method in _TEXT_METHODS:
                return True
            case ast.Call():
                return self._source.called(node) in (str, bool, int, len, isinstance, any, all)
            case _:
                return False


def _field_of_state(node: ast.expr, state: str | None) -> str | None:
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name == state:
            return key
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=str(key)), *_]
        ) if name == state:
            return key
        case ast.Attribute(value=ast.Name(id=name), attr=key) if name == state:
            return key
        case _:
            return None


def _compares(node: ast.AST, name: str) -> bool:
    """Say whether a name is compared with a text: then it is a text."""
    match node:
        case ast.Compare(left=ast.Name(id=left), ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=str())]):
            return left == name
        case _:
            return False


__all__ = ["destinations", "goes_to"]
