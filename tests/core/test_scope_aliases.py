"""The alias suite: spellings that must conflict, and look-alikes that must not.

Two controls are measured on the same pairs. Comparing strings is what code without canonical scopes
does: it misses conflicts. Comparing only types is the coarse way out: it sees conflicts everywhere.
"""

from __future__ import annotations

import re
from pathlib import PureWindowsPath
from typing import NamedTuple

import pytest

from settlemark import Scope, ScopeTemplate


class Spelling(NamedTuple):
    """A resource as a call names it: a template and the call's arguments."""

    template: str
    arguments: dict[str, object]

    @property
    def scope(self) -> Scope:
        return ScopeTemplate.parse(self.template).fill(self.arguments)

    @property
    def string(self) -> str:
        """What `str.format` would have made of it."""
        return re.sub(r"\{(\w+)[^}]*\}", lambda field: str(self.arguments[field[1]]), self.template)


def of(template: str, **arguments: object) -> Spelling:
    return Spelling(template, arguments)


def settlemark(left: Spelling, right: Spelling) -> bool:
    return left.scope.overlaps(right.scope)


def string_equality(left: Spelling, right: Spelling) -> bool:
    return left.string == right.string


def type_only(left: Spelling, right: Spelling) -> bool:
    return left.scope.type == right.scope.type


FILE = "file:/{p:path}"
UNDER_SRV = "file:/srv/{p:path}"
ROOM = "room:/{x}"

CONFLICTING = [
    ("one text", of("room:/Ada"), of("room:/Ada")),
    ("type in capitals", of("Room:/Ada"), of("room:/Ada")),
    ("no slash after the type", of("room:Ada"), of("room:/Ada")),
    ("white space around", of(" room:/Ada\n"), of("room:/Ada")),
    ("trailing slash", of("room:/Ada/"), of("room:/Ada")),
    ("empty segments", of("room://Ada///1"), of("room:/Ada/1")),
    ("dot segments", of("file:/srv/./a"), of("file:/srv/a")),
    ("dot-dot segments", of("file:/srv/b/../a"), of("file:/srv/a")),
    ("dot-dot to the root", of("file:/srv/.."), of("file:/etc")),
    ("backslashes", of(r"file:\srv\a"), of("file:/srv/a")),
    ("mixed separators", of(r"file:/srv\a/b"), of("file:/srv/a/b")),
    ("drive letter case", of("file:/c:/a"), of("file:/C:/a")),
    ("drive letter and backslashes", of(r"file:c:\a"), of("file:/C:/a")),
    ("escaped drive colon", of("file:/C%3A/a"), of("file:/C:/a")),
    ("UNC", of(r"file:\\server\share\a"), of("file:/server/share/a")),
    ("NFC and NFD", of("room:/ros\u00e9"), of("room:/rose\u0301")),
    ("Hangul jamo", of("room:/\u1100\u1161"), of("room:/\uac00")),
    ("escaped letter", of("room:/%41da"), of("room:/Ada")),
    ("escaped UTF-8", of("room:/ros%C3%A9"), of("room:/ros\u00e9")),
    ("escaped NFD", of("room:/rose%cc%81"), of("room:/ros\u00e9")),
    ("case of an escape", of("room:/a%2fb"), of("room:/a%2Fb")),
    ("escaped space", of("room:/Ada%20Lovelace"), of("room:/Ada Lovelace")),
    ("half-escaped dots", of("room:/.%2E"), of("room:/%2e%2e")),
    ("parent", of("room:/Ada"), of("room:/Ada/2026-12-01")),
    ("grandparent", of("room:/Ada"), of("room:/Ada/2026-12-01/7")),
    ("root", of("room:"), of("room:/Ada")),
    ("root with a slash", of("room:/"), of("room:")),
    ("wildcard", of("room:/*"), of("room:/Ada")),
    ("wildcard and parent", of("room:/*/1"), of("room:/Ada")),
    ("wildcard and child", of("room:/*"), of("room:/Ada/1")),
    ("wildcards that cross", of("room:/*/1"), of("room:/Ada/*")),
    ("two wildcards", of("room:/*"), of("room:/*/1")),
    ("wildcard and literal star", of("room:/*"), of("room:/%2A")),
    ("the rest", of("file:/srv/**"), of("file:/srv/a/b")),
    ("the rest and itself", of("file:/srv/**"), of("file:/srv")),
    ("the rest of a root", of("file:/**"), of("file:/srv")),
    ("one path value", of(FILE, p="srv/a"), of("file:/srv/a")),
    ("absolute path value", of(FILE, p="/srv/a"), of(FILE, p="srv/a")),
    ("path value with dots", of(UNDER_SRV, p="./b/../a"), of(UNDER_SRV, p="a")),
    ("path value with backslashes", of(UNDER_SRV, p=r"b\a"), of(UNDER_SRV, p="b/a")),
    ("path value with a drive", of(FILE, p=r"c:\a"), of(FILE, p="C:/a")),
    ("path object", of(FILE, p=PureWindowsPath("c:/a")), of(FILE, p=r"C:\a")),
    ("path value that is its own start", of(UNDER_SRV, p="."), of("file:/srv")),
    ("path value and parent", of(UNDER_SRV, p="a/b"), of("file:/srv/a")),
    ("value in NFD", of(ROOM, x="rose\u0301"), of(ROOM, x="ros\u00e9")),
    ("escaped value", of(ROOM, x="a/b"), of("room:/a%2Fb")),
    ("value of dots", of(ROOM, x=".."), of("room:/%2E%2E")),
    ("number and text", of(ROOM, x=7), of(ROOM, x="7")),
    ("whole float", of(ROOM, x=7.0), of(ROOM, x=7)),
    ("part of a segment", of("order:/order-{x}", x=7), of("order:/order-7")),
]

