"""What is generated in place of a tool's arguments is what its annotations allow, and small."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.extent import examples

from settlemark_adapters.testing import Example
from settlemark_adapters.testing._arguments import Pool


def weigh(pieces: int, kilos: float) -> None:
    """Weigh some pieces."""


@given(st.data())
def test_a_number_that_is_generated_is_none_below_zero_since_few_tools_take_those(data):
    arguments = data.draw(Pool([]).arguments(weigh, Example("weigh", {})))
    assert min(arguments.values()) >= 0


def is_of(*kinds):
    return lambda value: type(value) in kinds


def all_of(*kinds):
    return lambda value: type(value) is list and len(value) <= 3 and all(type(each) in kinds for each in value)


@pytest.mark.parametrize(
    ("hint", "allowed"),
    [
        (bool, is_of(bool)),
        (int, is_of(int)),
        (float, is_of(float)),
        (str, is_of(str)),
        (Any, is_of(str)),
        (None | int, is_of(int, type(None))),
        (Annotated[int, "of pieces"], is_of(int)),
        (Literal["red", "blue"], lambda value: value in ("red", "blue")),
        (list[int], all_of(int)),
        (list, is_of(str, list)),
        (dict[str, str], lambda value: all(name and type(text) is str for name, text in value.items())),
        (dict, is_of(dict)),
    ],
    ids=lambda each: "" if callable(each) and not isinstance(each, type) else str(each),
)
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_no_example_tells_is_made_as_its_annotation_allows(hint, allowed, data):
    def tool(value):
        """Take anything."""

    tool.__annotations__ = {"value": hint}
    (value,) = data.draw(Pool([]).arguments(tool, Example("tool", {}))).values()
    assert allowed(value)


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        (True, is_of(bool)),
        (7, is_of(int)),
        (-7, is_of(int)),
        (0.5, is_of(float)),
        ("room 7", is_of(str)),
        ([1, 2], all_of(int)),
        ([], lambda value: value == []),
        ({"to": "Ada", "n": 1}, lambda value: (type(value["to"]), type(value["n"]), len(value)) == (str, int, 2)),
        (None, lambda value: value is None),
    ],
    ids=lambda each: "" if callable(each) and not isinstance(each, type) else str(each),
)
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_an_example_tells_is_made_of_its_kind(said, allowed, data):
    def tool(value):
        """Take anything."""

    example = Example("tool", {"value": said})
    (value,) = data.draw(Pool([example]).arguments(tool, example)).values()
    assert allowed(value)


@given(st.data())
def test_what_has_a_default_may_be_left_out_and_what_takes_all_the_rest_gets_nothing(data):
    def tool(name, size=7, *rest, **more):
        """Take anything."""

    arguments = data.draw(Pool([]).arguments(tool, Example("tool", {})))
    assert {"name"} <= arguments.keys() <= {"name", "size"}


def test_the_values_of_all_examples_are_known_by_the_arguments_name_each_once_with_every_text_in_them():
    pool = Pool(
        [Example("a", {"to": "Ada", "in": {"of": ["x", 7]}}), Example("b", {"to": "Eve"}), Example("a", {"to": "Ada"})]
    )
    assert (pool.of("to"), pool.of("in"), pool.of("who")) == (["Ada", "Eve"], [{"of": ["x", 7]}], [])
    assert pool.texts == ["Ada", "x", "Eve"]
