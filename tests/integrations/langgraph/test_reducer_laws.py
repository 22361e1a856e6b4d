"""The laws that the channel contracts claim, for whatever is written."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from settlemark_langgraph import reducers
from settlemark_langgraph.channels import SingleWriter, latest_by_version

SCALARS = st.none() | st.integers(-9, 9) | st.text("ab", max_size=2)
KEYED = st.fixed_dictionaries(
    {"id": st.integers(0, 3) | st.just([1])}, optional={"a": st.integers(0, 9), "b": st.integers(0, 9)}
)
ITEMS = KEYED | st.fixed_dictionaries({}, optional={"id": st.none(), "a": st.integers(0, 9)}) | st.integers(0, 9)
LAWFUL = [
    (reducers.keep_last, SCALARS),
    (reducers.append, st.none() | st.lists(ITEMS, max_size=4)),
    (reducers.add, st.none() | st.integers()),
    (reducers.merge_by_key("id"), st.none() | st.lists(ITEMS, max_size=4)),
    (reducers.dedupe_by_id, st.none() | st.lists(ITEMS, max_size=4)),
]


@pytest.mark.parametrize(("reduce", "values"), LAWFUL, ids=lambda given: getattr(given, "__name__", ""))
@given(data=st.data())
def test_reducers_are_associative_with_none_as_identity_and_change_no_argument(reduce, values, data):
    a, b, c = (data.draw(values) for _ in range(3))
    before = copy.deepcopy((a, b, c))

    assert reduce(reduce(a, b), c) == reduce(a, reduce(b, c))
    assert reduce(reduce(a, None), b) == reduce(reduce(None, a), b) == reduce(a, b)
    assert (a, b, c) == before


@given(st.integers(), st.integers())
def test_add_is_commutative(a, b):
    assert reducers.add(a, b) == reducers.add(b, a)


@given(SCALARS)
def test_keep_last_is_idempotent(a):
    assert reducers.keep_last(a, a) == a


@given(st.lists(KEYED), st.lists(KEYED))
def test_merging_the_same_batch_again_at_once_changes_nothing(a, b):
    merge = reducers.merge_by_key("id")

    assert merge(merge(a, b), b) == merge(a, b)


@given(st.lists(ITEMS), st.lists(ITEMS))
def test_merging_loses_no_item_and_no_field(a, b):
    merged = reducers.merge_by_key("id")(a, b)

    for item in a + b:
        if isinstance(item, dict) and item.get("id") is not None:
            (found,) = (other for other in merged if isinstance(other, dict) and other.get("id") == item["id"])
            assert found.keys() >= item.keys()
        else:
            assert merged.count(item) == (a + b).count(item)


@given(st.lists(KEYED), st.lists(KEYED))
def test_what_is_delivered_again_at_any_later_time_is_there_once(a, b):
    once = reducers.dedupe_by_id(a, b)

    assert reducers.dedupe_by_id(once, a) == reducers.dedupe_by_id(once, b) == once
    firsts = [item for n, item in enumerate(a + b) if item["id"] not in [other["id"] for other in (a + b)[:n]]]
    assert once == firsts


def test_messages_are_told_apart_by_their_ids():
    one, two = AIMessage("one", id="1"), AIMessage("two", id="2")

    assert reducers.dedupe_by_id([one, AIMessage("no id")], [two, one, AIMessage("no id")]) == [
        one,
        AIMessage("no id"),
        two,
        AIMessage("no id"),
    ]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b"]))))
def test_every_versioned_write_is_either_the_next_version_of_its_base_or_on_record(attempts):
    record: Any = {}
    applied = []
    for n, (base, writer) in enumerate(attempts):
        before = record
        record = latest_by_version(record, {"value": n, "based_on": base, "by": writer})
        if record["version"] != before.get("version", 0):
            assert base == before.get("version", 0)
            applied.append((record["version"], n))

    assert [version for version, _ in applied] == list(range(1, len(applied) + 1))
    lost = [value for conflict in reducers.conflicts(record) for value in conflict["values"]]
    assert sorted(lost + [n for _, n in applied]) == list(range(len(attempts)))


JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["value", "version", "based_on", "by", "after", "last", "conflicts", "$resolved", "$written"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=8,
)


@given(st.lists(JUNK, max_size=4))
def test_no_write_whatever_makes_a_channel_raise(steps):
    record: Any = {}
    channel = SingleWriter(str)
    for write in steps:
        record = latest_by_version(record, write)
        for step in ([write], [write, write]):
            channel.update(step)
            channel = channel.from_checkpoint(channel.checkpoint())

    assert isinstance(record.get("version", 0), int | str)
    for held in [record, channel.get()] if channel.is_available() else [record]:
        assert isinstance(held.get("conflicts", []), list)


@given(st.lists(st.lists(st.none() | st.integers(0, 2), max_size=3)), st.randoms())
def test_a_single_writer_channel_holds_the_last_undisputed_value_in_whatever_order_the_writes_come(steps, random):
    channel, shuffled, held, disputes = SingleWriter(str), SingleWriter(str), None, []
    for step in steps:
        channel.update(step)
        shuffled.update(random.sample(step, len(step)))
        channel = channel.from_checkpoint(channel.checkpoint())
        writers = [value for value in step if value not in {None, held}]
        if len(writers) > 1:
            held = None
            disputes.append(writers)
        elif writers:
            (held,) = writers

    record = channel.get() if channel.is_available() else {}
    other = shuffled.get() if shuffled.is_available() else {}
    assert (
        (record.get("value"), "value" in record) == (other.get("value"), "value" in other) == (held, held is not None)
    )
    assert [conflict["values"] for conflict in reducers.conflicts(record)] == disputes
    assert [sorted(c["values"]) for c in reducers.conflicts(other)] == list(map(sorted, disputes))
