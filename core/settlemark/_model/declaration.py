"""What a tool does to the world: its class, its scope, and its undo, probe and release handlers.

A `Registry` finds the declaration for a recorded effect, by the tool's name (or a former name) and version.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, cast

from settlemark._approvals.terms import ANYONE, Approval
from settlemark._edges.errors import ScopeError, UsageError
from settlemark._edges.plain import plain
from settlemark._edges.user_code import through
from settlemark._edges.wording import message_of
from settlemark._model import json_text
from settlemark._model.budget import amount_of
from settlemark._model.effect_class import HELD_CLASSES, EffectClass
from settlemark._model.scope import Scope, ScopeTemplate

EXTRAS = frozenset({"result", "key"})
EVERY = "*"
"""In place of an argument's name: all of them, whatever they are called."""

Role = Literal["undo", "probe", "release"]
ROLES: tuple[Role, ...] = ("undo", "probe", "release")


@dataclass(frozen=True)
class Handler:
    """A function that undoes, probes or releases an effect; called with the arguments it asks for, by name.

    A handler may ask for the call's own arguments, for `result` (the call's result) and for `key`. A tool's argument
    that is called `result` or `key` takes precedence.
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

    @property
    def asks(self) -> tuple[frozenset[str], bool]:
        """The names that the handler asks for, and whether it takes any others, too."""
        return self._parameters[0], self._parameters[1]

    def takes(self, name: str) -> bool:
        """Whether the handler asks for this name."""
        return name in self._parameters[0]

    def required(self) -> tuple[str, ...]:
        """Return the names the handler cannot be called without, `result` and `key` excepted."""
        return tuple(name for name in self._parameters[2] if name not in EXTRAS)

    def bind(self, arguments: Mapping[str, Any], *, result: Any, key: str) -> dict[str, Any]:
        """Return the keyword arguments for a call of the handler."""
        named, takes_all, _ = self._parameters
        offered = {"result": result, "key": key, **arguments}
        return {name: value for name, value in offered.items() if name in named or (takes_all and name in arguments)}


@dataclass(frozen=True)
class Price:
    """What a call spends of a unit: an amount, an argument (or field of one, or of the result), or a function."""

    text: str
    amount: Decimal | None = None
    function: Handler | None = None

    def of(self, arguments: Mapping[str, Any], *, result: Any) -> Any:
        """Return the amount for these arguments and this result, unchecked.

        Raises:
            UsageError: the named argument or field is missing. Exception: what the function raised.
        """
        if self.amount is not None:
            return self.amount
        if self.function is not None:
            bound = self.function.bind(json_text.snapshot(dict(arguments)), result=result, key="")
            return through(self.function.function, **bound)
        found: Any = {"result": result, **arguments}
        for name in self.text[1:-1].split("."):
            try:
                found = cast("Mapping[str, Any]", found)[name] if isinstance(found, Mapping) else getattr(found, name)
            except (KeyError, AttributeError):
                raise UsageError(f"{self.text} names no amount: {name!r} is missing; nothing was run") from None
        return found


@dataclass(frozen=True)
class Declaration:
    """How one tool's effect is classed, named, undone, probed and released.

    Build one with `effect` (a decorator) or `Settlement.declare` (for tools you did not write).
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
    commutes: str | None = None
    versions: tuple[str, ...] = ()
    live: Handler | None = None
    valid_for: float | None = None
    approve: Handler | Literal[True] | None = None
    approval: Approval = ANYONE
    redact: tuple[str, ...] = ()
    spends: tuple[tuple[str, Price], ...] = ()
    spent: tuple[tuple[str, Price], ...] = ()
    expires: Price | None = None
    then: str | None = None
    own: bool = False  # what settlemark records for itself, and no call of a tool
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def signature(self) -> str:
        """What a plan relies on when it chooses the tool: class, scopes and version.

        >>> from settlemark._model.declare import declare
        >>> declare("send", "irreversible", scope="mail:/{to}").signature
        'irreversible mail:/{to} 1'
        """
        return " ".join([self.kind.value, *(template.text for template in self.templates), self.version])

    @cached_property
    def held(self) -> bool:
        """Whether the effect waits for the commit instead of running when it is called."""
        return self.kind in HELD_CLASSES

    @cached_property
    def undoable(self) -> bool:
        """Whether an abort can undo it and leave nothing behind."""
        return self.kind is EffectClass.REVERSIBLE and self.cost is None

    @cached_property
    def leaves_nothing(self) -> bool:
        """Whether an abort takes everything back, provided the undo works."""
        return self.undo is not None and self.cost is None

    @property
    def may_leave_again(self) -> bool:
        """Whether a release that raised is tried again: the key deduplicates it, or a probe tells whether it happened.

        Without key and probe, nobody knows whether the release acted before it raised, and an irreversible effect must
        not act twice.
        """
        return self.keyed or self.probe is not None

    @property
    def asks_by_key(self) -> bool:
        """Whether the probe looks the key up: once the counterparty has forgotten the key, "absent" proves nothing."""
        return self.probe is not None and self.probe.takes("key")

    @property
    def can_wait(self) -> bool:
        """Whether a call can wait for a person's yes in a transaction that is put aside: no other is asked later."""
        return self.kind is EffectClass.IRREVERSIBLE

    @property
    def templates(self) -> tuple[ScopeTemplate, ...]:
        """The templates of all its scopes; a `scope=` function has none."""
        own = (self.scope,) if isinstance(self.scope, ScopeTemplate) else ()
        return (*own, *self.may_touch)

    def scopes(self, arguments: Mapping[str, Any]) -> tuple[Scope, ...]:
        """Return the scopes that a call with these arguments touches; none when the tool declares none.

        Raises:
            ScopeError: an argument cannot be a scope's segment, or the `scope=` function refuses the arguments.
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
            raise ScopeError(f"scope={self.scope.name} of {self.tool} names no scope: return at least one", text="")
        return (*map(Scope.parse, found), *broad)

    def amounts(self, arguments: Mapping[str, Any]) -> dict[str, Decimal]:
        """Return how much a call with these arguments spends of each unit.

        Raises:
            UsageError: an amount is none: no number, not finite, negative, or too long.
        """
        return {
            unit: amount_of(price.of(arguments, result=None), f"what {self.tool} spends of {unit}")
            for unit, price in self.spends
        }

    def true_amounts(self, arguments: Mapping[str, Any], result: Any) -> dict[str, Decimal]:
        """Return how much a call with this result did spend, where `spent=` tells.

        Raises:
            UsageError: an amount is none. Exception: what a function of `spent=` raised.
        """
        return {
            unit: amount_of(price.of(arguments, result=result), f"what {self.tool} spent of {unit}")
            for unit, price in self.spent
        }

    def speaks_for(self, version: str) -> bool:
        """Whether these handlers may act for an effect of this version."""
        return version == self.version or version in self.versions

    def without_key(self) -> Declaration:
        """Return the declaration for a call sent before the tool was `keyed`: such a call is never sent again."""
        return replace(self, keyed=False) if self.keyed else self

    @cached_property
    def handlers(self) -> str:
        """The handlers' names by role, and what else of it stays so, as the JSON text recorded with each effect.

        `keyed` is recorded because a later declaration cannot make it safe to repeat a call that was sent without a
        key; `commutes` because who rewinds, or reads the record, need not know the tool.
        """
        roles = {"undo": self.undo, "probe": self.probe, "release": self.release}
        named = {role: handler.name for role, handler in roles.items() if handler is not None}
        keyed = {"keyed": True} if self.keyed else {}
        return json_text.encode(named | keyed | ({} if self.commutes is None else {"commutes": self.commutes}))

    @cached_property
    def needed(self) -> Mapping[Role, frozenset[str]]:
        """By handler: the tool's arguments that it may ask for after a crash; `EVERY` stands for unknown names.

        A held effect without a release needs all of them: the tool itself runs.
        """
        return {role: self._needed(role) for role in ROLES}

    def _needed(self, role: Role) -> frozenset[str]:
        handler: Handler | None = getattr(self, role)
        if handler is None:
            return self._taken() if role == "release" and self.held else frozenset()
        asked, takes_all = handler.asks
        if self.function is None:
            return frozenset({EVERY}) if takes_all else asked - EXTRAS
        tool = self._taken()
        if takes_all:
            return tool
        # A tool's argument called `result` or `key` takes precedence over the handler's own.
        return asked & tool | (asked - EXTRAS) if EVERY in tool else asked & tool

    def _taken(self) -> frozenset[str]:
        if self.function is None:
            return frozenset({EVERY})
        parameters = inspect.signature(self.function).parameters.values()
        names = frozenset(p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
        return names | {EVERY} if any(p.kind is p.VAR_KEYWORD for p in parameters) else names

    @cached_property
    def _signature(self) -> tuple[inspect.Signature | None, frozenset[str], frozenset[str], dict[str, Any]]:
        """The tool's signature; and if every argument has one name: all names, the required ones, the defaults."""
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
            raise TypeError(plain(f"{self.tool}() {error}")) from None
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
    """The declarations of a process, by name and version; of two equal ones the last counts.

    Laws: a name takes precedence over an alias. With a version given, only a declaration that speaks for that version
    is found: an effect is never undone, probed or released by another version's handlers.

    >>> from settlemark._model.declare import declare
    >>> registry = Registry()
    >>> registry.add(declare("wire", "opaque", version="2", versions="1", aliases="send_wire"))
    >>> [registry.find(tool, version) is not None for tool, version in (("send_wire", "1"), ("wire", "3"))]
    [True, False]
    """

    __slots__ = ("_known", "_lock")

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Declaration] = {}
        self._lock = threading.Lock()

    def add(self, declaration: Declaration) -> None:
        """Add a declaration."""
        about = (declaration.tool, declaration.version)
        with self._lock:
            known = self._known.copy()  # replaced whole: others walk it, and find the earlier one until this is there
            known.pop(about, None)  # so that the last one declared comes last
            known[about] = declaration
            self._known = known

    def find(self, tool: str, version: str | None = None) -> Declaration | None:
        """Return the newest declaration for a tool's name, or former name, and version; or None."""
        known = self._known
        if version is not None and (exact := known.get((tool, version))) is not None:
            return exact
        renamed = None
        for declaration in reversed(known.values()):
            if version is not None and not declaration.speaks_for(version):
                continue
            if declaration.tool == tool:
                return declaration
            if renamed is None and tool in declaration.aliases:
                renamed = declaration
        return renamed
