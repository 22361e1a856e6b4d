"""The source of a function as a tree, with what its names stand for: all that is asked of it without running it."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast, get_type_hints

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_MISSING = object()
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True)
class Assigned:
    """What one name is given somewhere in a function: an expression, or None when nobody can tell; its annotation."""

    value: ast.expr | None
    annotation: ast.expr | None = None


class FunctionSource:
    """A function whose source was found.

    Attributes:
        function: the plain Python function.
        tree: its definition.
        state: the name of its first parameter that the caller fills, None when it has none.
    """

    def __init__(self, function: types.FunctionType, tree: Function, skipped: int) -> None:
        self.function = function
        self.tree = tree
        parameters = [*tree.args.posonlyargs, *tree.args.args]
        self.parameters = frozenset(
            a.arg for a in (*parameters, *tree.args.kwonlyargs, tree.args.vararg, tree.args.kwarg) if a is not None
        )
        self.state = parameters[skipped].arg if len(parameters) > skipped else None

    @functools.cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Everything in its body, less what stands in functions and classes of its own inside it."""
        body = [self.tree.body] if isinstance(self.tree, ast.Lambda) else self.tree.body
        return tuple(node for statement in body for node in _within(statement))

    @functools.cached_property
    def returns(self) -> tuple[ast.expr | None, ...]:
        """What it may return; None stands for no value."""
        if isinstance(self.tree, ast.Lambda):
            return (self.tree.body,)
        return tuple(node.value for node in self.nodes if isinstance(node, ast.Return))

    @functools.cached_property
    def generates(self) -> bool:
        """Whether it is a generator: what it yields is then what it returns."""
        return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in self.nodes)

    @functools.cached_property
    def assigned(self) -> dict[str, list[Assigned]]:
        """What its local names are given, in the order of the text."""
        found: dict[str, list[Assigned]] = {}
        for node in self.nodes:
            for name, value in _bindings(node):
                found.setdefault(name, []).append(value)
        return found

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """Its annotations, resolved; empty when they cannot be."""
        try:
            return get_type_hints(self.function)
        except Exception:
            return {}

    def is_local(self, name: str) -> bool:
        """Say whether a name is the function's own: a parameter, or something it assigns."""
        return name in self.parameters or name in self.assigned

    def stands_for(self, expression: ast.expr) -> Any:
        """Return the object that a name, or an attribute of one, stands for outside of the function.

        Raises:
            LookupError: nobody can tell without running it.
        """
        if isinstance(expression, ast.Attribute):
            owner = self.stands_for(expression.value)
            if isinstance(owner, types.ModuleType | type):
                found = getattr(owner, expression.attr, _MISSING)
                if found is not _MISSING:
                    return found
        elif isinstance(expression, ast.Name) and not self.is_local(expression.id):
            return self._outside(expression.id)
        raise LookupError(ast.dump(expression))

    def called(self, call: ast.Call) -> object:
        """Return what a call calls, None when nobody can tell."""
        try:
            return cast("object", self.stands_for(call.func))
        except LookupError:
            return None

    def _outside(self, name: str) -> Any:
        free = self.function.__code__.co_freevars
        if name in free and self.function.__closure__ is not None:
            try:
                return self.function.__closure__[free.index(name)].cell_contents
            except ValueError:
                raise LookupError(name) from None
        for space in (self.function.__globals__, vars(builtins)):
            if name in space:
                return space[name]
        raise LookupError(name)


def source_of(function: object) -> FunctionSource | None:
    """Return the source of a function, method, partial or callable object; None when there is none to read.

    >>> def node(state): return {"x": 1}
    >>> source_of(len) is None
    True
    """
    plain, skipped = plain_function(function)
    if plain is None:
        return None
    tree = _tree_of(plain.__code__)
    return None if tree is None else FunctionSource(plain, tree, skipped)


def plain_function(function: object) -> tuple[types.FunctionType | None, int]:
    """Return the Python function behind a callable, and how many of its first parameters are filled already.

    >>> class Agent:
    ...     def __call__(self, state): ...
    >>> plain_function(Agent())[1]
    1
    """
    skipped = 0
    while not isinstance(function, types.FunctionType):
        if isinstance(function, functools.partial):
            skipped, function = skipped + len(function.args), function.func
        elif isinstance(function, types.MethodType):
            skipped, function = skipped + 1, function.__func__
        else:
            own: Callable[..., Any] | None = getattr(type(function), "__call__", None)  # noqa: B004 - its code is wanted
            if isinstance(function, type) or not isinstance(own, types.FunctionType):
                return None, 0
            skipped, function = skipped + 1, own
    return function, skipped


def _within(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _within(child)


def _bindings(node: ast.AST) -> Iterator[tuple[str, Assigned]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _bound(target, value)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value) if value is not None:
            yield name, Assigned(value, annotation)
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, Assigned(value)
        case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
            yield name, Assigned(ast.BinOp(ast.Name(target.id, ast.Load()), op, value))
        case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
            yield from _bound(target, None)
        case ast.withitem(optional_vars=ast.expr() as target):
            yield from _bound(target, None)
        case ast.ExceptHandler(name=str(name)):
            yield name, Assigned(None)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, Assigned(None)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            for alias in names:
                yield (alias.asname or alias.name).partition(".")[0], Assigned(None)
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name, Assigned(None)
        case _:
            pass


def _bound(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, Assigned]]:
    if isinstance(target, ast.Name):
        yield target.id, Assigned(value)
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _bound(part, None)
    elif isinstance(target, ast.Starred):
        yield from _bound(target.value, None)


def _tree_of(code: types.CodeType) -> Function | None:
    """Return the definition that a code object was compiled from: the smallest one that has all of its places."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        # A notebook's cells are known to `inspect` by other means.
        try:
            lines = inspect.findsource(code)[0]
        except (OSError, TypeError):
            return None
    definitions = _definitions("".join(lines))
    places = [place for place in code.co_positions() if place[0] is not None and place[2] is not None]
    # The first place is where the definition begins, its decorators included: no place of what is inside.
    inside = [((p[0] or 0), (p[2] or 0)) for p in places if (p[0] or 0, p[2] or 0) != (code.co_firstlineno, 0)]
    fitting = [tree for tree in definitions if _name(tree) == code.co_name and _holds(tree, code, inside)]
    return min(fitting, key=_size, default=None)


@functools.lru_cache(maxsize=64)
def _definitions(text: str) -> tuple[Function, ...]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return tuple(node for node in ast.walk(tree) if isinstance(node, kinds))


def _name(tree: Function) -> str:
    return "<lambda>" if isinstance(tree, ast.Lambda) else tree.name


def _first_line(tree: Function) -> int:
    decorators = [] if isinstance(tree, ast.Lambda) else tree.decorator_list
    return min([tree.lineno, *(decorator.lineno for decorator in decorators)])


def _holds(tree: Function, code: types.CodeType, places: list[tuple[int, int]]) -> bool:
    if _first_line(tree) != code.co_firstlineno:
        return False
    start, end = (tree.lineno, tree.col_offset), (tree.end_lineno or 0, tree.end_col_offset or 0)
    return all(start <= place <= end for place in places)


def _size(tree: Function) -> tuple[int, int]:
    return (tree.end_lineno or 0) - tree.lineno, (tree.end_col_offset or 0) - tree.col_offset


__all__ = ["Assigned", "FunctionSource", "plain_function", "source_of"]