SEPARATE = [
    ("siblings", of("room:/Ada"), of("room:/Bel")),
    ("prefix of a name", of("room:/Ada"), of("room:/Adam")),
    ("prefix of a name, below", of("room:/Ada/1"), of("room:/Adam/1")),
    ("children of one parent", of("room:/Ada/1"), of("room:/Ada/2")),
    ("cousins", of("room:/Ada/1"), of("room:/Bel/1")),
    ("suffix", of("room:/Ada/1"), of("room:/1")),
    ("swapped", of("room:/Ada/1"), of("room:/1/Ada")),
    ("types", of("room:/Ada"), of("mail:/Ada")),
    ("prefix of a type", of("room:/Ada"), of("rooms:/Ada")),
    ("roots of types", of("room:"), of("rooms:")),
    ("case of a name", of("room:/Ada"), of("room:/ada")),
    ("case of a longer name with a colon", of("file:/ab:/x"), of("file:/AB:/x")),
    ("drives", of("file:/c:/x"), of("file:/D:/x")),
    ("drive and folder", of("file:/c:/x"), of("file:/c/x")),
    ("escaped slash", of("room:/a%2Fb"), of("room:/a/b")),
    ("escaped slash and parent", of("room:/a%2Fb"), of("room:/a")),
    ("escaped backslash", of("room:/a%5Cb"), of(r"room:/a\b")),
    ("two escaped separators", of("room:/a%5Cb"), of("room:/a%2Fb")),
    ("literal star", of("room:/%2A"), of("room:/Ada")),
    ("one and two literal stars", of("room:/%2A"), of("room:/%2A%2A")),
    ("escaped percent", of("room:/%2541"), of("room:/A")),
    ("escaped dot-dot", of("room:/a/%2E%2E"), of("room:/b")),
    ("escaped dot", of("room:/a/%2E/b"), of("room:/a/b")),
    ("three dots", of("room:/a/.../b"), of("room:/a/b")),
    ("trailing space", of("room:/Ada%20"), of("room:/Ada")),
    ("accent", of("room:/rose"), of("room:/ros\u00e9")),
    ("compatibility form", of("room:/\ufb01"), of("room:/fi")),
    ("fullwidth solidus", of("room:/a\uff0fb"), of("room:/a/b")),
    ("Cyrillic look-alike", of("room:/\u0410da"), of("room:/Ada")),
    ("wildcard, then another name", of("room:/*/1"), of("room:/Ada/2")),
    ("name, then wildcard", of("room:/Ada/*"), of("room:/Bel/1")),
    ("wildcards with other names", of("room:/*/1"), of("room:/*/2")),
    ("the rest of another", of("file:/srv/a/**"), of("file:/srv/ab")),
    ("after dot-dot", of("file:/srv/a/../b"), of("file:/srv/a")),
    ("UNC servers", of(r"file:\\one\share"), of(r"file:\\two\share")),
    ("value with a slash", of(ROOM, x="a/b"), of("room:/a/b")),
    ("value that is a star", of(ROOM, x="*"), of(ROOM, x="Ada")),
    ("value that looks escaped", of(ROOM, x="%41"), of(ROOM, x="A")),
    ("value of dots below", of("room:/Ada/{x}", x=".."), of("room:/Bel")),
    ("value like a drive", of(ROOM, x="c:"), of(ROOM, x="C:")),
    ("values of one place", of("room:/{x}/{y}", x="a/b", y="c"), of("room:/{x}/{y}", x="a", y="b/c")),
    ("path value that is a star", of(UNDER_SRV, p="*"), of(UNDER_SRV, p="a")),
    ("path values", of(UNDER_SRV, p="a/b"), of(UNDER_SRV, p="a/c")),
    ("path value that looks escaped", of(UNDER_SRV, p="a%2Fb"), of(UNDER_SRV, p="a/b")),
    ("part of a segment", of("order:/order-{x}", x=1), of("order:/order-{x}", x=11)),
    ("sign", of(ROOM, x=-1), of(ROOM, x=1)),
]


def wrong(cases, expected):
    """How many pairs each way of comparing gets wrong, in either order."""
    return {
        compare.__name__: sum(
            (compare(left, right), compare(right, left)) != (expected, expected) for _, left, right in cases
        )
        for compare in (settlemark, string_equality, type_only)
    }


def pairs(cases):
    return [pytest.param(left, right, id=name.replace(" ", "-")) for name, left, right in cases]


@pytest.mark.parametrize(("left", "right"), pairs(CONFLICTING))
def test_spellings_that_touch_one_resource_conflict(left, right):
    assert left.scope.overlaps(right.scope)
    assert right.scope.overlaps(left.scope)


@pytest.mark.parametrize(("left", "right"), pairs(SEPARATE))
def test_look_alikes_do_not_conflict(left, right):
    assert not left.scope.overlaps(right.scope)
    assert not right.scope.overlaps(left.scope)
    assert left.scope != right.scope


def test_no_conflict_is_missed_where_string_equality_misses_most():
    missed = wrong(CONFLICTING, expected=True)
    assert len(CONFLICTING) >= 28
    assert missed["string_equality"] > len(CONFLICTING) / 2
    assert missed == {"settlemark": 0, "string_equality": missed["string_equality"], "type_only": 0}


def test_no_conflict_is_invented_where_types_alone_invent_most():
    invented = wrong(SEPARATE, expected=False)
    assert len(SEPARATE) >= 28
    assert invented["type_only"] > len(SEPARATE) / 2
    assert invented["string_equality"] > 0, "a slash in an unescaped value makes it another resource's name"
    assert invented["settlemark"] == 0
