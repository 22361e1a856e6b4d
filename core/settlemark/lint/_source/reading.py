"""Reads a function's text once, in order, following the flow of its arguments; nothing is run.

Functions of the same module are read where they are called, with their arguments. Every branch is read as if it were
taken, so every possible flow is found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from settlemark.lint._source.bindings import Bindings, Function, body_of, is_empty, parameters
from settlemark.lint._source.calls import Calls
from settlemark.lint._source.facts import Facts
from settlemark.lint._source.tools import Tool
from settlemark.lint._source.values import Value, argument, constant, joined, mixed, with_origin
from settlemark.lint._source.words import COMPUTED

_DEPTH = 6
_CONTAINERS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS = frozenset({"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict", "ChainMap"})


def read_tool(tool: Tool) -> Facts:
    """Return what a tool's function does; empty for one that was not found."""
    if tool.function is None:
        return Facts(uncertain=True, empty=True)
    return read(tool.function, (tool.home or tool.source).bindings, injected=tool.injected)


def read(function: Function, bindings: Bindings, *, injected: Iterable[str] = ()) -> Facts:
    r"""Return what a function does.

    >>> tree = ast.parse("def save(name, text):\n    open(f'notes/{name}', 'w').write(text)")
    >>> found = read(tree.body[0], Bindings(tree)).addresses[0]
    >>> found.medium, found.arguments, found.way
    ('file', ('name',), 'write')
    """
    facts = Facts(empty=is_empty(function))
    env = {each.arg: argument(each.arg) for each in parameters(function)}
    env.update({name: Value(root=name) for name in injected})
    if function.args.kwarg is not None:
        env[function.args.kwarg.arg] = Value(origins=frozenset({"arg:**"}))
    try:
        Reader(bindings, facts, env, (function,)).run(function)
    except RecursionError:
        facts.uncertain = True  # nested too deeply to read; generated code, for example
    return facts


