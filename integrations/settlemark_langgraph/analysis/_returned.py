"""What a node may write, read from the source of its function: the keys of what it returns.

Literals, names that are given literals, `Command(update=…)`, the state handed on, and functions that
return such. Anything else is unknown, and unknown counts as every channel.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from langgraph.types import Command

from settlemark_langgraph.analysis._function_source import FunctionSource, source_of

Keys = frozenset[str] | None
"""The keys of an update; None when nobody can tell."""

NOTHING: frozenset[str] = frozenset()
_DEEP = 4


@dataclass(frozen=True)
class Written:
    """What a function may write: into its own graph, and into the graph around it (`Command.PARENT`)."""

    own: Keys = NOTHING
    parent: Keys = NOTHING

    def __or__(self, other: Written) -> Written:
        return Written(either(self.own, other.own), either(self.parent, other.parent))


UNKNOWN = Written(None, NOTHING)


@dataclass(frozen=True)
class Going:
    """A `goto=` in a function's source, and whether it leads through the graph around it."""

    source: FunctionSource
    goto: ast.expr
    parent: bool


def either(*keys: Keys) -> Keys:
    """Return all keys, or None when some are not known."""
    known = [some for some in keys if some is not None]
    return None if len(known) < len(keys) else NOTHING.union(*known)


def written(source: FunctionSource | None, reads: frozenset[str], *, deep: int = _DEEP) -> Written:
    """Return what a function may write; `reads` are the keys of the state it is given.

    >>> written(None, frozenset()).own is None
    True
    """
    if source is None or source.generates:
        return UNKNOWN
    reader = _Writes(source, reads, deep)
    found = Written()
    for value in source.returns:
        found |= Written() if value is None else reader.read(value)
    return found


def commanded(source: FunctionSource) -> Written:
    """Return what the commands that a function makes write, whatever else it returns."""
    reader = _Writes(source, NOTHING, _DEEP)
    found = Written()
    for node in source.nodes:
        if isinstance(node, ast.Call) and source.called(node) is Command:
            found |= reader.read(node)
    return found


def goings(source: FunctionSource | None, *, deep: int = _DEEP) -> Iterator[Going]:
    """Yield every `Command(goto=…)` of a function and of the functions whose value it returns."""
    if source is None:
        return
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        called = source.called(node)
        if called is Command:
            goto = _keyword(node, "goto")
            if goto is not None:
                yield Going(source, goto, _keyword(node, "graph") is not None)
        elif isinstance(called, types.FunctionType) and deep and any(node is value for value in source.returns):
            yield from goings(source_of(called), deep=deep - 1)


