r"""The name of a resource in one canonical spelling, so that conflicts are found however a tool spells it.

A scope is `type:/segment/segment`. A scope stands for that resource and everything below it, so it overlaps its parents
and its children; `*` stands for exactly one segment. Too coarse a scope costs concurrency, too narrow a scope misses
conflicts: where the canonical form has a choice, it takes the coarser.

- `.`, `..` and empty segments collapse; `\` separates like `/`; a final `**` adds nothing and is dropped.
- Text is compared in Unicode NFC, the type in lower case, a drive letter (`c:`) in upper case.
- `%XX` stands for a byte of UTF-8. All characters are written plainly except `/ \ % * { }`, controls, white space at
  the ends of a segment, and whatever would make a name read as `.`, `..` or a drive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import lru_cache, total_ordering
from math import isfinite
from operator import eq
from pathlib import PurePath
from typing import Any, Never, TypeAlias, TypeVar, cast, final
from unicodedata import combining, normalize
from uuid import UUID

from settlemark._edges.errors import ScopeError
from settlemark._edges.text import brief

_TYPE = re.compile(r"[a-z][a-z0-9._+-]+")
_SEPARATOR = re.compile(r"[/\\]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPES = re.compile(r"((?:%[0-9A-Fa-f]{2})+)|%.{0,2}")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@.+-]*")  # most names: no escaping needed
_DRIVE = re.compile(r"[A-Za-z]:")
_LONGEST = 1 << 14  # characters: every process that shares the ledger keeps the scope in memory
_BITS = 2048  # any finite float fits, and Python's own limit on digits is far off
_RESERVED = frozenset("/\\%*{}") | {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
_FIELD = re.compile(r"\{([^{}]*)\}")

_T = TypeVar("_T")


@final
@total_ordering
class Scope:
    """The canonical name of a resource and all below it: immutable, hashable, ordered by its text.

    Laws: `Scope.parse(str(scope)) == scope`; `overlaps` is symmetric and reflexive; `covers` is
    reflexive and transitive, and implies `overlaps`. `Scope(text)` is `Scope.parse(text)`.

    Attributes: `type`, `segments` (each canonical; a wildcard is the segment `*`), `parts` (the type
    and the segments), `text` and `has_wildcard`.

    >>> room = Scope.parse("Room:/Ada/./2026-12-01/")
    >>> room
    Scope('room:/Ada/2026-12-01')
    >>> room.overlaps(Scope.parse("room:/Ada")), room.overlaps(Scope.parse("room:/*/2026-12-02"))
    (True, False)
    """

    __slots__ = ("has_wildcard", "parts", "segments", "text", "type")

    type: str
    segments: tuple[str, ...]
    parts: tuple[str, ...]
    text: str
    has_wildcard: bool

    def __new__(cls, text: str | Scope) -> Scope:
        return cls.parse(text)

    @classmethod
    def parse(cls, text: str | Scope) -> Scope:
        r"""Return the scope that `text` spells; a scope passes through.

        Raises:
            ScopeError: `text` names no resource; the message says how to write it.

        >>> str(Scope.parse(r"FILE:c:\tmp\..\a%62c"))
        'file:/C:/abc'
        >>> str(Scope.parse("room:/Ada/**"))
        'room:/Ada'
        """
        if isinstance(text, Scope):
            return text
        try:
            return _parse(text)
        except TypeError as error:  # the cache cannot hash a list or a dict
            raise _not_text(text) from error

    def overlaps(self, other: Scope) -> bool:
        """Whether some resource is in both: same type, and one path leads to the other.

        >>> Scope.parse("room:/Ada").overlaps(Scope.parse("room:/Adam"))
        False
        """
        if not (self.has_wildcard or other.has_wildcard):
            return all(map(eq, self.parts, other.parts))  # zip-like: stops at the end of the shorter
        for mine, theirs in zip(self.parts, other.parts, strict=False):
            if mine not in (theirs, "*") and theirs != "*":
                return False
        return True

    def covers(self, other: Scope) -> bool:
        """Whether every resource in `other` is also in this scope.

        >>> Scope.parse("room:/*").covers(Scope.parse("room:/Ada/2026-12-01"))
        True
        >>> Scope.parse("room:/*").covers(Scope.parse("room:"))
        False
        """
        return len(self.parts) <= len(other.parts) and all(
            mine in (theirs, "*") for mine, theirs in zip(self.parts, other.parts, strict=False)
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Scope({self.text!r})"

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Scope) and self.text == other.text)

    def __lt__(self, other: Scope) -> bool:
        return self.text < other.text

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"{self!r} is immutable: parse another scope instead of setting {name!r}")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"{self!r} is immutable: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return Scope, (self.text,)


def escape(value: object) -> str:
    """Return `value` as the text of exactly one segment, whatever characters it has.

    Law: different texts (after NFC) give different segments, and none is a wildcard. An `int`, a finite `float`, a
    `bool`, a date, a `UUID` and an `Enum` are written as text; `1.0` is `1`.

    Raises:
        ScopeError: `value` is `None`, empty, white space only, or of another type.

    >>> escape("a/b"), escape("*"), escape(".."), escape(7)
    ('a%2Fb', '%2A', '%2E%2E', '7')
    """
    if type(value) is str and _PLAIN.fullmatch(value):
        return value
    return _encode(_text(value))


@final
class ScopeTemplate:
    r"""A scope with holes for a call's arguments.

    `{x}` is one escaped segment, or part of one (`order-{id}`); `{x:path}` is several: the value is
    split at `/` and `\`, and its `..` may not climb above the place where it starts. `{order.id}`
    takes a key or an attribute of an argument. A `*` in a value is always literal.

    Law: filling `{x}` is parsing the template's text with `escape(value)` in that place.
    `fields` has the arguments' names in order, once each; `text` is the template as given.

    >>> ScopeTemplate.parse("room:/{hotel}/{date}").fill({"hotel": "Ada/Bel", "date": "2026-12-01"})
    Scope('room:/Ada%2FBel/2026-12-01')
    >>> ScopeTemplate.parse("file:/srv/{name:path}").fill({"name": "a/../b.txt"})
    Scope('file:/srv/b.txt')
    """

    __slots__ = ("_constant", "_plan", "_type", "fields", "text")

    def __init__(self, text: str) -> None:
        text = _stripped(text)
        head, *rest = _tokens(text)
        if not isinstance(head, str) or (rest and ":" not in head):
            raise _bad(text, "needs a type that comes from no argument: write for example 'room:/{hotel}'")
        self.text: str = text
        self._type, head = _split_type(head, text)
        self._plan: tuple[_Part, ...] = tuple(_walk(_segments((head, *rest), text), text))
        found = (token.argument for token in rest if isinstance(token, _Field))
        self.fields: tuple[str, ...] = tuple(dict.fromkeys(found))
        self._constant: Scope | None = None if self.fields else Scope.parse(text)

    @classmethod
    def parse(cls, text: str) -> ScopeTemplate:
        """Return the template that `text` spells, cached.

        Raises:
            ScopeError: `text` is no template, whatever the arguments.

        >>> ScopeTemplate.parse("order:/{order.shop}/order-{order.id}").fields
        ('order',)
        """
        try:
            return _parse_template(text)
        except TypeError as error:
            raise _not_text(text) from error

    def fill(self, arguments: Mapping[str, object]) -> Scope:
        """Return the scope of a call with these arguments; arguments not named in the template are ignored.

        Raises:
            ScopeError: an argument is missing or names no resource. It has `text` (the template) and `argument`.
        """
        if self._constant is not None:
            return self._constant
        parts = [self._type]
        for part in self._plan:
            if isinstance(part, str):
                parts.append(part)
            elif isinstance(part, _Field):
                value = None if part.several or part.key is not None else arguments.get(part.argument)
                if type(value) is str and _PLAIN.fullmatch(value):
                    parts.append(value)  # the common case: a plain text is its own segment
                else:
                    parts.extend(self._written(part, arguments))
            else:
                written = (p if isinstance(p, str) else self._written(p, arguments)[0] for p in part)
                parts.append(_canonical("".join(written), self.text))
        return _build(tuple(parts))

    def _written(self, field: _Field, arguments: Mapping[str, object]) -> list[str]:
        try:
            value = field.take(arguments)
            return _path(value) if field.several else [escape(value)]
        except ScopeError as error:
            raise ScopeError(
                f"the scope template {self.text!r} cannot be filled: argument {field.name!r}: {error}",
                text=self.text,
                argument=field.argument,
            ) from None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"ScopeTemplate({self.text!r})"

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScopeTemplate) and self.text == other.text

    def __reduce__(self) -> tuple[Any, ...]:
        return ScopeTemplate, (self.text,)


@dataclass(frozen=True, slots=True)
class _Field:
    argument: str
    key: str | None
    several: bool

    @property
    def name(self) -> str:
        return self.argument if self.key is None else f"{self.argument}.{self.key}"

    def take(self, arguments: Mapping[str, object]) -> object:
        if self.argument not in arguments:
            raise ScopeError(f"it is missing (given: {', '.join(arguments) or 'none'})")
        value = arguments[self.argument]
        if self.key is None:
            return value
        kind = _called(value)
        try:
            if isinstance(value, Mapping):
                return cast("Mapping[object, object]", value)[self.key]
            return cast("object", getattr(value, self.key))
        except (KeyError, AttributeError):
            raise ScopeError(f"{kind} has no {self.key!r}") from None


_Composite: TypeAlias = tuple[str | _Field, ...]
_Part: TypeAlias = str | _Field | _Composite


@lru_cache(maxsize=8192)
def _build(parts: tuple[str, ...]) -> Scope:
    kind, *segments = parts
    if sum(map(len, parts)) + len(parts) > _LONGEST:
        raise ScopeError(f"a scope may have {_LONGEST:,} characters at most: name it by a digest", text=kind)
    scope = object.__new__(Scope)
    put = object.__setattr__  # the class refuses to set attributes
    put(scope, "type", kind)
    put(scope, "segments", tuple(segments))
    put(scope, "parts", parts)
    put(scope, "text", f"{kind}:/{'/'.join(segments)}")
    put(scope, "has_wildcard", "*" in parts)
    return scope


@lru_cache(maxsize=8192)
def _parse(text: str) -> Scope:
    text = _stripped(text)
    kind, path = _split_type(text, text)
    segments: list[str] = _walk(_SEPARATOR.split(path), text)
    return _build((kind, *segments))


@lru_cache(maxsize=1024)
def _parse_template(text: str) -> ScopeTemplate:
    return ScopeTemplate(text)


def _bad(text: str, why: str) -> ScopeError:
    return ScopeError(f"the scope {text!r} {why}", text=text)


def _not_text(value: object) -> ScopeError:
    return ScopeError(f"a scope is a text such as 'room:/Ada', not {_called(value)}", text=repr(value))


def _called(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def _stripped(text: object) -> str:
    if not isinstance(text, str):
        raise _not_text(text)
    text = text.strip()
    if not text:
        raise _bad(text, "is empty: write for example 'room:/Ada'")
    if len(text) > _LONGEST:
        raise ScopeError(
            f"the scope {brief(text)} has {len(text):,} characters, and {_LONGEST:,} are the most", text=text
        )
    if found := _SURROGATE.search(text):
        raise _bad(text, f"has {found[0]!r}, which is not valid Unicode: remove it")
    if found := _CONTROL.search(text):
        raise _bad(text, f"has the control character {found[0]!r}: remove it, or write {_percent(found[0])}")
    return text


def _split_type(head: str, text: str) -> tuple[str, str]:
    name, colon, path = head.partition(":")
    kind = name.lower()
    if colon and _TYPE.fullmatch(kind):
        return kind, path
    if colon and _DRIVE.fullmatch(f"{name}:"):
        path = _SEPARATOR.sub("/", text[2:]).lstrip("/")
        why = f"begins with a drive letter: write 'file:/{name.upper()}:/{path}', or a longer type"
    elif not colon or not name or _SEPARATOR.search(name):
        path = _SEPARATOR.sub("/", text).lstrip("/:")
        why = f"has no type: write '{'file' if '/' in path else 'room'}:/{path}' or the like"
    elif "*" in name:
        why = "has a wildcard in its type: write one scope per type"
    else:
        why = f"has the type {name!r}: write a letter, then letters, digits or any of . _ + -"
    raise _bad(text, why)


def _walk(raws: Iterable[str | _T], text: str) -> list[str | _T]:
    kept: list[str | _T] = []
    rest = False
    for raw in raws:
        if raw in ("", "."):
            continue
        if rest:
            raise _bad(text, "goes on after '**', the rest: end there, or write '*' for one segment")
        if raw == "**":
            rest = True  # redundant: a scope includes everything below it
        elif raw != "..":
            kept.append(_canonical(raw, text) if isinstance(raw, str) else raw)
        elif not kept:
            raise _bad(text, "climbs above its root: remove a '..', or write '%2E%2E' for a name of two dots")
        elif isinstance(kept[-1], str):
            kept.pop()
        else:
            raise _bad(text, "drops an argument with '..': remove both")
    return kept


def _canonical(raw: str, text: str) -> str:
    if raw == "*" or _PLAIN.fullmatch(raw):
        return raw
    name = _decode(raw, text)
    return raw.upper() if _DRIVE.fullmatch(raw) else _encode(name)


def _decode(raw: str, text: str) -> str:
    if "*" in raw:
        raise _bad(text, "has '*' within a segment: make it the whole segment, or write '%2A' for a star")
    if "{" in raw or "}" in raw:
        raise _bad(text, "has a brace: fill it as a template, or write '%7B' and '%7D' for braces")

    def plain(found: re.Match[str]) -> str:
        try:
            return bytes.fromhex((found[1] or "bad").replace("%", "")).decode()
        except ValueError:
            raise _bad(text, f"has {found[0]!r}, which is not escaped UTF-8: write '%25' for a percent sign") from None

    return _ESCAPES.sub(plain, raw)


def _encode(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    if _SURROGATE.search(name):
        raise ScopeError(f"{name!r} is not valid Unicode and names no resource", text=name)
    name = normalize("NFC", name)
    if name in {".", ".."}:
        return name.replace(".", "%2E")
    if _DRIVE.fullmatch(name) and name[0].islower():
        return f"{name[0]}%3A"
    start, end = len(name) - len(name.lstrip()), len(name.rstrip())
    written: list[str] = []
    escaped = False
    for index, char in enumerate(name):
        # A mark after an escape is escaped too: NFC would merge it with the last hex digit (%2A + grave).
        escaped = char in _RESERVED or not start <= index < end or (escaped and combining(char) > 0)
        written.append(_percent(char) if escaped else char)
    return "".join(written)


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _text(value: object) -> str:
    while isinstance(value, Enum):
        value = value.value
    match value:
        case str() if value and not value.isspace():
            return str.__str__(value)
        case int() | float():
            return _number(value)
        case date():
            return value.isoformat()
        case UUID():
            return str(value)
        case PurePath():
            why = f"{_called(value)} is several segments: write '{{name:path}}' in the template"
        case None | str():
            why = f"{value!r} names no resource: give a value"
        case _:
            why = f"{_called(value)} names no resource: give a text, number, date, UUID or Enum"
    raise ScopeError(why, text=value if isinstance(value, str) else _called(value))


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if not isfinite(value):
            raise ScopeError(f"{value!r} names no resource: give a finite number", text=repr(value))
        if not value.is_integer():
            return repr(float(value))
    number = int(value)  # one name for one number: JSON does not tell 1.0 from 1
    if number.bit_length() > _BITS:
        raise ScopeError(f"a number of {number.bit_length()} bits is too long a name", text=_called(value))
    return str(number)


def _path(value: object) -> list[str]:
    text = value.as_posix() if isinstance(value, PurePath) else _text(value)
    kept: list[str] = []
    for name in _SEPARATOR.split(text):
        if name in {"", "."}:
            continue
        if name != "..":
            kept.append(name.upper() if _DRIVE.fullmatch(name) else _encode(name))
        elif kept:
            kept.pop()
        else:
            raise ScopeError(f"{text!r} climbs with '..' above the place where it starts", text=text)
    return kept


def _tokens(text: str) -> list[str | _Field]:
    if "{{" in text or "}}" in text:
        raise _bad(text, "has a doubled brace: write '%7B' or '%7D' for a brace")
    tokens: list[str | _Field] = []
    for index, piece in enumerate(_FIELD.split(text)):  # text and fields alternate
        if index % 2:
            tokens.append(_field(piece, text))
        elif "{" in piece or "}" in piece:
            raise _bad(text, "has an unmatched brace: close it, or write '%7B' or '%7D' for a brace")
        else:
            tokens.append(piece)
    return tokens


def _field(inner: str, text: str) -> _Field:
    name, colon, form = inner.partition(":")
    argument, dot, key = name.partition(".")
    if not argument.isidentifier() or (dot and not key.isidentifier()):
        raise _bad(text, f"has the field {inner!r}: name an argument, as in '{{order}}' or '{{order.id}}'")
    if colon and form != "path":
        raise _bad(text, f"has the unknown format {form!r}: write '{{{name}}}' or '{{{name}:path}}'")
    return _Field(argument, key if dot else None, several=bool(colon))


def _segments(tokens: Iterable[str | _Field], text: str) -> list[_Part]:
    segments: list[list[str | _Field]] = [[]]
    for token in tokens:
        if isinstance(token, _Field):
            segments[-1].append(token)
        else:
            first, *others = _SEPARATOR.split(token)
            segments[-1].append(first)
            segments += [[other] for other in others]
    return [_part([piece for piece in segment if piece], text) for segment in segments]


def _part(segment: list[str | _Field], text: str) -> _Part:
    if len(segment) <= 1:
        return segment[0] if segment else ""
    for piece in segment:
        if isinstance(piece, str):
            _decode(piece, text)  # decoded only to refuse a bad template here rather than at each call
        elif piece.several:
            raise _bad(text, f"has '{{{piece.name}:path}}' within a segment: put it between slashes")
    return tuple(segment)