class Reader:
    """One function being read, with the current values of its names."""

    def __init__(self, bindings: Bindings, facts: Facts, env: dict[str, Value], stack: tuple[Function, ...]) -> None:
        self.bindings = bindings
        self.facts = facts
        self.env = env
        self.stack = stack
        self.calls = Calls(self)
        self.returned: list[Value] = []

    def run(self, function: Function) -> Value:
        """Read a function's body, and return what it may return."""
        for statement in body_of(function):
            self.statement(statement)
        return mixed(*self.returned) if self.returned else Value()

    # ---- statements

    def statement(self, node: ast.AST) -> None:  # noqa: C901, PLR0912 - a table of Python's statements
        """Read one statement, and everything inside it."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                pass  # read when it is called
            case ast.Assign():
                value = self.value(node.value)
                for target in node.targets:
                    self.assign(target, value, node.value)
            case ast.AnnAssign():
                if node.value is not None:
                    self.assign(node.target, self.value(node.value), node.value)
            case ast.AugAssign():
                value = joined(self.value(node.target), self.value(node.value))
                self.assign(node.target, value, node.value)
            case ast.Return():
                if node.value is not None:
                    self.returned.append(self.value(node.value))
            case ast.For() | ast.AsyncFor():
                self.assign(node.target, self.value(node.iter).plain(), None)
                self._all(node.body, node.orelse)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    value = self.value(item.context_expr)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, value, None)
                self._all(node.body)
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Subscript):
                        self.calls.item(target, self.value(target.value), self.value(target.slice), writes=True)
            case ast.expr():
                self.value(node)
            case _:
                for child in ast.iter_child_nodes(node):
                    self.statement(child)

    def _all(self, *blocks: Iterable[ast.stmt]) -> None:
        for block in blocks:
            for statement in block:
                self.statement(statement)

    def assign(self, target: ast.expr, value: Value, given: ast.expr | None) -> None:
        """Record what a target is assigned."""
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            values = given.elts if isinstance(given, ast.Tuple | ast.List) else []
            for number, each in enumerate(target.elts):
                alone = len(values) == len(target.elts)
                self.assign(each, self.value(values[number]) if alone else value.plain(), None)
        elif isinstance(target, ast.Subscript):
            index = self.value(target.slice)
            self.calls.header(index, value, target)
            owner = self.value(target.value)
            self.calls.item(target, owner, index, writes=True)
            if isinstance(target.value, ast.Name) and target.value.id in self.env:
                self.env[target.value.id] = Value(origins=owner.origins | value.origins, container=owner.container)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value)
            if owner.root and not owner.container:
                self.calls.attribute(target, owner)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value.plain(), None)

    # ---- expressions

    def value(self, node: ast.expr) -> Value:  # noqa: C901, PLR0911, PLR0912 - a table of Python's expressions
        """Return the value of an expression, and record what it does."""
        match node:
            case ast.Constant():
                return constant(str(node.value)) if isinstance(node.value, str | int | float) else Value()
            case ast.Name():
                return self.name(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.calls.call(node)
            case ast.JoinedStr():
                return joined(*(self.value(each) for each in node.values))
            case ast.FormattedValue():
                return self.value(node.value)
            case ast.BinOp():
                return self._operated(node)
            case ast.Await() | ast.Starred() | ast.YieldFrom():
                return self.value(node.value)
            case ast.NamedExpr():
                value = self.value(node.value)
                self.assign(node.target, value, node.value)
                return value
            case ast.Subscript():
                return self._subscript(node)
            case ast.IfExp():
                self.value(node.test)
                return _either(self.value(node.body), self.value(node.orelse))
            case ast.BoolOp():
                return _either(*(self.value(each) for each in node.values))
            case ast.Lambda():
                return Value()
            case ast.Dict():
                return self._dict(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case _:
                inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
                found = mixed(*(self.value(each) for each in inner)).plain()
                return Value(origins=found.origins, container=isinstance(node, _CONTAINERS))

    def name(self, node: ast.Name) -> Value:
        """Return the value of a name."""
        value = self.env[node.id] if node.id in self.env else self._free(node)
        return with_origin(value, f"value:{node.id}") if node.id in COMPUTED else value

    def _free(self, node: ast.Name) -> Value:
        qualified = self.bindings.qualified(node)
        if qualified:
            return Value() if qualified.startswith("builtins.") else Value(root=qualified)
        bound = [each for each in self.bindings.lookup(node.id, node) if isinstance(each, ast.expr)]
        if bound and all(_makes_container(each) for each in bound):
            return Value(root=node.id, container=True)
        given = self.bindings.value(node)
        if isinstance(given, ast.Constant | ast.JoinedStr | ast.BinOp) or self._is_path(given):
            outer = Reader(self.bindings, Facts(), {}, self.stack)
            return outer.value(given) if len(self.stack) < _DEPTH and given is not node else Value(root=node.id)
        return Value(root=node.id)

    def _is_path(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute | ast.Call | ast.BinOp):
            if isinstance(node, ast.Call) and self.bindings.qualified(node.func) == "pathlib.Path":
                return True
            node = node.func if isinstance(node, ast.Call) else getattr(node, "value", getattr(node, "left", node))
        return False

    def attribute(self, node: ast.Attribute) -> Value:
        """Return the value of an attribute."""
        qualified = self.bindings.qualified(node)
        owner = self.value(node.value)
        if owner.path:
            return owner if node.attr in {"parent", "name", "stem"} else owner.plain()
        if self.calls.is_own_key(node):
            self.facts.asks_key = True
            return Value(origins=frozenset({"key"}))
        if owner.root:
            root = qualified if qualified and not qualified.startswith("builtins.") else f"{owner.root}.{node.attr}"
            return Value(root=root, origins=owner.origins)
        found = owner.plain()
        return with_origin(found, f"value:{node.attr}") if node.attr in COMPUTED else found

    def _subscript(self, node: ast.Subscript) -> Value:
        owner, index = self.value(node.value), self.value(node.slice)
        self.calls.item(node, owner, index, writes=False)
        if owner.root and index.constant is not None:
            return Value(root=f"{owner.root}[{index.constant}]", container=owner.container)
        if owner.root and owner.container:
            return Value(origins=index.origins)
        return mixed(owner.plain(), index.plain()).plain()

    def _operated(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Div) and (left.path or right.path):
            found = joined(left, right, between="/")
            return Value(found.pieces, found.origins, path=True)
        if isinstance(node.op, ast.Add) and (left.pieces or right.pieces):
            return joined(left, right)
        if isinstance(node.op, ast.Mod) and left.constant is not None:
            return joined(left, right)
        return mixed(left.plain(), right.plain()).plain()

    def _dict(self, node: ast.Dict) -> Value:
        found: list[Value] = []
        for key, each in zip(node.keys, node.values, strict=True):
            value = self.value(each)
            if key is not None:
                self.calls.header(self.value(key), value, each)
            found.append(value.plain())
        return Value(origins=mixed(*found).origins, container=True)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer = dict(self.env)
        found: list[Value] = []
        for part in node.generators:
            found.append(self.value(part.iter).plain())
            self.assign(part.target, found[-1], None)
            found += [self.value(each).plain() for each in part.ifs]
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        found += [self.value(each).plain() for each in made]
        self.env = outer
        return Value(origins=mixed(*found).origins, container=True)

    # ---- functions of the same module

    def enter(self, function: Function, given: dict[str, Value]) -> Value:
        """Read a function of this module with its arguments, and return its possible results."""
        if function in self.stack or len(self.stack) >= _DEPTH:
            return mixed(*given.values()).plain()
        env = {each.arg: given.get(each.arg, Value()) for each in parameters(function)}
        names = [each.arg for each in parameters(function)]
        if names and names[0] == "self":
            env["self"] = self.env.get("self", Value(root="self"))
        if function.args.kwarg is not None:
            rest = [value.plain() for name, value in given.items() if name not in env]
            env[function.args.kwarg.arg] = Value(origins=mixed(*rest).origins)
        inner = Reader(self.bindings, self.facts, env, (*self.stack, function))
        captured = {name: value for name, value in self.env.items() if self._captures(function, name)}
        inner.env = {**captured, **env}
        return inner.run(function)

    def _captures(self, function: Function, name: str) -> bool:
        """Whether a function is nested in the one being read, and so sees its names."""
        return any(parent is self.stack[-1] for _, parent in self.bindings.parents(function)) and bool(name)


def _makes_container(given: ast.expr) -> bool:
    if isinstance(given, ast.Call):
        return getattr(given.func, "id", getattr(given.func, "attr", "")) in _MAKERS
    return isinstance(given, _CONTAINERS)


def _either(*values: Value) -> Value:
    """Return one of several possible values: a key with a fallback for calls without one stays a key."""
    if any("key" in value.origins for value in values):
        return Value(origins=frozenset(o for value in values for o in value.origins) - {"uuid", "random", "clock"})
    return mixed(*values)


__all__ = ["Reader", "read", "read_tool"]
