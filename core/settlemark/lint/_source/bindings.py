"""What the names of a module stand for, found from its text alone, by Python's scoping rules."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import TypeAlias, cast

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Function: TypeAlias = Definition | ast.Lambda
Scoped: TypeAlias = ast.Module | Function | ast.ClassDef


class Imported(str):
    """The dotted name that an imported name stands for."""

    __slots__ = ()


class Unknown:
    """A parameter, or the target of a loop or a `with`: its value is unknown."""


Bound: TypeAlias = Definition | ast.ClassDef | ast.expr | Imported | Unknown
_UNKNOWN = Unknown()


class Bindings:
    r"""The scopes of one module, with the bindings of each; `functions` are all functions, in the order of the text.

    >>> tree = ast.parse("import uuid as u\ndef f():\n    return u.uuid4()")
    >>> call = tree.body[1].body[0].value
    >>> Bindings(tree).qualified(call.func)
    'uuid.uuid4'
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._parents: dict[ast.AST, ast.AST] = {}
        self._names: dict[ast.AST, dict[str, list[Bound]]] = {tree: {}}
        self.functions: list[Definition] = []
        self._collect(tree, tree)

    def parents(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Yield a node with its parent, then the parent with its own, up to the module."""
        while node in self._parents:
            parent = self._parents[node]
            yield node, parent
            node = parent

    def lookup(self, name: str, at: ast.AST) -> list[Bound]:
        """Return everything a name is bound to in the nearest scope that binds it, seen from a node."""
        inside_function = isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if at in self._names and name in self._names[at] and inside_function:
            return self._names[at][name]
        inside_function = False
        for child, parent in self.parents(at):
            if parent not in self._names or (isinstance(parent, ast.ClassDef) and inside_function):
                continue
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (
                child in parent.decorator_list or child is getattr(parent, "returns", None)
            ):
                continue
            if name in self._names[parent]:
                return self._names[parent][name]
            inside_function = inside_function or not isinstance(parent, ast.ClassDef)
        return self._names[self.tree].get(name, [])

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class whose method contains, or is, a node."""
        return next((parent for _, parent in self.parents(node) if isinstance(parent, ast.ClassDef)), None)

    def member(self, owner: ast.ClassDef, name: str, *, below: tuple[ast.ClassDef, ...] = ()) -> Definition | None:
        """Return a method of a class, or of a base of it in this module, other than those `below` it."""
        for each in self._names.get(owner, {}).get(name, []):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                return each
        for base in owner.bases:
            found = self.lookup(base.id, owner) if isinstance(base, ast.Name) else []
            for each in found:
                if isinstance(each, ast.ClassDef) and each not in (owner, *below):
                    return self.member(each, name, below=(owner, *below))
        return None

    def function(self, expression: ast.expr, *, seen: tuple[ast.expr, ...] = ()) -> Function | None:
        """Return the function of this module that an expression names, or None."""
        if isinstance(expression, ast.Lambda):
            return expression
        if isinstance(expression, ast.Attribute) and isinstance(expression.value, ast.Name):
            owner = self.enclosing_class(expression) if expression.value.id in {"self", "cls"} else None
            if owner is None:
                named = self.lookup(expression.value.id, expression)
                owner = next((each for each in named if isinstance(each, ast.ClassDef)), None)
            return None if owner is None else self.member(owner, expression.attr)
        if not isinstance(expression, ast.Name):
            return None
        found = self.lookup(expression.id, expression)
        for each in reversed(found):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return each
        match found:
            case [ast.Name() as other] if other not in seen:
                return self.function(other, seen=(*seen, other))
            case _:
                return None

    def qualified(self, expression: ast.expr) -> str:
        """Return the dotted name that an imported name or a builtin stands for; else ""."""
        if isinstance(expression, ast.Attribute):
            owner = self.qualified(expression.value)
            return f"{owner}.{expression.attr}" if owner else ""
        if not isinstance(expression, ast.Name):
            return ""
        found = self.lookup(expression.id, expression)
        imported = next((each for each in reversed(found) if isinstance(each, Imported)), None)
        if imported is not None:
            return str(imported)
        return f"builtins.{expression.id}" if not found and hasattr(builtins, expression.id) else ""

    def value(self, expression: ast.expr) -> ast.expr:
        """Return the expression a name was assigned, if there is only one; else the expression itself."""
        if isinstance(expression, ast.Name):
            found = self.lookup(expression.id, expression)
            if len(found) == 1 and isinstance(found[0], ast.expr) and not isinstance(found[0], ast.Name):
                return found[0]
        return expression

    # ---- collecting

    def _collect(self, node: ast.AST, scope: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self._parents[child] = node
            self._bind(child, scope)
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                inner = child
                self._names[child] = {}
            self._collect(child, inner)

    def _put(self, scope: ast.AST, name: str, bound: Bound) -> None:
        self._names[scope].setdefault(name, []).append(bound)

    def _bind(self, node: ast.AST, scope: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._put(scope, node.name, node)
                if not isinstance(node, ast.ClassDef):
                    self.functions.append(node)
            case ast.Import():
                for alias in node.names:
                    dotted = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._put(scope, alias.asname or dotted, Imported(dotted))
            case ast.ImportFrom():
                module = "." * node.level + (node.module or "")
                for alias in node.names:
                    self._put(scope, alias.asname or alias.name, Imported(f"{module}.{alias.name}"))
            case ast.arg():
                self._put(scope, node.arg, _UNKNOWN)
            case ast.Assign():
                for target in node.targets:
                    self._bind_target(target, node.value, scope)
            case ast.AnnAssign() | ast.NamedExpr():
                if node.value is not None:
                    self._bind_target(node.target, node.value, scope)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._bind_target(node.target, None, scope)
            case ast.withitem():
                if node.optional_vars is not None:
                    self._bind_target(node.optional_vars, None, scope)
            case _:
                pass

    def _bind_target(self, target: ast.expr, value: ast.expr | None, scope: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self._put(scope, target.id, _UNKNOWN if value is None else value)
        elif isinstance(target, ast.Tuple | ast.List):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                values = cast("list[ast.expr | None]", value.elts)
            for each, given in zip(target.elts, values, strict=True):
                self._bind_target(each, given, scope)


def parameters(function: Function) -> list[ast.arg]:
    """Return the named parameters of a function, in order."""
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def body_of(function: Function) -> list[ast.stmt]:
    """Return a function's statements, its docstring left out; of a lambda, what it returns."""
    if isinstance(function, ast.Lambda):
        return [ast.copy_location(ast.Return(function.body), function.body)]
    first = function.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return function.body[1:] if documented else function.body


def is_empty(function: Function) -> bool:
    """Whether a function's body does nothing at all: `pass`, `...`, a constant, or a name that it returns.

    >>> [is_empty(ast.parse(text).body[0].value) for text in ("lambda **_: None", "lambda a: f(a)")]
    [True, False]
    """

    def nothing(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Pass):
            return True
        value = statement.value if isinstance(statement, ast.Expr | ast.Return) else statement
        return value is None or isinstance(value, ast.Constant | ast.Name)

    return all(nothing(statement) for statement in body_of(function))


__all__ = [
    "Bindings",
    "Bound",
    "Definition",
    "Function",
    "Imported",
    "Unknown",
    "body_of",
    "is_empty",
    "parameters",
]
