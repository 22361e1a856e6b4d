"""What an agent's tools do to the world: from `effects=`, `settlement.declare` or `@effect`, else opaque."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from settlemark._api.settlement import Settlement, host_of
from settlemark._edges.errors import DeclarationError
from settlemark._model.declaration import Declaration
from settlemark._model.declare import declaration_of, declare
from settlemark._model.effect_class import EffectClass

Declared = str | Mapping[str, Any] | Declaration
"""A class (`"read"`), the parts of a declaration (`{"kind": "irreversible", "scope": "mail:/{to}"}`), or one."""

_ACTS = re.compile(
    r"(?:^|_)(send|mail|email|pay|charge|refund|transfer|delete|remove|drop|publish|post|book|cancel|buy|order|submit)"
    r"(?:_|$)"
)

_ALIKE = 0.75


@dataclass(frozen=True, slots=True)
class Learned:
    """A tool that an agent has.

    Attributes:
        name: as the model calls it.
        function: what it runs, where that can be told.
        declared_on: where else `@effect` may have left its declaration.
        effect: what was said of this very tool, or None.
        arguments: the names of its arguments.
        own: what is said of it by `effects=` or `@effect`, or None.
        before: what `settlement.declare` had said of the name by then: what it says later counts.
    """

    name: str
    function: Callable[..., Any] | None
    declared_on: tuple[object, ...]
    effect: Declared | None
    arguments: Sequence[str]
    own: Declaration | None
    before: Declaration | None

    def is_of(
        self, function: Callable[..., Any] | None, declared_on: Sequence[object], effect: Declared | None
    ) -> bool:
        """Whether it is this tool, and no other one of its name."""
        return self.function == function and self.declared_on == tuple(declared_on) and self.effect is effect


class Declarations:
    """The declarations of an agent's tools, looked up when a tool is called.

    Several agents of a settlement may have tools of one name, and one agent may be given another one in each request:
    each tool is what is said of itself.

    Args:
        settlement: knows them, too, and finds their handlers after a crash.
        effects: what the tools of others do.
        names: of all tools there are, where that is known: `effects` may name no other.
        settles: False where order and deduplication alone are asked for: nobody can be asked for a yes then.
        owner: who has the tools, for messages.
        example: how the caller writes `effects=`, for advice.

    Raises:
        DeclarationError: `effects` contradicts itself, or names a tool that is not there.

    >>> Declarations(Settlement("memory:"), {"search": "read"}).of("search").kind.value
    'read'
    """

    def __init__(
        self,
        settlement: Settlement,
        effects: Mapping[str, Declared] | None = None,
        *,
        names: Collection[str] | None = None,
        settles: bool = True,
        owner: str = "this agent",
        example: str = 'effects={{"{name}": "read"}}',
    ) -> None:
        self._host = host_of(settlement)
        self._effects = effects or {}
        self._settles = settles
        self._example = example
        self._known: dict[str, Learned] = {}
        self._lock = threading.Lock()
        for name, declared in self._effects.items():
            _check(name, declared, names, owner)
        for name, declared in self._effects.items():
            own, before = _made(name, declared, None), self._host.tools.declared.get(name)
            self._host.tools.learn(own)
            self._known[name] = Learned(name, None, (), None, (), own, before)

    def learn(
        self,
        name: str,
        function: Callable[..., Any] | None = None,
        *,
        declared_on: Sequence[object] = (),
        arguments: Sequence[str] = (),
        effect: Declared | None = None,
    ) -> Learned:
        """Take in a tool, and return it; by its name the last one is known.

        Args:
            name: as the model calls it.
            function: what it runs, where that can be told; a crash may have left a call of it to be made.
            declared_on: where else `@effect` may have left its declaration, the class of the tool say.
            arguments: the names of its arguments, for advice.
            effect: what was said of this tool alone; what `effects=` says of the name counts before it.

        Raises:
            DeclarationError: what is declared of it does not fit it.
        """
        with self._lock:  # a thread that asks `of` behind this has the declaration
            known = self._known.get(name)
            if known is not None and known.is_of(function, declared_on, effect):
                return known
            own, before = self._own(name, function, declared_on, effect)
            if known is None or own is not None or known.own is None:
                known = Learned(name, function, tuple(declared_on), effect, arguments, own, before)
                self._known[name] = known
            return known  # what stands in for a tool, and says nothing of itself, is that tool

    def _own(
        self, name: str, function: Callable[..., Any] | None, places: Sequence[object], effect: Declared | None
    ) -> tuple[Declaration | None, Declaration | None]:
        tools = self._host.tools
        before, said = tools.declared.get(name), self._effects.get(name, effect)
        own = None
        if said is not None:
            own = _made(name, said, function)
        elif before is None and (found := declared_at(function, *places)) is not None:
            own = replace(found, tool=name)
        self._refuse_to_gate(own or before)
        if own is not None:
            # Known by name from now on: recovery finds its handlers before the tool is called again.
            tools.learn(own)
        elif function is not None and self._settles:
            tools.know(name, function)  # it may be held, behind a gate
        return own, before

    def refuse_typos(self, names: Collection[str], owner: str) -> None:
        """Return when `effects=` names none of these tools wrongly; a name of a tool that is elsewhere is told once.

        Raises:
            DeclarationError: a name is almost that of a tool which `effects=` does not name; nothing was run.

        >>> Declarations(Settlement("memory:"), {"searches": "read"}).refuse_typos(["search"], "this agent")
        Traceback (most recent call last):
        settlemark...DeclarationError: effects= names 'searches', which is no tool of this agent: is 'search' meant? ...
        """
        unnamed = [name for name in names if name not in self._effects]
        for name in self._effects.keys() - set(names):
            close = get_close_matches(name, unnamed, 1, _ALIKE)
            if close:
                raise DeclarationError(
                    f"effects= names {name!r}, which is no tool of {owner}: is {close[0]!r} meant? its tools:"
                    f" {', '.join(names)}; nothing was run",
                    tool=name,
                )
            self._host.tell_once(
                f"effects of {name}",
                f"effects= names {name!r}, which is no tool of {owner}; its tools: {', '.join(names)}",
            )

    def of(self, tool: str | Learned) -> Declaration:
        """Return a tool's declaration, by its name or as it was learned; it is said once how to declare one without."""
        known = self._known.get(tool) if isinstance(tool, str) else tool
        name = tool if isinstance(tool, str) else tool.name
        found = self._host.tools.known(name) if known is None else self.said_of(known)
        if not self._settles:
            self._refuse_to_gate(found)
        if found is None:
            if known is not None:
                self._host.tell_once(f"undeclared {name}", self._advice(known))
            found = Declaration(name, EffectClass.OPAQUE)
        return found

    def said_of(self, known: Learned) -> Declaration | None:
        """Return what has been said of a tool, or None."""
        declared = self._host.tools.declared.get(known.name)
        if declared is not None and declared is not known.before:
            return declared
        return known.own or declared or self._host.tools.known(known.name, known.function)

    def _refuse_to_gate(self, found: Declaration | None) -> None:
        if found is not None and found.approve is not None and not self._settles:
            raise DeclarationError(
                f"{found.tool} needs a person's yes (approve=), which nobody without a settlement can ask for: pass"
                " settlement=Settlement(…)",
                tool=found.tool,
            )

    def _advice(self, tool: Learned) -> str:
        name = tool.name
        acts = _ACTS.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
        if not self._settles and not acts:
            return (
                f"{name} is undeclared, so it runs after the calls issued before it; if it only reads, say so, and it"
                f" runs beside them: {self._example.format(name=name)}"
            )
        first = next(iter(tool.arguments), None)
        scope = f"{name}:/{{{first}}}" if first else f"{name}:/all"
        held = f'settlement.declare("{name}", "irreversible", scope="{scope}") holds it until the turn has succeeded'
        undone = f'settlement.declare("{name}", "reversible", scope="{scope}", undo=…) undoes it'
        given = "" if self._settles else ", with settlement=Settlement(…) given"
        read = "" if acts else f'; if it only reads: settlement.declare("{name}", "read")'
        agent = "; if it only runs an agent whose calls settle, leave it as it is" if self._settles else ""
        lines = f"{held}, {undone}" if acts else f"{undone}, {held}"
        return (
            f"{name} is undeclared: it runs when it is called, and cannot be undone when another call of its turn"
            f" fails; declare it: {lines}{given}{read}{agent}"
        )


