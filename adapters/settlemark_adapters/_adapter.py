"""The base of every adapter: the operations of one counterparty, each declared above its method.

An adapter's author writes one method for each operation, and declares above it what it does to the world; `operation`
and `Adapter` turn that into a tool for any framework, a declaration for a user's own function, and a plain call.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

from settlemark import Approval, CurrentCall, Declaration, DeclarationError, EffectClass, Settlement, current_call
from settlemark.hosting import HELD_CLASSES, EffectName, Handler, bear, declaration_of, declare, host_of

P = ParamSpec("P")
R = TypeVar("R")

_bare: ContextVar[tuple[CurrentCall | None, str] | None] = ContextVar("settlemark_adapters_bare", default=None)
"""The key of a running call without a transaction, and the call that it is a part of, if any."""
_FIELD = re.compile(r"\{(\w+)")
_UNDOABLE = frozenset({EffectClass.REVERSIBLE, EffectClass.IDEMPOTENT})


class Parts(TypedDict, total=False):
    """The parts of an operation's declaration beside its class: those of `settlemark.effect`, and `around`.

    A handler is a method of the adapter; it asks for the operation's arguments, `result` and `key` by name. `around`
    returns a context manager that the operation runs in, and so does a user's own function under this declaration: it
    keeps, before the act, what an undo will need.
    """

    scope: str | Callable[..., Any]
    undo: Callable[..., Any]
    probe: Callable[..., Any]
    release: Callable[..., Any]
    check: Callable[..., Any]
    around: Callable[..., AbstractContextManager[Any]]
    cost: str
    keyed: bool
    may_touch: tuple[str, ...]
    refine: Callable[..., Any]
    version: str
    unknown: tuple[type[BaseException], ...]
    window: float
    aliases: tuple[str, ...]
    commutes: str
    live: Callable[..., Any]
    valid_for: float
    approve: bool | Callable[..., Any] | Approval
    redact: tuple[str, ...]


class Operation(Generic[P, R]):
    """A declared method; on an instance of its adapter it is the tool itself. Made by `operation`."""

    def __init__(self, tool: str, kind: EffectName, parts: Parts, method: Callable[..., R]) -> None:
        self.tool = tool
        if kind not in set(EffectClass):
            raise DeclarationError(f"{tool} is declared {kind!r}: choose one of {', '.join(EffectClass)}", tool=tool)
        self.kind = EffectClass(kind)
        self.parts = parts
        self.method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, adapter: None, owner: type) -> Self: ...
    @overload
    def __get__(self, adapter: Adapter, owner: type) -> Callable[P, R]: ...
    def __get__(self, adapter: Adapter | None, owner: type) -> Self | Callable[P, R]:
        return self if adapter is None else adapter.tool(self.tool)


def operation(
    tool: str, kind: EffectName, **parts: Unpack[Parts]
) -> Callable[[Callable[Concatenate[Any, P], R]], Operation[P, R]]:
    """Return a decorator that declares a method of an `Adapter` as one of its tools.

    Args:
        tool: the tool's name, as a model sees it.
        kind: its effect class, unless `effects=` of the adapter gives another.
        parts: as in `settlemark.effect`, and `around`. Handlers that its class does not use (the undo of a staged one)
            are ignored, so an operation may declare all it has.
    """

    def decorate(method: Callable[Concatenate[Any, P], R]) -> Operation[P, R]:
        return Operation(tool, kind, parts, method)

    return decorate


class Adapter:
    """The tools of one counterparty. Subclass it, and put `@operation` on its methods.

    Args:
        settlement: learns the declarations, and finds the handlers after a crash, also for calls by other code.
        name: a prefix to the tools' names, where a settlement has several adapters of a kind: what an ended process
            left is found by these.
        effects: what to declare otherwise: a class, or a mapping of parts, by the tool's (unprefixed) name.

    Raises:
        DeclarationError: `effects` names no tool of it, or contradicts itself.

    >>> class Notes(Adapter):
    ...     def __init__(self, settlement=None, **options):
    ...         self.lines = []
    ...         super().__init__(settlement, **options)
    ...     def _take_back(self, line): self.lines.remove(line)
    ...     @operation("add_note", "reversible", scope="note:/{line}", undo=_take_back)
    ...     def add(self, line: str) -> int:
    ...         '''Add a note.'''
    ...         self.lines.append(line)
    ...         return len(self.lines)
    >>> settlement = Settlement("memory:")
    >>> notes = Notes(settlement)
    >>> with settlement.transaction("monday") as tx:
    ...     tx.call(notes.add, line="call Ada")
    1
    >>> ([tool.__name__ for tool in notes.tools()], notes.add("alone"))
    (['add_note'], 2)
    """

    def __init__(
        self,
        settlement: Settlement | None = None,
        *,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
    ) -> None:
        self.settlement = settlement
        self._prefix = f"{name}_" if name else ""
        self._overrides = dict(effects or {})
        self._tools: dict[str, Callable[..., Any]] = {}
        # The tool that each name stands for, and the tool's argument that each argument is.
        self._standing_for: dict[str, tuple[str, Mapping[str, str]]] = {}
        found = self.operations()
        for tool in self._overrides:
            _check_known(tool, found, f"effects= of {type(self).__name__}")
        for tool, known in found.items():
            self._tools[tool] = self._made(known, known.method.__get__(self), self._prefix + tool, {})

    def operations(self) -> dict[str, Operation[Any, Any]]:
        """Return its operations by their tools' names, in the order they are written."""
        members = {name: member for base in reversed(type(self).__mro__) for name, member in vars(base).items()}
        return {member.tool: member for member in members.values() if isinstance(member, Operation)}

    def tool(self, name: str) -> Callable[..., Any]:
        """Return one of its tools, by its name without the prefix.

        Raises:
            DeclarationError: there is no such tool.
        """
        _check_known(name, self._tools, type(self).__name__)
        return self._tools[name]

    def tools(self, *names: str) -> list[Callable[..., Any]]:
        """Return its tools, or those that are named: functions with signature, docstring and declaration.

        Raises:
            DeclarationError: there is no such tool.
        """
        return [self.tool(name) for name in names or self._tools]

    def declarations(self) -> list[Declaration]:
        """Return the declarations of its tools, in order."""
        return [declaration for tool in self.tools() if (declaration := declaration_of(tool)) is not None]

    def declare(self, tool: str, function: Callable[P, R], /, **arguments: str) -> Callable[P, R]:
        """Return a user's own function under the declaration of one of the tools, with the function's name.

        Args:
            tool: the tool that does the same as the function.
            function: sync or async; it is called unchanged.
            arguments: which argument of the function is which of the tool, where their names differ.

        Raises:
            DeclarationError: there is no such tool, or the function lacks an argument that the declaration needs.
        """
        self.tool(tool)
        return self._made(self.operations()[tool], function, str(getattr(function, "__name__", tool)), arguments)

    @property
    def key(self) -> str:
        """The idempotency key of the running call; a fresh one for a bare call.

        A tool that another tool calls as a part of its own work is bare, too: the other's key is not its own.
        """
        call, bare = current_call(), _bare.get()
        # else a transaction has begun within it, whose calls have keys of their own
        if bare is not None and bare[0] is call:
            return bare[1]
        return uuid.uuid4().hex if call is None else call.key

    def _is_own(self, tool: str) -> bool:
        """Whether the running call is of this tool, or of a user's function declared as it, under any name."""
        call = current_call()
        effect = None if call is None else call.effect
        if effect is None:
            return call is not None
        declared = effect.declaration
        if declared.tool in self._standing_for:
            return self._standing_for[declared.tool][0] == tool
        handlers = (declared.scope, declared.undo, declared.probe, declared.check, declared.release)
        owners = [getattr(handler.function, "__self__", None) for handler in handlers if isinstance(handler, Handler)]
        return self in owners

    # ---- making

    def _made(
        self, known: Operation[Any, Any], function: Callable[..., Any], name: str, renamed: Mapping[str, str]
    ) -> Callable[..., Any]:
        parts: dict[str, Any] = {role: self._bound(part) for role, part in known.parts.items()}
        kind, told = self._told(known)
        parts.update(told)
        around = parts.pop("around", None)
        if renamed:
            function = _renaming(function, {own: other for other, own in renamed.items()})
        self._standing_for[name] = (known.tool, {own: told for told, own in renamed.items()})
        made = self._within(function, around, known.tool)
        made.__name__ = made.__qualname__ = name
        if renamed:
            made = _renaming(made, renamed)
            parts = {role: _renamed(part, renamed) for role, part in parts.items()}
        declaration = declare(name, kind, function=made, **_fitting(kind, parts))
        bear(made, declaration)
        if self.settlement is not None:
            host_of(self.settlement).tools.learn(declaration)
        return made

    def _told(self, known: Operation[Any, Any]) -> tuple[EffectClass, dict[str, Any]]:
        override = self._overrides.get(known.tool, {})
        told: dict[str, Any] = {"kind": override} if isinstance(override, str) else dict(override)
        kind = told.pop("kind", known.kind)
        if kind not in set(EffectClass):
            raise DeclarationError(
                f"effects= of {known.tool} says {kind!r}: choose one of {', '.join(EffectClass)}", tool=known.tool
            )
        return EffectClass(kind), told

    def _bound(self, part: Any) -> Any:
        # By name, so that a subclass may override it.
        name = getattr(part, "__name__", "")
        return getattr(self, name) if callable(part) and hasattr(type(self), name) else part

    def _within(
        self, function: Callable[..., Any], around: Callable[..., AbstractContextManager[Any]] | None, tool: str
    ) -> Callable[..., Any]:
        signature = inspect.signature(function)
        handler = None if around is None else Handler(around, "around")

        @contextmanager
        def entered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[None]:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            token = _bare.set(None if self._is_own(tool) else (current_call(), uuid.uuid4().hex))
            try:
                context: AbstractContextManager[Any] = (
                    nullcontext()
                    if handler is None
                    else handler.function(**handler.bind(bound.arguments, result=None, key=self.key))
                )
                with context:
                    yield
            finally:
                _bare.reset(token)

        def acting(*args: Any, **kwargs: Any) -> Any:
            with entered(args, kwargs):
                return function(*args, **kwargs)

        async def acting_async(*args: Any, **kwargs: Any) -> Any:
            with entered(args, kwargs):
                return await function(*args, **kwargs)

        return _like(function, acting_async if inspect.iscoroutinefunction(function) else acting)


