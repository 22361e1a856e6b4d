"""A JSON schema becomes a signature, whatever it says; and arguments are checked against it as it is."""

from __future__ import annotations

import inspect
import keyword
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlemark_adapters._schemas import Arguments, annotation

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "enum", "anyOf", "items", "$ref", "properties", "required", "default", "x"]),
            inner | st.sampled_from(["string", "array", "#", "#/properties"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": "string"}, str),
        ({"type": "integer"}, int),
        ({"type": "number"}, float),
        ({"type": "boolean"}, bool),
        ({"type": "null"}, type(None)),
        ({"type": "object", "properties": {"a": {}}}, dict[str, Any]),
        ({"type": "array", "items": {"type": "array"}}, list[list[Any]]),
        ({"type": ["string", "null"]}, str | None),
        ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}, int | list[str]),
        ({"oneOf": [{"type": "integer"}, {}]}, Any),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, int | None),
        ({"enum": ["a", 1, True]}, Literal["a", 1, True]),
        ({"enum": [1.5]}, Any),
        ({"enum": []}, Any),
        ({"const": "a"}, Literal["a"]),
        ({"$ref": "#/$defs/x~1y"}, int),
        ({"$ref": "#/$defs/x~0y"}, str),
        ({"$ref": "#/$defs/x~01y"}, bool),
        ({"$ref": "#/$defs/self"}, Any),
        ({"$ref": "$defs/x~1y"}, Any),
        ({"$ref": "#/missing"}, Any),
        ({"$ref": "https://elsewhere.example/schema"}, Any),
        ({"type": "date"}, Any),
        ({}, Any),
    ],
    ids=repr,
)
def test_each_kind_has_its_hint(schema, hint):
    told = {"x/y": {"type": "integer"}, "x~y": {"type": "string"}, "x~1y": {"type": "boolean"}}
    assert annotation(schema, {"$defs": {**told, "self": {"$ref": "#/$defs/self"}}}) == hint


def test_a_schema_is_followed_eight_levels_down_and_anything_may_be_beneath():
    def lists(levels):
        return {"type": "array", "items": lists(levels - 1)} if levels else {"type": "integer"}

    assert str(annotation(lists(8), {})).count("list[") == 8
    assert str(annotation(lists(8), {})).endswith("int]]]]]]]]")
    assert str(annotation(lists(9), {})).endswith("[typing.Any]]]]]]]]]")


def test_what_is_required_comes_first_and_what_is_not_has_a_default():
    arguments = Arguments(
        {
            "properties": {
                "limit": {"type": "integer", "default": 7},
                "style": {"type": "string"},
                "title": {"type": "string", "description": "Which\n  one."},
            },
            "required": ["title", "missing"],
        }
    )
    assert str(arguments.signature(Any)) == "(title: str, limit: int = 7, style: Optional[str] = None) -> Any"
    assert arguments.documented("Do it.\n") == "Do it.\n\nArgs:\n    title: Which one."


@given(st.lists(st.text(max_size=8), unique=True), st.data())
def test_every_name_is_one_that_python_allows_and_comes_back_as_it_was(names, data):
    required = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    arguments = Arguments({"properties": {name: {"type": "string"} for name in names}, "required": required})
    signature = arguments.signature(Any)
    assert all(n.isidentifier() and not keyword.iskeyword(n) and n != "self" for n in signature.parameters)
    given_ = dict.fromkeys(signature.parameters, "x")
    assert arguments.given(given_) == dict.fromkeys(names, "x")
    assert arguments.given(dict.fromkeys(signature.parameters)) == dict.fromkeys(required)


@given(JSON)
def test_nothing_that_a_server_says_makes_it_fail(schema):
    arguments = Arguments(schema if isinstance(schema, dict) else {"properties": schema})
    assert isinstance(arguments.signature(Any), inspect.Signature)
    arguments.wrong({"x": 1})


def test_what_is_wrong_is_named_and_nothing_is_fetched():
    arguments = Arguments({"properties": {"n": {"type": "integer"}, "s": {"maxLength": 1}}, "required": ["s"]})
    assert arguments.wrong({"n": 1, "s": "a"}) is None
    assert arguments.wrong({"n": "one", "s": "ab"}) == "n: 'one' is not of type 'integer'; s: 'ab' is too long"
    assert arguments.wrong({}) == "$: 's' is a required property"
    assert Arguments({"properties": {"n": {"$ref": "https://127.0.0.1:1/schema"}}}).wrong({"n": 1}) is None
