"""What a tool does to the world: its class, its scope, and how to undo, probe or release it.

A `Declaration` says this once per tool; an `Effect` is one call's side effect under it.
Sources: Atomix §2.3 (taxonomy), Gray 1978; the six classes are those of the design's table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from settlemark import _codec
from settlemark._disposition import NOTHING, Disposed, Disposition
from settlemark._door import is_lazy_function, through
from settlemark._errors import DeclarationError, ScopeError
from settlemark._fields import field_path
from settlemark._leaving import Leaves
from settlemark._registry import Registry
from settlemark._scope import Scope, ScopeTemplate
from settlemark._states import Tag
from settlemark._text import TOOL, VERSION, brief, identity, prose
from settlemark._wording import message_of

if TYPE_CHECKING:
    from settlemark._txn import Call


class EffectClass(StrEnum):
    """When an effect runs, and how it can be undone."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    REVERSIBLE = "reversible"
    STAGED = "staged"
    IRREVERSIBLE = "irreversible"
    OPAQUE = "opaque"


EffectName = Literal["read", "idempotent", "reversible", "staged", "irreversible", "opaque"]
HELD_CLASSES = frozenset({EffectClass.STAGED, EffectClass.IRREVERSIBLE})
UNKNOWN = object()
"""What a probe returns when it cannot tell; `None` means the effect is absent."""

_F = TypeVar("_F", bound=Callable[..., Any])
_ATTRIBUTE = "__settlemark_declaration__"
_EXTRAS = frozenset({"result", "key"})
_declared = Registry()


class Outcome(StrEnum):
    """What is known of an effect: it goes from intended or queued to one of the others.

    `suspended`: its framework stopped it (to ask a person, say) before it acted; it runs again.
    """

    INTENDED = "intended"
    SUSPENDED = "suspended"
    QUEUED = "queued"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNDONE = "undone"
    DROPPED = "dropped"


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
        return tuple(name for name in self._parameters[2] if name not in _EXTRAS)

    def bind(self, arguments: Mapping[str, Any], *, result: Any, key: str) -> dict[str, Any]:
        """Return the keyword arguments to call it with."""
        named, takes_all, _ = self._parameters
        offered = {"result": result, "key": key, **arguments}
        return {name: value for name, value in offered.items() if name in named or (takes_all and name in arguments)}


def inverse(function: Callable[..., Any], **fields: str) -> Callable[..., Any]:
    """Return a handler that calls `function` with fields of the effect's result as its arguments.

    Each keyword names an argument of `function` and the field of the result (a mapping) it takes:

    >>> def cancel(id): return f"cancelled {id}"
    >>> inverse(cancel, id="confirmation")(result={"confirmation": "R7"})
    'cancelled R7'

    Raises:
        DeclarationError: `function` is none.
    """
    if not callable(function):
        raise DeclarationError(
            f"inverse() was given a {type(function).__name__}, which cannot be called: pass the function that it wraps",
            tool=str(getattr(function, "name", function)),
        )

    def handler(*, result: Mapping[str, Any]) -> Any:
        return function(**{argument: result[name] for argument, name in fields.items()})

    async def async_handler(*, result: Mapping[str, Any]) -> Any:
        return await function(**{argument: result[name] for argument, name in fields.items()})

    chosen = async_handler if inspect.iscoroutinefunction(function) else handler
    chosen.__name__ = chosen.__qualname__ = getattr(function, "__name__", "inverse")
    chosen.__module__ = getattr(function, "__module__", __name__)
    return chosen


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
            bound = self.scope.bind(_codec.snapshot(dict(arguments)), result=None, key="")
            named = through(self.scope.function, **bound)
        except Exception as error:
            raise ScopeError(f"{self.tool}: {message_of(error)}", text=_codec.encode_result(dict(arguments))) from error
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
        return _codec.encode({**named, "keyed": True} if self.keyed else named)

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


