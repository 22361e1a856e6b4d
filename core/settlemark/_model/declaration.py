"""What a tool does to the world: its class, its scope, and how to undo, probe or release it.

A `Registry` knows which declaration speaks for a recorded effect, by the tool's name, or a former one, and version.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from settlemark._edges.door import through
from settlemark._edges.errors import ScopeError
from settlemark._edges.wording import message_of
from settlemark._model import json_text
from settlemark._model.effect_class import HELD_CLASSES, EffectClass
from settlemark._model.scope import Scope, ScopeTemplate

EXTRAS = frozenset({"result", "key"})


@dataclass(frozen=True)
class Handler:
    """A function that undoes, probes or releases an effect, called with what it asks for by name.

    It may ask for the call's own arguments, for `result` (what the call returned) and for `key`;
    an argument of the tool that has one of these two names goes before.
    """

    function: Callable[..., Any]
    name: str

    @cached_property
    def _parameters(self) -> tuple[frozenset[str], bool, tuple[str, ...]]:
        parameters = inspect.signature(self.function).parameters.values()
        named = frozenset(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        required = tuple(p.name for p in parameters if p.name in named and p.default is p.empty)
        return named, takes_all, required

    def takes(self, name: str) -> bool:
        """Whether it asks for this name."""
        return name in self._parameters[0]

    def required(self) -> tuple[str, ...]:
        """Return the names it cannot be called without, `result` and `key` apart."""
        return tuple(name for name in self._parameters[2] if name not in EXTRAS)

    def bind(self, arguments: Mapping[str, Any], *, result: Any, key: str) -> dict[str, Any]:
        """Return the keyword arguments to call it with."""
        named, takes_all, _ = self._parameters
        offered = {"result": result, "key": key, **arguments}
        return {name: value for name, value in offered.items() if name in named or (takes_all and name in arguments)}


@dataclass(frozen=True)
class Declaration:
    """How one tool's effect is classed, named, undone, probed and released.

    Build it with `effect` (as a decorator) or `Settlement.declare` (for tools of others).
    """

    tool: str
    kind: EffectClass
    scope: ScopeTemplate | Handler | None = None
    undo: Handler | None = None
    probe: Handler | None = None
    release: Handler | None = None
    check: Handler | None = None
    cost: str | None = None
    keyed: bool = False
    may_touch: tuple[ScopeTemplate, ...] = ()
    refine: Callable[..., Any] | None = None
    version: str = "1"
    unknown: tuple[type[BaseException], ...] = ()
    window: float | None = None
    aliases: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    live: Handler | None = None
    valid_for: float | None = None
    approve: Handler | Literal[True] | None = None
    redact: tuple[str, ...] = ()
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def signature(self) -> str:
        """What a plan counts on when it chooses the tool: its class, its scopes and its version.

        >>> from settlemark._model.declare import declare
        >>> declare("send", "irreversible", scope="mail:/{to}").signature
        'irreversible mail:/{to} 1'
        """
        return " ".join([self.kind.value, *(template.text for template in self.templates), self.version])

    @property
    def held(self) -> bool:
        """Whether the effect waits for the commit instead of running when it is called."""
        return self.kind in HELD_CLASSES

    @property
    def undoable(self) -> bool:
        """Whether an abort can undo it and leave nothing behind."""
        return self.kind is EffectClass.REVERSIBLE and self.cost is None

    @property
    def leaves_nothing(self) -> bool:
        """Whether an abort takes back all of it, as long as its undo works."""
        return self.undo is not None and self.cost is None

    @property
    def may_leave_again(self) -> bool:
        """Whether a release that raised is tried again: it goes under its key, or a probe tells whether it happened.

        Of another nobody knows whether it acted before it raised, and what cannot be undone must not act twice.
        """
        return self.keyed or self.probe is not None

    @property
    def asks_by_key(self) -> bool:
        """Whether its probe looks for the key: where that is forgotten, finding nothing proves nothing."""
        return self.probe is not None and self.probe.takes("key")

    @property
    def templates(self) -> tuple[ScopeTemplate, ...]:
        """The templates of all its scopes, so far as it has such."""
        own = (self.scope,) if isinstance(self.scope, ScopeTemplate) else ()
        return (*own, *self.may_touch)

    def scopes(self, arguments: Mapping[str, Any]) -> tuple[Scope, ...]:
        """Return the scopes that a call with these arguments touches; none when it declares none.

        Raises:
            ScopeError: an argument cannot be a scope's segment, or its `scope=` function refuses the arguments.
        """
        broad = tuple(template.fill(arguments) for template in self.may_touch)
        if self.scope is None:
            return broad
        if isinstance(self.scope, ScopeTemplate):
            return (self.scope.fill(arguments), *broad)
        try:
            bound = self.scope.bind(json_text.snapshot(dict(arguments)), result=None, key="")
            named = through(self.scope.function, **bound)
        except Exception as error:
            raise ScopeError(
                f"{self.tool}: {message_of(error)}", text=json_text.encode_result(dict(arguments))
            ) from error
        found = (named,) if isinstance(named, str | Scope) else tuple(named)
        if not found:
            raise ScopeError(f"scope={self.scope.name} of {self.tool} names no scope: return one at least", text="")
        return (*map(Scope.parse, found), *broad)

    def speaks_for(self, version: str) -> bool:
        """Whether its handlers may act for an effect of this version."""
        return version == self.version or version in self.versions

    def without_key(self) -> Declaration:
        """Return what it says of a call that was sent when the tool was not `keyed` yet: that is never sent again."""
        return replace(self, keyed=False) if self.keyed else self

    @cached_property
    def handlers(self) -> str:
        """Its handlers' names by role, as the JSON text that the ledger keeps beside each effect.

        And whether its counterparty is sent a key: of a call that was sent without one a later declaration cannot say
        that it may be sent again.
        """
        roles = {"undo": self.undo, "probe": self.probe, "release": self.release}
        named = {role: handler.name for role, handler in roles.items() if handler is not None}
        return json_text.encode({**named, "keyed": True} if self.keyed else named)

    @cached_property
    def _signature(self) -> tuple[inspect.Signature | None, frozenset[str], frozenset[str], dict[str, Any]]:
        """The tool's signature; and when every argument has one name: the names, the required ones, the defaults."""
        if self.function is None:
            return None, frozenset(), frozenset(), {}
        signature = inspect.signature(self.function)
        parameters = signature.parameters.values()
        if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
            return signature, frozenset(), frozenset(), {}
        names = frozenset(p.name for p in parameters)
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        return signature, names, names - defaults.keys(), defaults

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the call's arguments by name, defaults included.

        Raises:
            TypeError: as the function itself would, before anything runs.
        """
        signature, names, required, defaults = self._signature
        if signature is None:
            return dict(kwargs)
        if not args and names and required <= kwargs.keys() <= names:
            return {**defaults, **kwargs}
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.tool}() {error}") from None
        bound.apply_defaults()
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            elif kind is not inspect.Parameter.VAR_POSITIONAL or value:
                named[name] = value
        return named


class Registry:
    """What was declared, by name and version; of two that say the same of themselves the last one counts.

    Laws: a name goes before an alias. With a version given, nothing is found that does not speak for that
    version: an effect is never undone, asked about or released by the handlers of another one.

    >>> from settlemark._model.declare import declare
    >>> registry = Registry()
    >>> registry.add(declare("wire", "opaque", version="2", versions="1", aliases="send_wire"))
    >>> [registry.find(tool, version) is not None for tool, version in (("send_wire", "1"), ("wire", "3"))]
    [True, False]
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Declaration] = {}

    def add(self, declaration: Declaration) -> None:
        """Take a declaration in."""
        about = (declaration.tool, declaration.version)
        self._known.pop(about, None)  # so that the last one declared stands last
        self._known[about] = declaration

    def find(self, tool: str, version: str | None = None) -> Declaration | None:
        """Return what was declared last of a tool, or of one that was called so, for this version; or None."""
        if version is not None and (exact := self._known.get((tool, version))) is not None:
            return exact
        renamed = None
        for declaration in reversed(self._known.values()):
            if version is not None and not declaration.speaks_for(version):
                continue
            if declaration.tool == tool:
                return declaration
            if renamed is None and tool in declaration.aliases:
                renamed = declaration
        return renamed
