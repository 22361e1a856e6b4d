"""What a settlement knows of its tools: their declarations, and the scopes of a call."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from settlemark._acts.effect import Effect, Frozen
from settlemark._edges.errors import DeclarationError, UsageError
from settlemark._edges.text import CALL_ID, identity
from settlemark._model import json_text
from settlemark._model.declaration import Declaration, Registry
from settlemark._model.declare import declaration_of, declare, declared_as, named_by
from settlemark._model.effect_class import EffectClass
from settlemark._model.scope import Scope, escape
from settlemark._observe.logs import about
from settlemark.ledger._contract import Ledger
from settlemark.ledger._payloads.recoverable import objections

_log = logging.getLogger("settlemark")


class Toolbox:
    """The tools of one settlement: declared to it by name, on their functions, or not at all.

    Args:
        ledger: learns which fields of a tool are never recorded.

    Attributes:
        declared: what was declared of tools by their names; what agents say of theirs does not count.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.declared: dict[str, Declaration] = {}
        self._learned: dict[str, Declaration] = {}
        self._registry = Registry()
        self._seen: dict[str, tuple[Declaration | None, Callable[..., Any] | None, Declaration]] = {}
        self._told: set[str] = set()

    def adopt(self, declaration: Declaration) -> Declaration | None:
        """Add an existing declaration of a tool, and return the one it replaces."""
        before = self.known(declaration.tool)
        self.declared[declaration.tool] = declaration
        self._registry.add(declaration)
        return before

    def learn(self, declaration: Declaration) -> None:
        """Take in what an agent says of a tool of its own: another agent's, of the same name, may be another tool."""
        tool, before = declaration.tool, self._learned.get(declaration.tool)
        if before is not None and before.version == declaration.version and _are_unlike(before, declaration):
            self.tell_once(
                f"unlike {tool}",
                f"two unlike tools are called {tool}, version {declaration.version!r}: as long as this process runs"
                " each is carried out and undone by its own functions, but what an ended process has left of either,"
                " and what is rewound, by those of the last; give one of them another name, or a version of its own:"
                " @effect(…, version=…)",
            )
        self._learned[declaration.tool] = declaration
        self._registry.add(declaration)

    def know(self, tool: str, function: Callable[..., Any]) -> None:
        """Remember an undeclared tool's function: an ended process may have left a call of it."""
        opaque = Declaration(tool, EffectClass.OPAQUE, function=function)
        self._seen.setdefault(tool, (opaque, function, opaque))

    def known(self, tool: str, function: Callable[..., Any] | None = None) -> Declaration | None:
        """Return a tool's declaration, made here or on its function, or None; logs and stores nothing."""
        return self.declared.get(tool) or declaration_of(function) or self._said(tool, function)

    def _said(self, tool: str, function: Callable[..., Any] | None) -> Declaration | None:
        """Return what an agent has said of a tool: it says nothing of another function of the same name."""
        found = self._learned.get(tool)
        if found is None or None in (function, found.function) or function == found.function:
            return found
        return None

    def of(self, function: Callable[..., Any] | None, tool: str | None = None) -> Declaration:
        """Return a tool's declaration: made here, on its function, or else opaque (with one warning)."""
        own = declaration_of(function)
        name = tool or (named_by(function) if own is None else own.tool)
        base = self.declared.get(name) or own or self._said(name, function)
        seen = self._seen.get(name)
        # Two functions may share a name: each keeps its own declaration and signature.
        if seen is not None and seen[0] is base and seen[1] == function:
            return seen[2]
        declared = base
        if declared is None:
            declared = declare(name, EffectClass.OPAQUE)
            self.tell_once(
                f"undeclared {name}",
                f"{name} is undeclared, so it runs in order and cannot be undone; say what it does:"
                f' settlement.declare("{name}", "read") or @effect(…)',
            )
        if function is not None and (declared.function is None or inspect.ismethod(function)):
            declared = replace(declared, function=function)  # a bound method is called without its `self`
        self._seen[name] = (base, function, declared)
        self._withhold(declared)
        for told in objections(declared, self._ledger.payloads.redactions(declared.tool)):
            self.tell_once(told, told)
        return declared

    def recorded_as(self, tool: str, version: str | None = None) -> Declaration | None:
        """Return the declaration whose handlers speak for a recorded effect, by tool and version, or None."""
        found = self._registry.find(tool, version) or declared_as(tool, version)
        if found is not None:
            self._withhold(found)
            return found
        seen = self._seen.get(tool)
        return seen[2] if seen is not None and (version is None or seen[2].speaks_for(version)) else None

    def effect_of(
        self,
        declaration: Declaration,
        arguments: dict[str, Any],
        run_tool: Callable[[], Any],
        *,
        run: str,
        call_id: str | None = None,
    ) -> Effect:
        """Return the effect of one call, with the scopes that its declaration gives it.

        Raises:
            ScopeError: an argument cannot be a scope's segment; nothing was run.
            UsageError: no store can hold the call's id, or what it spends is no amount; nothing was run.
        """
        if call_id is not None:
            call_id = identity(call_id, f"the id of a call of {declaration.tool}", CALL_ID)
        if declaration.redact:
            self._withhold(declaration)
        scopes = declaration.scopes(arguments)
        if declaration.scope is None and declaration.kind is EffectClass.OPAQUE:
            scopes = (Scope.parse(f"run:/{escape(run)}"), *scopes)
        bound = self._ledger.protocol.tools.changes
        effect = Effect(declaration, scopes, arguments, run_tool, call_id=call_id, bound=bound)
        if declaration.spends:
            effect.spends = declaration.amounts(arguments)
        return effect

    def remade(self, effect: Effect, arguments: Mapping[str, Any], *, run: str) -> Effect:
        """Return a copy of an effect with other arguments, not recorded yet.

        Raises:
            UsageError: the tool does not take them, or its function is unknown here; nothing was run.
        """
        declaration = effect.declaration
        function = declaration.function
        if function is None:
            raise DeclarationError(
                f"{declaration.tool} cannot be called with other arguments: declare it on its function, or answer"
                " without arguments",
                tool=declaration.tool,
            )
        try:
            named = declaration.arguments((), dict(arguments))
        except TypeError as error:
            raise UsageError(
                f"{declaration.tool} does not take {json_text.encode_result(dict(arguments))}: {error}; nothing was run"
            ) from error
        named = json_text.snapshot(named)
        return self.effect_of(declaration, named, Frozen(function, (), named), run=run)

    def tell_once(self, topic: str, text: str) -> None:
        """Log a warning the first time a topic comes up."""
        if topic not in self._told:
            self._told.add(topic)
            _log.warning("%s", text, extra=about(topic=topic))

    def _withhold(self, declaration: Declaration) -> None:
        if declaration.redact:
            self._ledger.payloads.withhold(declaration.tool, declaration.redact)


def _are_unlike(first: Declaration, second: Declaration) -> bool:
    """Whether calls of the two are carried out, or undone, by different code; variables around it do not count."""
    if first.kind is second.kind is EffectClass.READ:
        return False
    both = zip(_codes(first), _codes(second), strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in both)


def _codes(declaration: Declaration) -> list[object]:
    handlers = (declaration.undo, declaration.probe, declaration.release)
    functions = (declaration.function, *(handler and handler.function for handler in handlers))
    return [getattr(inspect.unwrap(each), "__code__", None) if callable(each) else None for each in functions]


__all__ = ["Toolbox"]