@dataclass(frozen=True, slots=True)
class Frozen:
    """A call of a tool with the arguments that it had when it was issued: each try has a copy of its own."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def fresh(self) -> Callable[[], Any]:
        """Return what makes the call, once."""
        return partial(self.function, *_codec.snapshot(self.args), **_codec.snapshot(dict(self.kwargs)))

    def __call__(self) -> Any:
        """Make the call."""
        return self.fresh()()


@dataclass(slots=True, eq=False)
class Effect:
    """One tool call's side effect: what was asked, under which key, and what became of it.

    `run` calls the tool; `pack` turns its result into plain data and `unpack` turns that back, for
    tools whose results are objects of a framework. `given` are the arguments as the tool gets them,
    where a framework makes them of the recorded ones. `stored` says that `result` still is that JSON.
    `path` names its decision in its transaction, `position` is only its number in the record.
    `ask` puts a `Gate` before a person, as the framework of the call does that, and `remake` returns its likeness
    with other arguments.
    `at` is since when its counterparty may know its key (seconds since 1970); `missing` is what would have
    to be declared here to undo it or to ask about it; `withheld` says by role which handlers must not run,
    since the record has not what they need. `packed` are its arguments and rationale as they are recorded,
    where that is not as they are; `unread` is a result that could not be read, and its recorded text. `bound` is how
    many changes of tools there had been when this call was planned; None: it calls no tool that anybody
    registers. `turned` says that it was issued as one of several, in an order, and `leaves` what is asked of its place
    among the held ones (`Leaves`). `sender` is who may still be sending it, or undoing it, for all that this process
    knows: a worker that was buried meanwhile. `keyless` says that its tool was not `keyed` when it was recorded, and
    `unsigned` that it had no probe either, so that it may have been sent without its key. `called` is how often its
    tool was called, at least once by an earlier process, and `came` in which of the times that its transaction was
    entered it was issued first. `kept` is what it returned, as plain data that nobody else has.
    """

    declaration: Declaration
    scopes: tuple[Scope, ...]
    arguments: Mapping[str, Any]
    run: Callable[[], Any]
    call_id: str | None = None
    rationale: str | None = None
    given: Mapping[str, Any] | None = None
    pack: Callable[[Any], Any] | None = None
    unpack: Callable[[Any], Any] | None = None
    ask: Callable[[Any], Any] | None = None
    remake: Callable[[Effect, Mapping[str, Any]], Effect] | None = None
    key: str = ""
    payload: str = "{}"
    position: int = 0
    path: tuple[int, ...] = ()
    held: bool = False
    calls: list[Call] = field(default_factory=list["Call"])
    outcome: Outcome = Outcome.INTENDED
    result: Any = None
    stored: bool = False
    error: str | None = None
    tag: Tag | None = None
    disposed: Disposed = NOTHING
    at: float = 0.0
    missing: str | None = None
    fingerprint: str = ""
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])
    packed: tuple[str, str | None] | None = None
    unread: tuple[Any, str] | None = None
    bound: int | None = None
    turned: bool = False
    leaves: int = 0
    sender: str | None = None
    keyless: bool = False
    unsigned: bool = False
    called: int = 0
    came: int = 0
    kept: tuple[Any] | None = None

    def __post_init__(self) -> None:
        """Have it leave last if it cannot be undone."""
        if self.declaration.kind is EffectClass.IRREVERSIBLE:
            self.leaves |= Leaves.LAST

    def doubt(self) -> None:
        """Have it that it may have been sent, as what it was declared to be when it was recorded."""
        self.outcome = Outcome.UNKNOWN
        if self.keyless:
            self.declaration = self.declaration.without_key()

    @property
    def executed(self) -> bool:
        """Whether it has, or may have, happened at the counterparty."""
        return self.outcome in (Outcome.CONFIRMED, Outcome.UNKNOWN)

    @property
    def disposition(self) -> Disposition | None:
        """What is decided about it, where its outcome does not tell."""
        return self.disposed.disposition

    def for_handlers(self) -> Mapping[str, Any]:
        """Return the arguments as the tool got them, when they differ from the recorded ones; nobody else has these."""
        found: Mapping[str, Any] = _codec.snapshot(dict(self.arguments if self.given is None else self.given))
        return found

    def shown(self) -> dict[str, Any]:
        """Return the recorded arguments, for whoever is asked or told: what is done to them changes no others."""
        found: dict[str, Any] = _codec.snapshot(dict(self.arguments))
        return found

    def happened(self, result: Any) -> None:
        """Note that it happened, and what came of it: its caller may change that, and no handler sees it."""
        self.outcome, self.result, self.error, self.stored = Outcome.CONFIRMED, result, None, False
        self.kept = None
        try:
            self.kept = (_codec.snapshot(self.plain_result()),)
        except BaseException:  # what cannot be told is told of when it is recorded
            return

    def plain_result(self) -> Any:
        """Return its result as plain data: what handlers are given, and the ledger keeps."""
        if self.kept is not None:
            return _codec.snapshot(self.kept[0])
        if self.pack is None or self.stored or self.result is None:
            return self.result
        return self.pack(self.result)

    def confirm(self, found: Any) -> None:
        """Note that the counterparty knows it, with this result, as plain data."""
        self.outcome = Outcome.CONFIRMED
        self.stored = self.unpack is None
        self.kept = (_codec.snapshot(found),)
        self.result = found if self.unpack is None else self.unpack(found)

    @property
    def scope_text(self) -> str:
        """Its scopes as one text, for people and records."""
        return " ".join(scope.text for scope in self.scopes)


def _handler(role: str, function: Callable[..., Any] | None, tool: str, names: frozenset[str] | None) -> Handler | None:
    if function is None:
        return None
    if not callable(function):
        raise DeclarationError(f"{role}= of {tool} is {function!r}: pass a function", tool=tool)
    if role != "scope":  # which may tell several, one after the other
        _refuse_lazy(f"{role}= of {tool}", function, tool)
    name = prose(f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}", 1_000)
    handler = Handler(function, name)
    _check_callable_by_name(role, handler, tool)
    missing = [] if names is None else [n for n in handler.required() if n not in names]
    if missing:
        raise DeclarationError(
            f"{role}={name} of {tool} asks for {', '.join(map(repr, missing))}, which {tool} does not take:"
            " name one of its arguments, `result` or `key`, or map a field of the result with inverse()",
            tool=tool,
        )
    return handler


def _refuse_lazy(what: str, function: Callable[..., Any], tool: str) -> None:
    if is_lazy_function(function):
        raise DeclarationError(
            f"{what} is a generator, and calling it does nothing: let it do its work, and return what came of it",
            tool=tool,
        )


def _check_callable_by_name(role: str, handler: Handler, tool: str) -> None:
    try:
        parameters = inspect.signature(handler.function).parameters.values()
    except (ValueError, TypeError):  # some builtins have none
        raise DeclarationError(
            f"{role}={handler.name} of {tool} does not tell its arguments: wrap it in a function", tool=tool
        ) from None
    unnamed = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]
    if unnamed:
        raise DeclarationError(
            f"{role}={handler.name} of {tool} takes {', '.join(map(repr, unnamed))} by position only:"
            " handlers are called by name: wrap it in a function",
            tool=tool,
        )


def declare(  # noqa: PLR0913 - one keyword for each thing a declaration can say
    tool: str,
    kind: EffectName | EffectClass,
    *,
    scope: str | Callable[..., str | Scope | Iterable[str | Scope]] | None = None,
    undo: Callable[..., Any] | None = None,
    probe: Callable[..., Any] | None = None,
    release: Callable[..., Any] | None = None,
    check: Callable[..., Any] | None = None,
    cost: str | None = None,
    keyed: bool | None = None,
    may_touch: tuple[str, ...] | str = (),
    refine: Callable[..., Any] | None = None,
    version: str = "1",
    unknown: tuple[type[BaseException], ...] = (),
    window: float | None = None,
    aliases: tuple[str, ...] | str = (),
    versions: tuple[str, ...] | str = (),
    live: Callable[..., Any] | None = None,
    valid_for: float | None = None,
    approve: bool | Callable[..., Any] = False,
    redact: tuple[str, ...] | str = (),
    function: Callable[..., Any] | None = None,
) -> Declaration:
    """Return a checked declaration; see `effect` for what each argument means.

    Raises:
        DeclarationError: the class is unknown, or the parts contradict each other.
        ScopeError: a template is malformed.
    """
    try:
        chosen = EffectClass(kind)
    except ValueError:
        classes = ", ".join(EffectClass)
        raise DeclarationError(f"{tool} is declared {kind!r}: choose one of {classes}", tool=tool) from None
    tool = identity(tool, "a tool's name", TOOL, error=DeclarationError, tool=brief(tool))
    known = {"version": (version,), "aliases": aliases, "versions": versions}
    for part, texts in known.items():
        for text in (texts,) if isinstance(texts, str) else texts:
            most = TOOL if part == "aliases" else VERSION
            identity(text, f"{part}= of {tool}", most, error=DeclarationError, tool=tool)
    if function is not None:
        _refuse_lazy(tool, function, tool)
    names = _argument_names(function)
    broad = tuple(ScopeTemplate.parse(text) for text in ([may_touch] if isinstance(may_touch, str) else may_touch))
    declaration = Declaration(
        tool=tool,
        kind=chosen,
        scope=_addressed(scope, tool, names),
        undo=_handler("undo", undo, tool, names),
        probe=_handler("probe", probe, tool, names),
        release=_handler("release", release, tool, names),
        check=_before("check", check, tool, names),
        cost=None if cost is None else prose(cost),
        keyed=chosen is EffectClass.IDEMPOTENT if keyed is None else keyed,
        may_touch=broad,
        refine=refine,
        version=version,
        unknown=unknown,
        window=window,
        aliases=(aliases,) if isinstance(aliases, str) else tuple(aliases),
        versions=(versions,) if isinstance(versions, str) else tuple(versions),
        live=_handler("live", live, tool, names),
        valid_for=valid_for,
        approve=_approval(approve, tool, names),
        redact=(redact,) if isinstance(redact, str) else tuple(redact),
        function=function,
    )
    _check(declaration, names)
    return declaration


def _approval(
    approve: bool | Callable[..., Any], tool: str, names: frozenset[str] | None
) -> Handler | Literal[True] | None:
    if isinstance(approve, bool):
        return True if approve else None
    return _before("approve", approve, tool, names)


def _addressed(
    scope: str | Callable[..., Any] | None, tool: str, names: frozenset[str] | None
) -> ScopeTemplate | Handler | None:
    if scope is None:
        return None
    if not callable(scope):
        return ScopeTemplate.parse(scope)
    if inspect.iscoroutinefunction(scope):
        raise DeclarationError(
            f"scope= of {tool} is async: it is asked where nothing can be waited for; name the scopes from the"
            " arguments alone, and look at the world in check=",
            tool=tool,
        )
    return _before("scope", scope, tool, names)


def _before(role: str, function: Callable[..., Any] | None, tool: str, names: frozenset[str] | None) -> Handler | None:
    handler = _handler(role, function, tool, names)
    early = [name for name in sorted(_EXTRAS) if handler is not None and handler.takes(name)]
    if early and not set(early) <= (names or frozenset()):
        raise DeclarationError(
            f"{role}= of {tool} asks for {', '.join(map(repr, early))}, which {tool} does not take: it is asked before"
            " the call has either; name arguments of the tool",
            tool=tool,
        )
    return handler


def _argument_names(function: Callable[..., Any] | None) -> frozenset[str] | None:
    if function is None:
        return None
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


def _check(declaration: Declaration, names: frozenset[str] | None) -> None:
    kind, tool = declaration.kind, declaration.tool
    if declaration.scope is None and not declaration.may_touch and kind not in (EffectClass.READ, EffectClass.OPAQUE):
        raise DeclarationError(
            f'{tool} is {kind} but names no scope: say which resource it acts on, as in scope="mail:/{{to}}"',
            tool=tool,
        )
    if kind is EffectClass.REVERSIBLE and declaration.undo is None:
        raise DeclarationError(
            f"{tool} is reversible but has no undo: give undo=, or declare it irreversible so that it is held",
            tool=tool,
        )
    if declaration.undo is not None and kind not in (EffectClass.REVERSIBLE, EffectClass.IDEMPOTENT):
        raise DeclarationError(
            f"{tool} is {kind}, which is never undone: drop undo=, or declare it reversible", tool=tool
        )
    if declaration.release is not None and not declaration.held:
        raise DeclarationError(f"{tool} is {kind}, which is never held: drop release=", tool=tool)
    if declaration.cost is not None and kind is not EffectClass.REVERSIBLE:
        raise DeclarationError(f"{tool} is {kind}: cost= says what undoing a reversible effect leaves", tool=tool)
    if declaration.window is not None and not _is_duration(declaration.window):
        raise DeclarationError(
            f"window={declaration.window!r} of {tool}: give the seconds for which its counterparty remembers a key,"
            " or leave it out when it never forgets one",
            tool=tool,
        )
    if declaration.approve is not None and kind in (EffectClass.READ, EffectClass.STAGED):
        why = "there is nothing to approve" if kind is EffectClass.READ else "it is its step's own until that settles"
        raise DeclarationError(
            f"{tool} is {kind}, so {why}: drop approve=, or declare it irreversible so that it waits for a yes",
            tool=tool,
        )
    _check_freshness(declaration)
    for field_named in declaration.redact:
        field_path(field_named)
    for template in declaration.templates:
        unknown = [name for name in template.fields if names is not None and name.split(".")[0] not in names]
        if unknown:
            raise DeclarationError(
                f"the scope of {tool} uses {', '.join(map(repr, unknown))}, which it does not take:"
                f" its arguments are {', '.join(sorted(names or ()))}",
                tool=tool,
            )


def _check_freshness(declaration: Declaration) -> None:
    kind, tool = declaration.kind, declaration.tool
    if declaration.live is None and declaration.valid_for is None:
        return
    if kind is not EffectClass.READ:
        raise DeclarationError(f"{tool} is {kind}: live= and valid_for= say how long a read holds", tool=tool)
    if declaration.scope is None and not declaration.may_touch:
        raise DeclarationError(
            f'{tool} is to be looked at again but names no scope: say what it reads, as in scope="price:/{{item}}"',
            tool=tool,
        )
    if declaration.valid_for is not None and not _is_duration(declaration.valid_for):
        raise DeclarationError(
            f"valid_for={declaration.valid_for!r} of {tool}: give the seconds for which its answer may be acted on",
            tool=tool,
        )


def _is_duration(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0


def effect(  # noqa: PLR0913 - one keyword for each thing a declaration can say
    kind: EffectName | EffectClass,
    *,
    scope: str | Callable[..., str | Scope | Iterable[str | Scope]] | None = None,
    undo: Callable[..., Any] | None = None,
    probe: Callable[..., Any] | None = None,
    release: Callable[..., Any] | None = None,
    check: Callable[..., Any] | None = None,
    cost: str | None = None,
    keyed: bool | None = None,
    may_touch: tuple[str, ...] | str = (),
    refine: Callable[..., Any] | None = None,
    name: str | None = None,
    version: str = "1",
    unknown: tuple[type[BaseException], ...] = (),
    window: float | None = None,
    aliases: tuple[str, ...] | str = (),
    versions: tuple[str, ...] | str = (),
    live: Callable[..., Any] | None = None,
    valid_for: float | None = None,
    approve: bool | Callable[..., Any] = False,
    redact: tuple[str, ...] | str = (),
) -> Callable[[_F], _F]:
    """Return a decorator that declares what a tool does to the world; the tool itself is unchanged.

    Args:
        kind: `read`, `idempotent`, `reversible`, `staged`, `irreversible` or `opaque`.
        scope: the resource it acts on, a template over its arguments: `"room:/{hotel}/{date}"`; or a function that
            is given the arguments it asks for and returns a scope's text, or several. What it raises refuses the call.
        undo: for `reversible`: called on abort with the arguments, `result` and `key` it asks for.
        probe: asks the counterparty whether the effect happened: its result, `None` for absent,
            or `settlemark.UNKNOWN`.
        release: for held effects: runs at commit in the tool's place.
        check: called with the arguments it asks for before the call is recorded, not for a call that is replayed,
            and with those that a person gives in their place. What it raises is the call's failure, and nothing was
            done: a held effect is refused here and not when it is to leave.
        cost: what an undo leaves behind (a fee), so that it is named and not called clean.
        keyed: the tool sends `current_call().key` to a counterparty that answers a repeat with the
            first outcome, so re-issuing is safe. True by default for `idempotent`.
        may_touch: broader scopes to hold until `refine` says which were meant.
        refine: called with the result, returns the scope (or scopes) really touched.
        name: the tool's name in the ledger; the function's by default.
        version: the handlers' version, stored beside each effect: after a restart it is undone, asked about
            and released by handlers of its own version, never by another's.
        unknown: exception types that leave the outcome unknown, beside timeouts and lost connections.
        window: seconds for which the counterparty remembers a key; for good when left out. Past it a call is
            never sent again, and a probe that looks for the `key` and finds nothing proves nothing.
        aliases: names that the tool had before: effects recorded under them are its own.
        versions: earlier versions whose effects these handlers also speak for.
        live: for `read`: returns an ETag or digest of what it reads, from the arguments it asks for. It is called
            before the read, and again before anything settles on it: `Stale` when it differs.
        valid_for: for `read`: seconds after which nothing settles on it any more.
        approve: True, or a function of arguments of the tool that returns whether: it waits for a person's yes, who
            may also give it other arguments. A framework asks in its own way, as LangGraph does with `interrupt`; in
            plain code `approver=` is asked, and without one an irreversible effect waits for `Settlement.answer`.
        redact: fields of its arguments or result that are never recorded nor logged, as dotted paths ("card.number").

    Raises:
        DeclarationError: the class is unknown, or the parts contradict each other.

    >>> @effect("irreversible", scope="mail:/{to}")
    ... def send_mail(to: str, body: str) -> None: ...
    >>> declaration_of(send_mail).kind.value
    'irreversible'
    """
    if callable(kind):
        raise DeclarationError(
            f"@effect stands bare on {getattr(kind, '__name__', kind)}: say what it does,"
            ' as in @effect("irreversible", scope="mail:/{to}")',
            tool=str(getattr(kind, "__name__", kind)),
        )

    def decorate(function: _F) -> _F:
        if not callable(function):
            raise _misplaced(function)
        tool = name or named_by(function)
        declaration = declare(
            tool, kind, scope=scope, undo=undo, probe=probe, release=release, check=check, cost=cost, keyed=keyed,
            may_touch=may_touch, refine=refine, version=version, unknown=unknown, window=window, aliases=aliases,
            versions=versions, live=live, valid_for=valid_for, approve=approve, redact=redact, function=function,
        )  # fmt: skip
        try:
            bear(function, declaration)
        except (AttributeError, ValueError):
            raise _misplaced(function) from None
        _declared.add(declaration)
        return function

    return decorate


def named_by(function: object) -> str:
    """Return what a tool is called by default: its name, or how it looks, which may be long."""
    own: object = getattr(function, "__name__", None)
    return own if isinstance(own, str) else prose(repr(function), TOOL.characters)


def _misplaced(function: object) -> DeclarationError:
    tool = str(getattr(function, "name", None) or function)
    return DeclarationError(
        f"{tool} is a {type(function).__name__}, which takes no declaration: put @effect beneath its decorator, on the"
        " function itself",
        tool=tool,
    )


def declared_as(tool: str, version: str | None = None) -> Declaration | None:
    """Return what this process declared, with `effect`, of a tool, by its name or a former one; see `Registry`."""
    return _declared.find(tool, version)


def bear(function: object, declaration: Declaration) -> None:
    """Leave a declaration on a function, where `declaration_of` finds it; no other process will know it by its name.

    Raises:
        AttributeError, ValueError: it takes no attributes.
    """
    setattr(function, _ATTRIBUTE, declaration)


def declaration_of(function: object) -> Declaration | None:
    """Return what `effect` declared of a function (or a bound method), or None.

    >>> declaration_of(print) is None
    True
    """
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else None
