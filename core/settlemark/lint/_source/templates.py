"""The shape of a scope template: its constant and variable segments, and whether two templates can ever overlap."""

from __future__ import annotations

import re
from dataclasses import dataclass

from settlemark._edges.errors import ScopeError
from settlemark._model.scope import ScopeTemplate

_FIELD = re.compile(r"\{([^{}]*)\}")
_LOOSE = re.compile(r"[-_.+]")


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment: the text around the arguments it takes, and their names; `several` for `{x:path}`."""

    pattern: str
    fields: tuple[str, ...]
    several: bool = False

    def may_equal(self, other: Segment) -> bool:
        """Whether some arguments make these two equal."""
        if "*" in (self.pattern, other.pattern) or (self.fields and other.fields):
            return True
        if self.fields:
            return bool(re.fullmatch(self.pattern, re.sub(r"\\(.)", r"\1", other.pattern), re.DOTALL))
        if other.fields:
            return other.may_equal(self)
        return self.pattern == other.pattern


@dataclass(frozen=True, slots=True)
class Template:
    """A scope template, as far as a linter needs it.

    >>> Template.parse("room:/{hotel}/{date}").fields
    ('hotel', 'date')
    >>> Template.parse("room:/{hotel}").may_overlap(Template.parse("rooms:/{hotel}"))
    False
    """

    text: str
    type: str
    segments: tuple[Segment, ...]

    @classmethod
    def parse(cls, text: str) -> Template | None:
        """Parse a template; None if the text is none."""
        try:
            ScopeTemplate.parse(text)
        except ScopeError:
            return None
        kind, _, path = text.strip().partition(":")
        segments = tuple(_segment(each) for each in re.split(r"[/\\]", path) if each not in {"", ".", "**"})
        return cls(text, kind.lower(), segments)

    @property
    def fields(self) -> tuple[str, ...]:
        """The arguments it names, in order."""
        return tuple(dict.fromkeys(name for segment in self.segments for name in segment.fields))

    @property
    def broad(self) -> bool:
        """Whether it names no argument, or has a wildcard."""
        return not self.fields or any(segment.pattern == "*" for segment in self.segments)

    def may_overlap(self, other: Template) -> bool:
        """Whether some arguments make two scopes of these overlap."""
        if self.type != other.type:
            return False
        for mine, theirs in zip(self.segments, other.segments, strict=False):
            if mine.several or theirs.several:
                return True
            if not mine.may_equal(theirs):
                return False
        return True

    def misplaced(self, other: Template) -> str | None:
        """Return an argument that both have, at different depths: then they overlap only by accident."""
        if self.type != other.type:
            return None
        mine, theirs = self._places(), other._places()
        return next((name for name in mine if name in theirs and mine[name] != theirs[name]), None)

    def _places(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for place, segment in enumerate(self.segments):
            if len(segment.fields) == 1:
                found.setdefault(segment.fields[0], place)
            if segment.several:
                break
        return found

    def looks_like(self, other: Template) -> bool:
        """Whether their types are two spellings of one word."""
        return self.type != other.type and _plain(self.type) == _plain(other.type)


def _segment(text: str) -> Segment:
    inner = _FIELD.findall(text)
    if not inner:
        return Segment(re.escape(text) if text != "*" else "*", ())
    names = tuple(each.partition(":")[0].partition(".")[0] for each in inner)
    around = [re.escape(piece) for piece in _FIELD.split(text)[::2]]
    return Segment(".+".join(around), names, several=any(each.endswith(":path") for each in inner))


def _plain(kind: str) -> str:
    from settlemark.lint._source.words import singular

    return singular(_LOOSE.sub("", kind))


__all__ = ["Segment", "Template"]
