"""What a tool's calls read and write: as declared, as the user says, or as its name tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from settlemark._edges.errors import DeclarationError, ScopeError
from settlemark._model.declaration import Declaration
from settlemark._model.effect_class import EffectClass
from settlemark._model.scope import ScopeTemplate
from settlemark.history._recording.values import compact, plain
from settlemark.lint._source import words
from settlemark.lint._source.words import PATHS, Act, singular

Said: TypeAlias = str | Mapping[str, Any] | Declaration
"""What a user says of a tool: `"read"`, `"write"`, `{"kind": "read", "scope": "room:/{hotel}"}`, or a declaration."""

Does: TypeAlias = Literal["read", "write"]
_KINDS = ("write", *EffectClass)
_TYPE = re.compile(r"[^a-z0-9._+-]")
_SETTERS = frozenset({"set", "update", "change", "write", "put", "save", "store", "modify", "edit"})
# A trace repeats the same few tools and arguments.
_cached = lru_cache(maxsize=4096)
verb_of, nouns_of, parts_of = _cached(words.verb_of), _cached(words.nouns_of), _cached(words.parts_of)
is_address, is_secret = _cached(words.is_address), _cached(words.is_secret)
_WITHHELD = "[secret]"


@dataclass(frozen=True, slots=True)
class Touch:
    """What one call does.

    Attributes:
        does: whether it reads or writes.
        cells: the cells.
        value: the written value, as far as the arguments tell; None for a deletion.
    """

    does: Does
    cells: tuple[str, ...]
    value: Any = None

    @property
    def cell(self) -> str:
        """Its cells as one name."""
        return " ".join(self.cells)


class Tools:
    """Tells what calls read and write; `guessed` has how each undeclared tool was taken.

    Without a declaration a tool reads when its name's verb says so (get, list, search, …), and writes otherwise, to be
    on the safe side. Its cell is the noun of its name, with its first argument whose name is an address.

    Args:
        effects: what tools do, by name.
        declared: finds the declaration of a tool that `effects` does not name.

    Raises:
        DeclarationError: `effects` has an unknown kind.
        ScopeError: a scope is no template.

    >>> tools = Tools({"audit": "read"})
    >>> tools.of("book_room", {"hotel": "Ada", "nights": 2})
    Touch(does='write', cells=('room:/Ada',), value=2)
    >>> tools.of("get_room", {"hotel": "Ada"}).cells, tools.of("audit", {}).does
    (('room:/Ada',), 'read')
    >>> tools.guessed
    {'book_room': 'write', 'get_room': 'read'}
    """

    def __init__(
        self,
        effects: Mapping[str, Said] | None = None,
        declared: Callable[[str], Declaration | None] | None = None,
    ) -> None:
        self._said = {name: _Known.of(name, said) for name, said in (effects or {}).items()}
        self._declared = declared
        self.guessed: dict[str, Does] = {}
        self.unclear: set[str] = set()

    def of(self, tool: str, arguments: Mapping[str, Any]) -> Touch:
        """Return what a call with these arguments does."""
        known = self._known(tool)
        verb = verb_of(tool)
        does = None if known is None else known.does
        if does is None:
            does = "read" if verb is not None and verb[1] is Act.READ else "write"
            self.guessed.setdefault(tool, does)
            if verb is None:
                self.unclear.add(tool)
        cells = None if known is None else known.cells(arguments)
        named: list[str] = []
        if cells is None:
            named = [] if _is_setter(tool, arguments) else _addresses(arguments)
            cells = (_cell(tool, named, arguments),)
        if does == "read":
            return Touch("read", cells)
        hidden = () if known is None else known.redact
        deletes = verb is not None and verb[1] is Act.DELETE
        return Touch("write", cells, None if deletes else _written(tool, arguments, {*named, *_fields(known)}, hidden))

    def _known(self, tool: str) -> _Known | None:
        found = self._said.get(tool)
        if found is None:
            declaration = None if self._declared is None else self._declared(tool)
            found = None if declaration is None else _Known.of(tool, declaration)
            if found is not None:
                self._said[tool] = found
        return found


@dataclass(frozen=True, slots=True)
class _Known:
    """What a tool does, and the scopes of its calls if declared."""

    does: Does
    template: ScopeTemplate | None = None
    declaration: Declaration | None = None
    redact: tuple[str, ...] = ()

    @classmethod
    def of(cls, tool: str, said: Said) -> _Known:
        if isinstance(said, Declaration):
            return cls("read" if said.kind is EffectClass.READ else "write", None, said, said.redact)
        parts: Mapping[str, Any] = said if isinstance(said, Mapping) else {"kind": said}
        kind, scope = parts.get("kind"), parts.get("scope")
        if kind not in _KINDS:
            raise DeclarationError(
                f"effects says {kind!r} of {tool}: say what kind it is, one of {', '.join(_KINDS)}, as in"
                f' {{"{tool}": "read"}} or {{"{tool}": {{"kind": "write", "scope": "room:/{{hotel}}"}}}}',
                tool=tool,
            )
        does: Does = "read" if kind == EffectClass.READ else "write"
        return cls(does, ScopeTemplate.parse(scope) if scope is not None else None)

    def cells(self, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return a call's scopes as cells; None if none are declared, or the arguments do not fill them."""
        try:
            if self.template is not None:
                return (self.template.fill(arguments).text,)
            if self.declaration is not None:
                return tuple(scope.text for scope in self.declaration.scopes(arguments)) or None
        except ScopeError:  # a model may leave out an argument: the call failed, or had a default
            return None
        return None


def _fields(known: _Known | None) -> set[str]:
    if known is None:
        return set()
    templates = [] if known.template is None else [known.template]
    templates += [] if known.declaration is None else known.declaration.templates
    return {field for template in templates for field in template.fields}


def _is_setter(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the only argument is the written value: `set_date(date)`."""
    verb, nouns = verb_of(tool), nouns_of(tool)
    only = next(iter(arguments)) if len(arguments) == 1 else ""
    return verb is not None and verb[0] in _SETTERS and bool(nouns) and parts_of(only)[-1] == nouns[-1]


def _addresses(arguments: Mapping[str, Any]) -> list[str]:
    """Return the argument whose name identifies the resource, as in the linter."""
    named = [name for name, value in arguments.items() if isinstance(value, str | int) and value != ""]
    strong = [name for name in named if is_address(name, strong=True)]
    return (strong or [name for name in named if is_address(name)])[:1]


def _cell(tool: str, named: list[str], arguments: Mapping[str, Any]) -> str:
    nouns = nouns_of(tool)
    word = _TYPE.sub("-", singular(nouns[-1]) if nouns else parts_of(tool)[0]).strip("-.")
    word = word if len(word) > 1 and word[0].isalpha() else f"the-{word or 'thing'}"  # as a scope's type is spelled
    if not named:
        return word
    template = f"{word}:/{{{named[0]}:path}}" if parts_of(named[0])[-1] in PATHS else f"{word}:/{{{named[0]}}}"
    try:
        return ScopeTemplate.parse(template).fill(arguments).text
    except ScopeError:  # white space only, braces, or characters that no scope may have
        return word


def _written(tool: str, arguments: Mapping[str, Any], apart: set[str], hidden: tuple[str, ...]) -> Any:
    secret = {name for name in arguments if is_secret(name) or name in hidden}
    rest = {
        name: _WITHHELD if name in secret else plain(value) for name, value in arguments.items() if name not in apart
    }
    if len(rest) == 1:
        return compact(next(iter(rest.values())))
    return compact(rest) if rest else tool


__all__ = ["Said", "Tools", "Touch"]
