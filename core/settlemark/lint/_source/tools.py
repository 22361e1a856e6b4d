"""A tool as the text shows it: its function, its class, and its declaration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from settlemark._model.effect_class import EffectClass
from settlemark.lint._source.bindings import Function, parameters
from settlemark.lint._source.sources import Source
from settlemark.lint._source.templates import Template

KINDS = frozenset(EffectClass)
HELD = frozenset({EffectClass.STAGED, EffectClass.IRREVERSIBLE})
_INJECTED = (
    "RunContext",
    "RunnableConfig",
    "ToolRuntime",
    "CancellationToken",
    "Injected",
    "CallbackManager",
    "Context",
)

Way = Literal["effect", "declare", "effects", "operation", "framework"]


@dataclass(frozen=True, slots=True)
class Handler:
    """The value of a part such as `undo=`: its function, where that is in the module, and how it is called.

    `mapped` are the arguments that `inverse` takes from the result, if `inverse` made it.
    """

    expression: ast.expr
    function: Function | None
    mapped: tuple[str, ...] | None = None
    bound: bool = False

    @property
    def names(self) -> list[str]:
        """The parameters, `self` excepted."""
        if self.mapped is not None:
            return ["result"]
        found = [] if self.function is None else [each.arg for each in parameters(self.function)]
        return found[1:] if self.bound else found


@dataclass(eq=False)
class Tool:
    """One tool and its declaration.

    Attributes:
        name: the name that a model calls.
        source: the file of its declaration; `home` the file of its function.
        at: the decorator, call or entry that declares it, or what makes it a tool.
        way: how it is declared; `framework` means not at all.
        kind: its class; None when undeclared or no literal.
        parts: the keywords of the declaration; `partial` says that there are unreadable ones too.
        function: its function, if found.
        hints: its MCP annotations.
    """

    name: str
    source: Source
    at: ast.AST
    way: Way
    kind: EffectClass | None = None
    parts: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    partial: bool = False
    function: Function | None = None
    home: Source | None = None
    hints: dict[str, bool] = field(default_factory=dict[str, bool])
    described: str = ""

    @property
    def declared(self) -> bool:
        """Whether it is declared."""
        return self.way != "framework"

    @property
    def acts(self) -> bool:
        """Whether its declared class acts."""
        return self.declared and self.kind not in (None, EffectClass.READ)

    @property
    def line(self) -> int:
        """The line its declaration begins on."""
        return int(getattr(self.at, "lineno", 1))

    @property
    def lines(self) -> Iterator[int]:
        """The lines on which a comment applies to this tool: its decorators' and its `def`'s."""
        yield self.line
        yield int(getattr(self.at, "end_lineno", self.line))
        if self.function is not None and (self.home or self.source) is self.source:
            yield self.function.lineno

    @property
    def bound(self) -> bool:
        """Whether its function is a method."""
        return self.function is not None and self._is_method(self.function)

    def _is_method(self, function: Function) -> bool:
        home = self.home or self.source
        if isinstance(function, ast.Lambda):
            return False
        static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
        parent = next((parent for _, parent in home.bindings.parents(function)), None)
        return isinstance(parent, ast.ClassDef) and not static

    @cached_property
    def injected(self) -> frozenset[str]:
        """The parameters that a framework fills, not the model, such as `self`."""
        given = [] if self.function is None else parameters(self.function)
        found = {each.arg for each in given if each.annotation is not None and _is_injected(each.annotation)}
        found |= {each.arg for each in given[:1] if self.bound or each.arg in {"ctx", "self"}}
        return frozenset(found)

    @cached_property
    def arguments(self) -> list[str]:
        """The arguments that a model gives."""
        if self.function is None:
            return []
        return [each.arg for each in parameters(self.function) if each.arg not in self.injected]

    @property
    def takes_anything(self) -> bool:
        """Whether its arguments are unknown."""
        return self.function is None or self.function.args.kwarg is not None

    @property
    def doc(self) -> str:
        """Its docstring, or its description for its framework."""
        if isinstance(self.function, ast.FunctionDef | ast.AsyncFunctionDef):
            return ast.get_docstring(self.function) or self.described
        return self.described

    @cached_property
    def templates(self) -> list[Template] | None:
        """Its scopes; None when a function names them, or they cannot be read here."""
        found: list[Template] = []
        for role in ("scope", "may_touch"):
            if role not in self.parts:
                continue
            value = self.source.bindings.value(self.parts[role])
            each = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
            for text in each:
                if isinstance(text, ast.Constant) and text.value is None:
                    continue
                if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
                    return None
                template = Template.parse(text.value)
                if template is None:
                    return None
                found.append(template)
        return None if self.partial and not found else found

    @property
    def fields(self) -> set[str]:
        """The arguments that its scopes name."""
        return {name for template in self.templates or () for name in template.fields}

    def line_of(self, role: str) -> int:
        """The line of one part of its declaration, or where that begins."""
        return self.parts[role].lineno if role in self.parts else self.line

    def true(self, role: str) -> bool:
        """Whether a part is given and may be true."""
        given = self.parts.get(role)
        return given is not None and not (isinstance(given, ast.Constant) and not given.value)

    @property
    def keyed(self) -> bool:
        """Whether it is declared to send the call's key."""
        return self.true("keyed") or (self.kind is EffectClass.IDEMPOTENT and "keyed" not in self.parts)

    def handler(self, role: str) -> Handler | None:
        """Return a part's handler; None when it is not given."""
        given = self.parts.get(role)
        if given is None or (isinstance(given, ast.Constant) and given.value is None):
            return None
        return self._resolved(given, given, set())

    def _resolved(self, given: ast.expr, shown: ast.expr, seen: set[ast.expr]) -> Handler:  # noqa: PLR0911 - one per way to write it
        bindings = self.source.bindings
        function = bindings.function(given)
        if function is not None:
            return Handler(shown, function, bound=self._is_method(function))
        if given in seen:
            return Handler(shown, None)  # makers that return each other's result
        seen.add(given)
        value = bindings.value(given)
        if value is not given:
            return self._resolved(value, shown, seen)
        if not isinstance(given, ast.Call):
            return Handler(shown, None)
        if _last(given.func) == "inverse" and given.args:
            mapped = tuple(each.arg for each in given.keywords if each.arg)
            return Handler(shown, bindings.function(given.args[0]), mapped)
        if _last(given.func) == "partial" and given.args:
            return self._resolved(given.args[0], shown, seen)
        maker = bindings.function(given.func)
        if maker is not None:  # a function that makes the handler: its return value
            for node in ast.walk(maker):
                if isinstance(node, ast.Return) and node.value is not None:
                    made = self._resolved(node.value, shown, seen)
                    if made.function is not None:
                        return made
        return Handler(shown, None)


def _is_injected(annotation: ast.expr) -> bool:
    return any(name in ast.unparse(annotation) for name in _INJECTED)


def _last(expression: ast.expr) -> str:
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


last_name = _last

__all__ = ["HELD", "KINDS", "Handler", "Tool", "Way", "last_name"]