def _made(name: str, declared: Declared, function: Callable[..., Any] | None) -> Declaration:
    if isinstance(declared, Declaration):
        return replace(declared, tool=name)
    parts: dict[str, Any] = {"kind": declared} if isinstance(declared, str) else dict(declared)
    given: dict[str, Any] = {"function": function, **parts}
    return declare(name, given.pop("kind"), **given)


def declared_at(*places: object) -> Declaration | None:
    """Return what `@effect` has declared at the first of these places where it did, or None."""
    return next((found for found in map(declaration_of, places) if found is not None), None)


def _check(name: str, declared: Declared, names: Collection[str] | None, owner: str) -> None:
    if names is not None and name not in names:
        has = ", ".join(names) or "none"
        raise DeclarationError(f"effects= names {name!r}, which is no tool of {owner}; its tools: {has}", tool=name)
    if isinstance(declared, Mapping) and "kind" not in declared:
        raise DeclarationError(
            f'effects= of {name} has {", ".join(map(repr, declared)) or "nothing"} and no "kind": say'
            f' {{"{name}": {{"kind": "irreversible", "scope": …}}}}; the kinds are {", ".join(EffectClass)}',
            tool=name,
        )


def as_settled(known: Declaration, undoes: bool) -> Declaration:
    """Return what counts of a declaration; where nothing is undone that is whether it reads."""
    if undoes or known.kind is EffectClass.READ:
        return known
    return Declaration(known.tool, EffectClass.OPAQUE, known.scope)


__all__ = ["Declarations", "Declared", "Learned", "as_settled", "declared_at"]