class _Writes:
    """Reads the values one function returns."""

    def __init__(self, source: FunctionSource, reads: frozenset[str], deep: int) -> None:
        self._source = source
        self._reads = reads
        self._deep = deep
        self._following: set[str] = set()

    def read(self, node: ast.expr) -> Written:  # noqa: PLR0911 - a table
        """Return what a returned value writes."""
        match node:
            case ast.IfExp(body=body, orelse=other):
                return self.read(body) | self.read(other)
            case ast.BoolOp(values=values):
                return self._all(values)
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self.read(value)
            case ast.List(elts=values) | ast.Tuple(elts=values):
                return self._all(values)
            case ast.Call() if (made := self._made(node)) is not None:
                return made
            case ast.Name(id=name) if self._commands(name):
                return self._all(self._commands(name))
            case _:
                return Written(self.keys(node))

    def _commands(self, name: str) -> list[ast.expr]:
        """Return what a local name is given when that is always a command, else nothing."""
        values = [given.value for given in self._source.assigned.get(name, [])]
        found = [v for v in values if isinstance(v, ast.Call) and self._source.called(v) is Command]
        return list[ast.expr](found) if len(found) == len(values) else []

    def _all(self, values: Iterable[ast.expr]) -> Written:
        found = Written()
        for value in values:
            found |= self.read(value)
        return found

    def _made(self, node: ast.Call) -> Written | None:
        """Return what a command, or the value of a function that can be read, writes."""
        called = self._source.called(node)
        if called is Command:
            if node.args or any(k.arg is None for k in node.keywords):
                return Written(None, None)
            update = _keyword(node, "update")
            keys = NOTHING if update is None else self.keys(update)
            graph = _keyword(node, "graph")
            return Written(keys) if graph is None else Written(NOTHING, keys)
        if isinstance(called, types.FunctionType):
            given = node.args[0] if node.args else None
            reads = self._reads if isinstance(given, ast.Name) and given.id == self._source.state else None
            helper = source_of(called) if self._deep else None
            if helper is None:
                return UNKNOWN
            return written(_Stateless.of(helper) if reads is None else helper, reads or NOTHING, deep=self._deep - 1)
        return None

    def keys(self, node: ast.expr) -> Keys:  # noqa: PLR0911 - a table
        """Return the keys of an update."""
        match node:
            case ast.Constant(value=None):
                return NOTHING
            case ast.Dict(keys=keys, values=values):
                return either(
                    *(
                        self.keys(value) if key is None else self._key(key)
                        for key, value in zip(keys, values, strict=True)
                    )
                )
            case ast.IfExp(body=body, orelse=other):
                return either(self.keys(body), self.keys(other))
            case ast.BoolOp(values=parts):
                return either(*(self.keys(part) for part in parts))
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return either(self.keys(left), self.keys(right))
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.keys(value)
            case ast.Call():
                return self._called(node)
            case ast.Name(id=name) if name == self._source.state and name not in self._source.assigned:
                return either(self._reads, self._grown(name))
            case ast.Name(id=name) if name in self._source.assigned and name not in self._source.parameters:
                return self._local(name)
            case _:
                return None

    def _key(self, node: ast.expr) -> Keys:
        if isinstance(node, ast.Constant):
            return frozenset({node.value}) if isinstance(node.value, str) else None
        try:
            value = self._source.stands_for(node)
        except LookupError:
            return None
        return frozenset({value}) if isinstance(value, str) else None

    def _called(self, node: ast.Call) -> Keys:
        called = self._source.called(node)
        named = [(k.arg, k.value) for k in node.keywords]
        if called is dict:
            spread = either(*(self.keys(value) for name, value in named if name is None))
            return either(*(self.keys(value) for value in node.args), spread, frozenset(n for n, _ in named if n))
        if isinstance(called, type) and called is not Command and (fields := _fields(called)):
            # A model or dataclass writes its defaults too.
            return fields
        if isinstance(called, types.FunctionType):
            made = self._made(node)
            return None if made is None else made.own
        match node.func:
            case ast.Attribute(value=owner, attr="copy") if not node.args:
                return self.keys(owner)
            case _:
                return None

    def _local(self, name: str) -> Keys:
        if name in self._following:
            return NOTHING
        self._following.add(name)
        values = [given.value for given in self._source.assigned[name]]
        found = either(*(None if value is None else self.keys(value) for value in values))
        grown = either(found, self._grown(name))
        self._following.discard(name)
        return grown

    def _grown(self, name: str) -> Keys:
        """Return the keys that are put into a local dict, None when it is handed to what may put in others."""
        found: list[Keys] = []
        understood = {id(value) for value in self._source.returns}
        for node in self._source.nodes:
            match node:
                case ast.Subscript(value=ast.Name(id=owner) as used, slice=key) if owner == name:
                    understood.add(id(used))
                    if isinstance(node.ctx, ast.Store):
                        found.append(self._key(key))
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner) as used, attr=how)) if owner == name:
                    understood.add(id(used))
                    found.append(self._method(how, node))
                case ast.Attribute(value=ast.Name(id=owner) as used, ctx=ctx, attr=attr) if owner == name:
                    understood.add(id(used))
                    if isinstance(ctx, ast.Store):
                        found.append(frozenset({attr}))
                case ast.Dict(keys=keys, values=values):
                    understood |= {id(value) for key, value in zip(keys, values, strict=True) if key is None}
                case ast.keyword(arg="update", value=value):
                    understood.add(id(value))
                case ast.BinOp(left=left, right=right):
                    understood |= {id(left), id(right)}
                case ast.IfExp(test=test, body=body, orelse=other):
                    understood |= {id(test), id(body), id(other)}
                case _:
                    pass
        if name != self._source.state:
            handed = [
                n for n in self._source.nodes if isinstance(n, ast.Name) and n.id == name and id(n) not in understood
            ]
            if any(isinstance(node.ctx, ast.Load) for node in handed):
                return None
        return either(*found)

    def _method(self, how: str, call: ast.Call) -> Keys:
        if how == "update":
            return either(
                *(self.keys(value) for value in call.args),
                *(self.keys(k.value) if k.arg is None else frozenset({k.arg}) for k in call.keywords),
            )
        if how == "setdefault" and call.args:
            return self._key(call.args[0])
        return NOTHING


class _Stateless(FunctionSource):
    """A function that is not given the state."""

    @classmethod
    def of(cls, source: FunctionSource) -> _Stateless:
        """Return the same function, without a state."""
        return cls(source.function, source.tree, 1 << 10)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    found = next((k.value for k in call.keywords if k.arg == name), None)
    return None if isinstance(found, ast.Constant) and found.value is None else found


def _fields(kind: type) -> frozenset[str]:
    hints = [cast("dict[str, object]", getattr(base, "__annotations__", {})) for base in kind.__mro__]
    return frozenset(name for names in hints for name in names)


__all__ = ["NOTHING", "UNKNOWN", "Going", "Keys", "Written", "commanded", "either", "goings", "written"]
