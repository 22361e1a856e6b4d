"""What a node's tools do to the world: from `effects=`, `settlement.declare` or `@effect`, else opaque."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.tools import BaseTool

from settlemark import Declaration, DeclarationError, EffectClass, Settlement
from settlemark._effect import declaration_of

Declared = str | Mapping[str, Any] | Declaration
"""A class (`"read"`), the parts of a declaration (`{"kind": "irreversible", "scope": "mail:/{to}"}`), or one."""

_ACTS = re.compile(
    r"(?:^|_)(send|mail|email|pay|charge|refund|transfer|delete|remove|drop|publish|post|book|cancel|buy|order|submit)"
    r"(?:_|$)"
)


class Declarations:
    """The declarations of one node's tools, looked up when a tool is called."""

    def __init__(
        self,
        settlement: Settlement,
        tools: Mapping[str, BaseTool] | None,
        effects: Mapping[str, Declared],
        *,
        settles: bool,
    ) -> None:
        self._settlement = settlement
        self._tools: dict[str, BaseTool] = {}
        self._settles = settles
        self._effects = effects
        for name, declared in effects.items():
            _check(name, declared, tools)
        for name in effects:
            self._declare(name, None if tools is None else tools.get(name))
        self.learn(tools or {}, declared=tools is not None)

    def _declare(self, name: str, tool: BaseTool | None) -> None:
        declared = self._effects[name]
        if isinstance(declared, Declaration):
            self._settlement.adopt(replace(declared, tool=name))
            return
        parts: dict[str, Any] = {"kind": declared} if isinstance(declared, str) else dict(declared)
        function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
        self._settlement.declare(name, parts.pop("kind"), **{"function": function, **parts})

    def learn(self, tools: Mapping[str, BaseTool], *, declared: bool = False) -> None:
        """Take in tools that were not known before; `declared` says that `effects` was declared with them."""
        for name, tool in tools.items():
            if name in self._tools:
                continue
            self._tools[name] = tool
            if not declared and name in self._effects:
                self._declare(name, tool)
            # Known by name from now on: recovery finds its handlers before the tool is called again.
            found = self._settlement.declared(name, _declared_on(tool))
            self._refuse_to_gate(found)
            function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
            if found is not None:
                self._settlement.adopt(replace(found, tool=name))
            elif function is not None and self._settles:
                self._settlement.know(name, function)  # it may be held, behind a gate

    def tool(self, name: str) -> BaseTool | None:
        """Return the tool of this name, if there is one."""
        return self._tools.get(name)

    def of(self, name: str) -> Declaration:
        """Return a tool's declaration; of an undeclared one it is said once how to declare it."""
        tool = self._tools.get(name)
        found = self._settlement.declared(name)
        self._refuse_to_gate(found)
        if found is None:
            if tool is not None:
                self._settlement.tell_once(f"undeclared {name}", self._advice(name, tool))
            found = Declaration(name, EffectClass.OPAQUE)
        return found

    def _refuse_to_gate(self, found: Declaration | None) -> None:
        if found is not None and found.approve is not None and not self._settles:
            raise DeclarationError(
                f"{found.tool} needs a person's yes (approve=), which a node without a settlement cannot ask for: give"
                " it settlement=Settlement(…)",
                tool=found.tool,
            )

    def _advice(self, name: str, tool: BaseTool) -> str:
        acts = _ACTS.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
        if not self._settles and not acts:
            return (
                f"{name} is undeclared, so it runs after the calls issued before it; if it only reads, say so, and it"
                f' runs beside them: SequencedToolNode(…, effects={{"{name}": "read"}})'
            )
        first = next(iter(tool.args), None)
        scope = f"{name}:/{{{first}}}" if first else f"{name}:/all"
        held = f'settlement.declare("{name}", "irreversible", scope="{scope}") holds it until the turn has succeeded'
        undone = f'settlement.declare("{name}", "reversible", scope="{scope}", undo=…) undoes it'
        given = "" if self._settles else ", with settlement=Settlement(…) given to the node"
        read = "" if acts else f'; if it only reads: settlement.declare("{name}", "read")'
        lines = f"{held}, {undone}" if acts else f"{undone}, {held}"
        return (
            f"{name} is undeclared: it runs when it is called, and cannot be undone when another call of its turn"
            f" fails; declare it: {lines}{given}{read}"
        )


def _check(name: str, declared: Declared, tools: Mapping[str, BaseTool] | None) -> None:
    if tools is not None and name not in tools:
        has = ", ".join(tools) or "none"
        raise DeclarationError(f"effects= names {name!r}, which is no tool of this node; its tools: {has}", tool=name)
    if isinstance(declared, Mapping) and "kind" not in declared:
        raise DeclarationError(
            f'effects= of {name} has {", ".join(map(repr, declared)) or "nothing"} and no "kind": say'
            f' {{"{name}": {{"kind": "irreversible", "scope": …}}}}; the kinds are {", ".join(EffectClass)}',
            tool=name,
        )


def _declared_on(tool: BaseTool) -> Callable[..., Any] | None:
    """Return where `@effect` may have left its declaration: the tool's function, or the tool's class."""
    places = (getattr(tool, "func", None), getattr(tool, "coroutine", None), type(tool))
    return next((place for place in places if declaration_of(place) is not None), None)
