"""Payloads are JSON: what is accepted comes back equal, the rest is refused with its place named."""

from __future__ import annotations

import enum
import gc
import json
import math
from collections import OrderedDict
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.model import check, decode, encode, encode_result, fingerprint

from settlemark import PayloadError, State, effect
from settlemark.hosting import host_of, json_text

texts = st.text(st.characters(exclude_categories=["Cs"]))
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)


class Hue(enum.StrEnum):
    RED = "red"


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no picture of me")


def looped():
    value: list[object] = []
    value.append(value)
    return value


@pytest.fixture(autouse=True)
def collector_elsewhere():
    """Some of these go to the end of the stack, where a finalizer of other tests' leavings would fail."""
    gc.disable()
    yield
    gc.enable()


def deep():
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    return value


@given(values)
def test_what_is_encoded_comes_back_equal(value):
    assert decode(encode(value)) == value


@given(st.dictionaries(texts, leaves))
def test_the_order_of_keys_does_not_change_the_text(value):
    turned = dict(reversed(value.items()))
    assert encode(turned) == encode(value)
    assert fingerprint(encode(turned)) == fingerprint(encode(value))


@given(values, values)
def test_fingerprints_are_equal_exactly_when_the_texts_are(one, other):
    assert (fingerprint(encode(one)) == fingerprint(encode(other))) == (encode(one) == encode(other))


@given(values)
def test_what_check_accepts_can_be_encoded_and_stored(value):
    check(value)
    encode(value).encode()


@pytest.mark.parametrize(
    ("value", "path", "told"),
    [
        ({"when": {1, 2}}, "$.when", "is a set, which JSON cannot hold: pass a list instead"),
        ({"when": frozenset()}, "$.when", "is a frozenset, which JSON cannot hold: pass a list instead"),
        ([1, [object()]], "$[1][0]", "is a object, which JSON cannot hold: pass plain data instead"),
        (b"raw", "$", "is a bytes, which JSON cannot hold: pass plain data instead"),
        ({"x": math.nan}, "$.x", "is nan, which JSON cannot hold: pass None or a string"),
        ({"x": (1.0, -math.inf)}, "$.x[1]", "is -inf, which JSON cannot hold: pass None or a string"),
        ({"a": {1: 2}}, "$.a", "has the key 1: JSON keys are strings"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value, path, told):
    for refuse in (check, encode):
        with pytest.raises(PayloadError) as refused:
            refuse(value)
        assert str(refused.value) == f"{path} {told}"
        assert refused.value.path == path


@pytest.mark.parametrize("value", ["\ud800", {"name": "a\udfffb"}, {"\ud800": 1}])
def test_half_a_character_is_refused_since_no_store_can_hold_it(value):
    with pytest.raises(PayloadError, match="lone surrogate"):
        encode(value)


@pytest.mark.parametrize("make", [looped, deep])
def test_a_value_that_never_ends_is_refused(make):
    with pytest.raises(PayloadError, match="nested too deeply"):
        encode(make())


def test_a_number_too_long_to_write_is_refused():
    with pytest.raises(PayloadError, match="too long"):
        encode({"n": 10**5000})


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ((1, (2,)), [1, [2]]),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (MappingProxyType({"id": MappingProxyType({"n": 7})}), {"id": {"n": 7}}),
        (Hue.RED, "red"),
        (None, None),
    ],
)
def test_every_mapping_and_sequence_comes_back_plain(value, back):
    assert decode(encode(value)) == back


def test_a_result_json_cannot_hold_is_kept_as_its_picture():
    assert json.loads(encode_result({1, 2}))["$repr"] == "{1, 2}"
    assert json.loads(encode_result([{"x": math.nan}])) == {"$repr": "[{'x': nan}]"}


class Exits(dict):
    """Every look at it ends the program."""

    def _exits(self, *_args):
        raise SystemExit(3)

    __repr__ = __deepcopy__ = items = _exits


@pytest.mark.parametrize(
    "value", [looped(), Unprintable(), 10**5000, [Unprintable()], Exits(), [Exits()]], ids="abcdef"
)
def test_recording_a_result_never_fails_and_gives_storable_text(value):
    assert "$repr" in json.loads(encode_result(value).encode())


@pytest.mark.parametrize("kind", ["read", "reversible", "idempotent", "irreversible"])
def test_a_result_that_ends_the_program_of_whoever_looks_at_it_ends_no_transaction_halfway(settlement, kind):
    undo = {"undo": lambda: None} if kind == "reversible" else {}
    tool = effect(kind, scope="room:/a", name="tool", **undo)(lambda: Exits())
    with settlement.transaction("trip") as tx:
        tx.call(tool)
    assert [found.state for found in settlement.transactions()] == ([] if kind == "read" else [State.COMMITTED])
    assert (host_of(settlement).protocol.live, settlement.residue()) == ({}, [])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": "\ud83d", "a": [1, {"\udc00": None}]}, '{"a":[1,{"\\udc00":null}],"b":"\\ud83d"}'),
        (MappingProxyType({"half": ("\ud83d", 0.5)}), '{"half":["\\ud83d",0.5]}'),
    ],
)
def test_a_result_with_half_a_character_comes_back_whole_from_one_text_for_one_value(value, text):
    assert encode_result(value) == text
    assert encode_result(dict(reversed(value.items()))) == text


@pytest.mark.parametrize("more", [{"when": set()}, {7: "seven"}, {"x": math.nan}, {"n": 10**5000}], ids="abcd")
def test_half_a_character_beside_what_json_cannot_hold_makes_nothing_else_of_that(more):
    assert "$repr" in json.loads(encode_result({"half": "\ud83d", **more}))


# ---- as much as a store takes in one field


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"text": "x" * 20}, 31),
        ({f"{n}": "x" for n in range(10)}, 81),  # of which none is long
        (["x" * 20], 24),
        ("\xe9" * 10, 22),  # characters of two bytes each
    ],
)
def test_no_payload_is_longer_than_its_store_takes_and_a_message_that_is_ends_its_connection(monkeypatch, value, size):
    monkeypatch.setattr(json_text, "_MOST_BYTES", size)
    assert len(encode(value).encode()) == size
    assert encode_result(value) == encode(value)
    monkeypatch.setattr(json_text, "_MOST_BYTES", size - 1)
    with pytest.raises(PayloadError, match=r"^\$ is over [0-9]+ bytes long as JSON: store it elsewhere"):
        encode(value)
    assert "$repr" in json.loads(encode_result(value))


def test_a_result_with_half_a_character_is_no_longer_either(monkeypatch):
    monkeypatch.setattr(json_text, "_MOST_BYTES", 10)
    assert encode_result("\ud83dxx") == '"\\ud83dxx"'
    assert json.loads(encode_result("\ud83dxxx"))["$repr"].endswith("xxx'")


def test_no_text_is_no_value():
    assert decode(None) is None
