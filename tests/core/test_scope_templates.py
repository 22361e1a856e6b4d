"""A template turns a call's arguments into the scope of that call, and no value escapes its place."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath, PureWindowsPath
from types import MappingProxyType
from unicodedata import normalize
from uuid import UUID

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from settlemark import Scope, ScopeError, ScopeTemplate
from settlemark.hosting import escape

awkward = st.text(alphabet="aAcCF.:*%/\\{} \t~\u0301\u0338\u0e38\x00\x85\u00e9")
values = (st.text() | awkward).filter(lambda text: text and not text.isspace())


class Colour(Enum):
    RED = "red"
    NONE = None


class Wing(StrEnum):
    EAST = "east/1"


class Floor(IntEnum):
    GROUND = 0


@dataclass
class Order:
    id: object


# --- one segment ------------------------------------------------------------------------------------


@given(values)
@example("..")
@example("c:")
@example("**")
@example("*\u0300")
@example(" Ada ")
def test_any_text_fills_exactly_one_segment_and_no_wildcard(value):
    scope = ScopeTemplate.parse("room:/{x}").fill({"x": value})
    assert (scope.type, len(scope.segments), scope.has_wildcard) == ("room", 1, False)
    assert scope.segments == (escape(value),)
    assert Scope.parse(scope.text) == scope


@given(values, values)
@example("c:", "C:")
@example("%41", "A")
@example("a/b", "a%2Fb")
@example("..", "%2E%2E")
@example("Ada", "Ada ")
def test_different_texts_fill_scopes_that_do_not_overlap(left, right):
    template = ScopeTemplate.parse("room:/{x}")
    same = normalize("NFC", left) == normalize("NFC", right)
    filled = template.fill({"x": left}), template.fill({"x": right})
    assert (filled[0] == filled[1]) is same
    assert filled[0].overlaps(filled[1]) is same


@given(values)
def test_composed_and_decomposed_values_fill_the_same_scope(value):
    template = ScopeTemplate.parse("room:/{x}/1")
    composed, decomposed = normalize("NFC", value), normalize("NFD", value)
    assert template.fill({"x": composed}) == template.fill({"x": decomposed})


@given(values)
def test_escaping_what_the_escape_spells_is_a_round_trip(value):
    written = escape(value)
    assert Scope.parse(f"room:/{written}").segments == (written,)
    assert normalize("NFC", written) == written


@given(values, st.sampled_from(["room:/{x}", "room:/a-{x}", "room:/.{x}", "file:{x}:/p"]))
@example("c", "file:/{x}:/p")
@example(".", "room:/.{x}")
@example("\u0301", "room:/e{x}")
def test_filling_is_parsing_the_text_with_the_escaped_value_in_place(value, text):
    assert ScopeTemplate.parse(text).fill({"x": value}) == Scope.parse(text.replace("{x}", escape(value)))


@given(values, values)
def test_a_value_moves_no_other_segment(hotel, day):
    scope = ScopeTemplate.parse("room:/all/{hotel}/{day}/end").fill({"hotel": hotel, "day": day})
    assert scope.parts == ("room", "all", escape(hotel), escape(day), "end")


NAMES = [
    ("Ada", "Ada"),
    (7, "7"),
    (-7, "-7"),
    (0, "0"),
    (True, "true"),
    (False, "false"),
    (1.5, "1.5"),
    (2.0, "2"),
    (-0.0, "0"),
    (1e300, str(int(1e300))),
    (date(2026, 12, 1), "2026-12-01"),
    (datetime(2026, 12, 1, 9, 30, tzinfo=UTC), "2026-12-01T09:30:00+00:00"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Colour.RED, "red"),
    (Wing.EAST, "east%2F1"),
    (Floor.GROUND, "0"),
    ("a b", "a b"),
    (" a", "%20a"),
    ("\ta", "%09a"),
    ("a/b", "a%2Fb"),
    ("a\\b", "a%5Cb"),
    ("*", "%2A"),
    ("50%", "50%25"),
    ("{x}", "%7Bx%7D"),
    (".", "%2E"),
    ("..", "%2E%2E"),
    ("...", "..."),
    ("c:", "c%3A"),
    ("C:", "C:"),
    ("e\u0301", "\u00e9"),
]


@pytest.mark.parametrize(("value", "written"), NAMES)
def test_a_value_is_written_as_its_segment(value, written):
    assert escape(value) == written
    assert ScopeTemplate.parse("room:/{x}").fill({"x": value}) == Scope.parse(f"room:/{written}")


NO_NAMES = [
    (None, "None names no resource: give a value"),
    ("", "'' names no resource: give a value"),
    (" \t", "' \\t' names no resource: give a value"),
    (Colour.NONE, "None names no resource: give a value"),
    (float("nan"), "nan names no resource: give a finite number"),
    (float("-inf"), "-inf names no resource: give a finite number"),
    (1 << 2048, "a number of 2049 bits is too long a name"),
    ("a\ud800", "'a\\ud800' is not valid Unicode and names no resource"),
    ([1], "a list names no resource: give a text, number, date, UUID or Enum"),
    ({}, "a dict names no resource: give a text, number, date, UUID or Enum"),
    (b"a", "a bytes names no resource: give a text, number, date, UUID or Enum"),
    (1j, "a complex names no resource: give a text, number, date, UUID or Enum"),
]
NO_SEGMENT = (
    PurePosixPath("a/b"),
    "a PurePosixPath is several segments: write '{name:path}' in the template",
)


@pytest.mark.parametrize(("value", "why"), [*NO_NAMES, NO_SEGMENT])
def test_a_value_that_names_nothing_is_refused(value, why):
    with pytest.raises(ScopeError) as refused:
        escape(value)
    assert str(refused.value) == why


@pytest.mark.parametrize("text", ["room:/{x}", "room:/{x:path}", "room:/a-{x}"])
@pytest.mark.parametrize(("value", "why"), NO_NAMES)
def test_the_refusal_of_a_value_names_the_template_and_the_argument(text, value, why):
    with pytest.raises(ScopeError) as refused:
        ScopeTemplate.parse(text).fill({"x": value})
    assert str(refused.value) == f"the scope template {text!r} cannot be filled: argument 'x': {why}"
    assert refused.value.data == {"text": text, "argument": "x"}


# --- several segments -------------------------------------------------------------------------------


@given(st.text() | awkward, st.text() | awkward)
@example("a/../../b", "c")
@example("**", "*")
@example("c:\\x", "C:/x")
def test_a_path_stays_below_the_place_where_it_starts(left, right):
    template = ScopeTemplate.parse("file:/srv/{p:path}")
    filled = []
    for value in (left, right):
        try:
            filled.append(template.fill({"p": value}))
        except ScopeError:
            assume(False)
    assert [scope.parts[:2] for scope in filled] == [("file", "srv")] * 2
    assert not any(scope.has_wildcard for scope in filled)
    assert [Scope.parse(scope.text) for scope in filled] == filled


PATHS = [
    ("a/b", "file:/srv/a/b/end"),
    ("/a//b/", "file:/srv/a/b/end"),
    (r"a\b", "file:/srv/a/b/end"),
    ("./a/./b", "file:/srv/a/b/end"),
    ("a/x/../b", "file:/srv/a/b/end"),
    ("a/..", "file:/srv/end"),
    ("/", "file:/srv/end"),
    (".", "file:/srv/end"),
    ("a/*", "file:/srv/a/%2A/end"),
    ("**", "file:/srv/%2A%2A/end"),
    ("a%2Fb", "file:/srv/a%252Fb/end"),
    ("{x}", "file:/srv/%7Bx%7D/end"),
    (r"c:\a", "file:/srv/C:/a/end"),
    (" a /b", "file:/srv/%20a%20/b/end"),
    ("e\u0301", "file:/srv/\u00e9/end"),
    (7, "file:/srv/7/end"),
    (PurePosixPath("/a/b"), "file:/srv/a/b/end"),
    (PureWindowsPath(r"c:\a\b"), "file:/srv/C:/a/b/end"),
    (PureWindowsPath(r"\\server\share\a"), "file:/srv/server/share/a/end"),
]


@pytest.mark.parametrize(("value", "expected"), PATHS)
def test_a_path_is_split_and_collapsed(value, expected):
    assert ScopeTemplate.parse("file:/srv/{p:path}/end").fill({"p": value}).text == expected


@pytest.mark.parametrize("value", ["..", "../x", "a/../../x", r"a\..\..", "./..", PurePosixPath("../x")])
def test_a_path_that_climbs_above_its_start_is_refused(value):
    with pytest.raises(ScopeError) as refused:
        ScopeTemplate.parse("file:/srv/app/{p:path}").fill({"p": value})
    assert str(refused.value) == (
        "the scope template 'file:/srv/app/{p:path}' cannot be filled: argument 'p': "
        f"{str(value)!r} climbs with '..' above the place where it starts"
    )
    assert refused.value.data == {"text": "file:/srv/app/{p:path}", "argument": "p"}


# --- the template -----------------------------------------------------------------------------------


def test_the_fields_are_the_arguments_in_order_and_once_each():
    template = ScopeTemplate.parse("room:/{hotel}/{date}/{hotel}-{guest.id}/{path:path}")
    assert template.fields == ("hotel", "date", "guest", "path")


def test_a_template_without_fields_is_one_scope():
    template = ScopeTemplate.parse(" ROOM:/Ada/./* ")
    assert (template.fields, template.text, str(template)) == ((), "ROOM:/Ada/./*", "ROOM:/Ada/./*")
    assert template.fill({}) is template.fill({"x": 1})
    assert template.fill({}).text == "room:/Ada/*"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ROOM:{x}", "room:/1"),
        ("room:///{x}//./y/", "room:/1/y"),
        (r"room:\a\{x}", "room:/a/1"),
        ("room:/a/../{x}", "room:/1"),
        ("room:/%41/{x}", "room:/A/1"),
        ("room:/rose\u0301/{x}", "room:/ros\u00e9/1"),
        ("room:/{x}/**", "room:/1"),
        ("room:/*/{x}", "room:/*/1"),
        ("room:/{x}/*", "room:/1/*"),
        ("room:/order-{x}", "room:/order-1"),
        ("room:/{x}{x}", "room:/11"),
        ("room:/%7B{x}%7D", "room:/%7B1%7D"),
        ("file:c:/{x}", "file:/C:/1"),
        ("file:/{x}/x:", "file:/1/X:"),
    ],
)
def test_the_text_around_the_fields_is_canonical_too(text, expected):
    scope = ScopeTemplate.parse(text).fill({"x": 1, "unused": object()})
    assert (scope.text, scope) == (expected, Scope.parse(expected))
    assert scope.has_wildcard == ("*" in expected)


@pytest.mark.parametrize(
    "order", [{"id": 7}, MappingProxyType({"id": 7}), Order(7)], ids=["dict", "mapping", "attribute"]
)
def test_a_dotted_field_takes_a_key_or_an_attribute(order):
    assert ScopeTemplate.parse("order:/{order.id}").fill({"order": order}).text == "order:/7"


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({}, "a dict has no 'id'"),
        (7, "an int has no 'id'"),
        (Order(None), "None names no resource: give a value"),
        (Order([1]), "a list names no resource: give a text, number, date, UUID or Enum"),
    ],
)
def test_a_dotted_field_without_a_value_is_refused(order, why):
    with pytest.raises(ScopeError) as refused:
        ScopeTemplate.parse("order:/{order.id}").fill({"order": order})
    assert str(refused.value) == (
        f"the scope template 'order:/{{order.id}}' cannot be filled: argument 'order.id': {why}"
    )
    assert refused.value.data == {"text": "order:/{order.id}", "argument": "order"}


@pytest.mark.parametrize(("arguments", "given_names"), [({}, "none"), ({"hotel": "Ada", "b": 1}, "hotel, b")])
def test_a_missing_argument_is_named(arguments, given_names):
    with pytest.raises(ScopeError) as refused:
        ScopeTemplate.parse("room:/{x}").fill(arguments)
    assert str(refused.value) == (
        f"the scope template 'room:/{{x}}' cannot be filled: argument 'x': it is missing (given: {given_names})"
    )
    assert refused.value.data == {"text": "room:/{x}", "argument": "x"}


TYPELESS = "needs a type that comes from no argument: write for example 'room:/{hotel}'"
DOUBLED = "has a doubled brace: write '%7B' or '%7D' for a brace"
UNMATCHED = "has an unmatched brace: close it, or write '%7B' or '%7D' for a brace"
REFUSED = [
    ("", "is empty: write for example 'room:/Ada'"),
    ("Ada", "has no type: write 'room:/Ada' or the like"),
    ("c:/{x}", "begins with a drive letter: write 'file:/C:/{x}', or a longer type"),
    ("{x}:/a", TYPELESS),
    ("{x:path}", TYPELESS),
    ("room/{x}", TYPELESS),
    ("ro{x}om:/a", TYPELESS),
    ("room:/{{x}}", DOUBLED),
    ("room:/x}}", DOUBLED),
    ("room:/{x", UNMATCHED),
    ("room:/x}", UNMATCHED),
    ("room:/{a{x}", UNMATCHED),
    ("room:/{}", "has the field '': name an argument, as in '{order}' or '{order.id}'"),
    ("room:/{0}", "has the field '0': name an argument, as in '{order}' or '{order.id}'"),
    ("room:/{ x}", "has the field ' x': name an argument, as in '{order}' or '{order.id}'"),
    ("room:/{x!r}", "has the field 'x!r': name an argument, as in '{order}' or '{order.id}'"),
    ("room:/{x.}", "has the field 'x.': name an argument, as in '{order}' or '{order.id}'"),
    ("room:/{x[id]}", "has the field 'x[id]': name an argument, as in '{order}' or '{order.id}'"),
    ("room:/{x.y.z}", "has the field 'x.y.z': name an argument, as in '{order}' or '{order.id}'"),
    ("room:/{x:d}", "has the unknown format 'd': write '{x}' or '{x:path}'"),
    ("room:/{x:}", "has the unknown format '': write '{x}' or '{x:path}'"),
    ("room:/{x.y:paths}", "has the unknown format 'paths': write '{x.y}' or '{x.y:path}'"),
    ("room:/a{x:path}", "has '{x:path}' within a segment: put it between slashes"),
    ("room:/{y}{x:path}", "has '{x:path}' within a segment: put it between slashes"),
    ("room:/{x}/..", "drops an argument with '..': remove both"),
    ("room:/a/../../{x}", "climbs above its root: remove a '..', or write '%2E%2E' for a name of two dots"),
    ("room:/**/{x}", "goes on after '**', the rest: end there, or write '*' for one segment"),
    ("room:/a*/{x}", "has '*' within a segment: make it the whole segment, or write '%2A' for a star"),
    ("room:/*{x}", "has '*' within a segment: make it the whole segment, or write '%2A' for a star"),
    ("room:/%4{x}", "has '%4', which is not escaped UTF-8: write '%25' for a percent sign"),
    ("room:/%C3{x}", "has '%C3', which is not escaped UTF-8: write '%25' for a percent sign"),
    ("room:/\x00{x}", "has the control character '\\x00': remove it, or write %00"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_a_bad_template_is_refused_before_any_call(text, why):
    for _attempt in ("first", "cached"):
        with pytest.raises(ScopeError) as refused:
            ScopeTemplate.parse(text)
        assert str(refused.value) == f"the scope {text!r} {why}"
        assert refused.value.data == {"text": text}


@pytest.mark.parametrize(("value", "called"), [(7, "an int"), ([], "a list")])
def test_a_template_that_is_no_text_is_refused(value, called):
    with pytest.raises(ScopeError) as refused:
        ScopeTemplate.parse(value)
    assert str(refused.value) == f"a scope is a text such as 'room:/Ada', not {called}"


def test_templates_are_cached_and_compare_by_text():
    template = ScopeTemplate.parse("room:/{x}")
    assert ScopeTemplate.parse("room:/{x}") is template
    twin = pickle.loads(pickle.dumps(template))
    assert (twin, hash(twin), repr(twin)) == (template, hash(template), "ScopeTemplate('room:/{x}')")
    assert twin.fill({"x": 1}) == template.fill({"x": 1})
    assert template != ScopeTemplate.parse("room:/{y}")
    assert template != "room:/{x}"