def _check_known(tool: str, known: Iterable[str], whose: str) -> None:
    if tool not in known:
        raise DeclarationError(f"{whose}: there is no tool {tool!r}; there are {', '.join(known) or 'none'}", tool=tool)


def _fitting(kind: EffectClass, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that a class uses: an operation may be declared with another class than its author's."""
    unused: set[str] = set()
    if kind not in _UNDOABLE:
        unused.add("undo")
    if kind not in HELD_CLASSES:
        unused.add("release")
    if kind is not EffectClass.REVERSIBLE:
        unused.add("cost")
    if kind not in (EffectClass.REVERSIBLE, EffectClass.STAGED):
        unused.add("commutes")
    if kind is not EffectClass.READ:
        unused |= {"live", "valid_for"}
    if kind in (EffectClass.READ, EffectClass.STAGED):
        unused.add("approve")
    return {role: part for role, part in parts.items() if role not in unused}


def _like(function: Callable[..., Any], made: Any) -> Callable[..., Any]:
    """Return a function that a framework takes for another one: name, docstring, resolved annotations."""
    functools.update_wrapper(made, function)
    hints = typing.get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    made.__annotations__ = hints
    made.__doc__ = function.__doc__ and inspect.cleandoc(function.__doc__)  # frameworks pass it on unchanged
    made.__signature__ = signature.replace(  # what inspect.signature looks for
        parameters=[p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()],
        return_annotation=hints.get("return", signature.return_annotation),
    )
    del made.__wrapped__  # it has another signature: `self`, and no resolved annotations
    wrapped: Callable[..., Any] = made
    return wrapped


def _renaming(function: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    """Return a function with renamed arguments, from the names here to the names that the function takes."""
    back = {new: old for old, new in names.items()}
    signature = inspect.signature(function)

    def renaming(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{back.get(name, name): value for name, value in kwargs.items()})

    async def renaming_async(*args: Any, **kwargs: Any) -> Any:
        return await renaming(*args, **kwargs)

    made: Any = renaming_async if inspect.iscoroutinefunction(function) else renaming
    functools.update_wrapper(made, function)
    made.__annotations__ = {names.get(n, n): hint for n, hint in getattr(function, "__annotations__", {}).items()}
    made.__signature__ = signature.replace(  # what inspect.signature looks for
        parameters=[p.replace(name=names.get(p.name, p.name)) for p in signature.parameters.values()]
    )
    del made.__wrapped__  # its arguments have other names
    wrapped: Callable[..., Any] = made
    return wrapped


def _renamed(part: Any, names: Mapping[str, str]) -> Any:
    if isinstance(part, str):
        return _FIELD.sub(lambda found: "{" + names.get(found[1], found[1]), part)
    if isinstance(part, tuple):
        return tuple(_renamed(each, names) for each in part)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return _renaming(part, names) if callable(part) and not isinstance(part, type) else part


__all__ = ["Adapter", "Operation", "Parts", "operation"]
