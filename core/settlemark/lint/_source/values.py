"""What an expression's value may consist of: texts, a tool's arguments, chance, the call's key; and its origins."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple


class Hole(NamedTuple):
    """A place in a text that an argument fills; an unnamed one is filled by an unknown value."""

    argument: str = ""


Piece = str | Hole

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://[^/]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an expression, as far as known.

    Attributes:
        pieces: its text, as constants and holes; empty when it is no text.
        origins: what flows into it: `arg:path`, `value:amount`, `uuid`, `random`, `clock`, `model`, `key`.
        root: the dotted name of an outside object, `provider` or `requests.Session()`; empty for plain data.
        path: it is a file's path.
        container: it is a list, dict or set of this process.
    """

    pieces: tuple[Piece, ...] = ()
    origins: frozenset[str] = frozenset()
    root: str = ""
    path: bool = False
    container: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The tool's arguments in its text, in order; when it is no text, those that flow into it."""
        if any(isinstance(piece, Hole) and piece.argument for piece in self.pieces):
            return tuple(dict.fromkeys(p.argument for p in self.pieces if isinstance(p, Hole) and p.argument))
        return tuple(sorted(origin[4:] for origin in self.origins if origin.startswith("arg:")))

    @property
    def text(self) -> str:
        """Its text, each hole as `{name}`.

        >>> Value(("/orders/", Hole("order_id"))).text
        '/orders/{order_id}'
        """
        return "".join(piece if isinstance(piece, str) else f"{{{piece.argument}}}" for piece in self.pieces)

    @property
    def constant(self) -> str | None:
        """Its text, when nothing flows into it."""
        if self.pieces and all(isinstance(piece, str) for piece in self.pieces):
            return "".join(piece for piece in self.pieces if isinstance(piece, str))
        return None

    @property
    def url_path(self) -> tuple[str, ...]:
        """The segments of its path as a URL, up to the first that is not constant."""
        text = _SCHEME.sub("", self.text)
        if text.startswith(("{}", "{base")):
            text = text.partition("/")[2]
        found: list[str] = []
        for segment in text.partition("?")[0].split("/"):
            if "{" in segment:
                break
            if segment:
                found.append(segment)
        return tuple(found)

    def plain(self) -> Value:
        """Return the value without its text, keeping its origins."""
        return Value(origins=self.origins)


def constant(text: str) -> Value:
    """Return a constant text."""
    return Value((text,) if text else ())


def argument(name: str) -> Value:
    """Return the value of a tool's argument."""
    return Value((Hole(name),), frozenset({f"arg:{name}"}))


def joined(*values: Value, between: str = "") -> Value:
    """Return texts joined."""
    pieces: list[Piece] = []
    for number, value in enumerate(values):
        if number and between:
            pieces.append(between)
        pieces += value.pieces or ([Hole()] if value.origins or value.root else [])
    return Value(tuple(pieces), mixed(*values).origins)


def mixed(*values: Value) -> Value:
    """Return a value with the origins of several.

    A property of a single value is kept.
    """
    told = [value for value in values if value != Value()]
    if len(told) == 1:
        return told[0]
    origins = frozenset(origin for value in told for origin in value.origins)
    return Value(origins=origins)


def with_origin(value: Value, origin: str) -> Value:
    """Return a value with one more origin."""
    return replace(value, origins=value.origins | {origin})


__all__ = ["Hole", "Piece", "Value", "argument", "constant", "joined", "mixed", "with_origin"]
