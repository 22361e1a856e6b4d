"""What an expression may be made of: texts, a tool's arguments, chance, the call's key; and where it came from."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple


class Hole(NamedTuple):
    """A place in a text that an argument fills; an unnamed one is filled by something nobody can tell."""

    argument: str = ""


Piece = str | Hole

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://[^/]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression's value.

    Attributes:
        pieces: the text it makes, as constants and holes; empty when it is no text.
        origins: what flows into it: `arg:path`, `value:amount`, `uuid`, `random`, `clock`, `model`, `key`.
        root: the dotted name of an object of the world, `provider` or `requests.Session()`; empty for plain data.
        path: whether it is a file's path.
        container: whether it is a list, dict or set of this process.
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
        """Return what came of it when nobody can tell its text any more."""
        return Value(origins=self.origins)


def constant(text: str) -> Value:
    """Return a text of the program's own."""
    return Value((text,) if text else ())


def argument(name: str) -> Value:
    """Return what an argument of a tool gives."""
    return Value((Hole(name),), frozenset({f"arg:{name}"}))


def joined(*values: Value, between: str = "") -> Value:
    """Return texts put behind one another."""
    pieces: list[Piece] = []
    for number, value in enumerate(values):
        if number and between:
            pieces.append(between)
        pieces += value.pieces or ([Hole()] if value.origins or value.root else [])
    return Value(tuple(pieces), mixed(*values).origins)


def mixed(*values: Value) -> Value:
    """Return what some values have in common: that they flow in.

    What one value is alone, it stays.
    """
    told = [value for value in values if value != Value()]
    if len(told) == 1:
        return told[0]
    origins = frozenset(origin for value in told for origin in value.origins)
    return Value(origins=origins)


def with_origin(value: Value, origin: str) -> Value:
    """Return a value that something more flows into."""
    return replace(value, origins=value.origins | {origin})


__all__ = ["Hole", "Piece", "Value", "argument", "constant", "joined", "mixed", "with_origin"]
