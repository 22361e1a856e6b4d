"""What can be stored as JSON: what of a value cannot is named with its place, and its depth has one limit."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import cycle, islice

import pytest

from settlemark import PayloadError
from settlemark._model.json_text import MOST_LEVELS, check, snapshot

PLAIN = {"list": lambda below: [below], "tuple": lambda below: (below,), "object": lambda below: {"in": below}}
SHAPES = {**PLAIN, "object of a class": lambda below: OrderedDict(a=below)}


def nested(levels, *shapes):
    value = "leaf"
    for shape in islice(cycle(shapes), levels):
        value = SHAPES[shape](value)
    return value


def test_as_many_levels_as_are_stated_are_stored_and_one_more_is_refused_whatever_they_are_made_of():
    for use, known in ((check, SHAPES), (snapshot, PLAIN)):
        for shapes in (*((shape,) for shape in known), tuple(known), tuple(reversed(known))):
            use(nested(MOST_LEVELS, *shapes))
            with pytest.raises(PayloadError, match="nested too deeply"):
                use(nested(MOST_LEVELS + 1, *shapes))
                pytest.fail(f"{shapes} were let through")


def test_what_cannot_be_stored_is_named_with_its_place_and_what_to_give_instead():
    for value, said in (
        ({"a": [1, {"b": {1}}]}, "$.a[1].b is a set, which JSON cannot hold: pass a list instead"),
        ({"a": (1, frozenset())}, "$.a[1] is a frozenset, which JSON cannot hold: pass a list instead"),
        ([deque()], "$[0] is a deque, which JSON cannot hold: pass plain data instead"),
        ({"a": float("nan")}, "$.a is nan, which JSON cannot hold: pass None or a string"),
        ([float("-inf")], "$[0] is -inf, which JSON cannot hold: pass None or a string"),
        ({"a": {1: 2}}, "$.a has the key 1: JSON keys are strings"),
        ({None: 2}, "$ has the key None: JSON keys are strings"),
        ([0, 1 << 13_000], "$[1] is a number too long to store: pass a string"),
        (b"bytes", "$ is a bytes, which JSON cannot hold: pass plain data instead"),
    ):
        with pytest.raises(PayloadError) as refused:
            check(value)
        assert str(refused.value).startswith(said)


def test_what_can_be_stored_is_let_through():
    for value in (
        None,
        True,
        0,
        -1,
        1 << 63,
        (1 << 12_999),
        0.5,
        "",
        "\u00fc\U0001f600",
        [],
        {},
        (),
        {"a": [None, {"b": ()}]},
    ):
        check(value)


def test_a_half_of_a_character_is_refused_in_a_value_and_in_a_key():
    for value, place in (({"a": "\ud83d"}, "$.a"), ({"\ud83d": 1}, "$"), (["\ud83d"], "$[0]"), ("\ud83d", "$")):
        with pytest.raises(PayloadError) as refused:
            check(value)
        assert str(refused.value).startswith(place + " ")


def test_a_snapshot_is_equal_and_shares_nothing_that_can_change():
    inner = [1]
    for value in (
        {"a": inner},
        [inner],
        (inner,),
        {"a": {"b": (inner,)}},
        OrderedDict(a=inner),
        {"k": 1, "l": [inner]},
    ):
        copied = snapshot(value)
        assert (copied, type(copied)) == (value, type(value))
        before = repr(copied)
        inner.append(2)
        assert repr(copied) == before
