"""Each detector finds exactly what its definition names, in one pass, and tells one witness that is true."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.core.history import naive
from tests.extent import ALL, examples
from tests.rooms.history import Beside, CausalCascade, Latest, Write, comparable

from settlemark.history import ANOMALIES, HistoryError, OpRecord, analyze, ordered
from settlemark.history._detect.detectors import Residue, _remembered

CELLS, AGENTS = "xyz", ["ada", "bob", "cy"]
LONG = "v" * 100
values = st.sampled_from(
    [None, "v0", "v1", 0, 1, 1.0, True, False, [1], [1.0], [True], {"a": 1}, {"a": 1.0, "b": LONG}, LONG, [LONG]]
)
written = st.dictionaries(st.sampled_from(CELLS), values, max_size=2)
grouped = st.dictionaries(st.sampled_from(CELLS), st.sampled_from(["add", "add", "append"]), max_size=3)
pairs = st.lists(st.tuples(st.sampled_from("mn"), st.sampled_from([1, 2])), max_size=3)


@st.composite
def histories(draw, most=12):
    """Histories whose write times are their places, so that every window and every chain of them occurs.

    Supersteps may begin anew, preds be anywhere or nowhere, and ids be used again.
    """
    steps = draw(st.lists(st.integers(1, 4), min_size=0, max_size=most))
    if draw(st.booleans()):
        steps.sort()
    places = st.integers(1, len(steps) + 1).map(str)
    again = draw(st.booleans())
    history = []
    for place, step in enumerate(steps, 1):
        issued = draw(pairs)
        wrote, groups = draw(written), draw(grouped)
        registry = draw(st.dictionaries(st.sampled_from(["t", "u"]), st.sampled_from(["1", "2"]), max_size=2))
        history.append(
            OpRecord(
                agent=draw(st.sampled_from(AGENTS)),
                read_time=draw(st.integers(0, place - 1)),
                write_time=place,
                read_values=draw(written),
                write_values=wrote,
                commutes={cell: group for cell, group in groups.items() if cell in wrote},
                planned_tool=draw(st.sampled_from([None, "t", "u"])),
                read_registry=registry,
                write_registry=draw(st.sampled_from([registry, {"t": "1"}, {}])),
                io=issued,
                co=draw(st.permutations(issued) | pairs),
                aborted=draw(st.booleans()),
                id=draw(st.just("") | places) if again else "",
                preds=draw(st.lists(places, max_size=2)),
                direct=draw(st.booleans()),
                externalized=draw(st.booleans()),
                read_barrier=draw(st.none() | st.integers(0, 4)),
                write_barrier=draw(st.sampled_from([None, step])),
            )
        )
    return history


@settings(max_examples=500 if ALL else examples(100))
@given(histories())
def test_what_is_counted_is_what_the_definition_names(history):
    found = analyze(history)
    assert {verdict.anomaly: verdict.count for verdict in found.verdicts} == {
        anomaly: len(definition(history)) for anomaly, definition in naive.ALL.items()
    }


@settings(max_examples=500 if ALL else examples(100))
@given(histories())
def test_every_witness_names_a_record_that_has_it(history):
    for verdict in analyze(history).verdicts:
        places = naive.ALL[verdict.anomaly](history)
        assert {witness.records[0] for witness in verdict.witnesses} <= places
        assert bool(verdict.witnesses) == bool(places)


@settings(max_examples=500 if ALL else examples(100))
@given(histories())
def test_the_level_is_the_first_anomaly_on_the_path_that_is_there(history):
    found = analyze(history)
    present = [bool(naive.ALL[anomaly](history)) for anomaly in ANOMALIES]
    assert (int(found.level), found.point) == (
        present.index(True) if any(present) else 4,
        {anomaly for anomaly, there in zip(ANOMALIES, present, strict=True) if not there},
    )


@settings(max_examples=500 if ALL else examples(100))
@given(histories(most=8))
def test_a_witness_of_a_cascade_names_a_retracted_record_that_was_observed(history):
    found = analyze(history)
    for reader, behind in (witness.records for name in ("A3", "A3x") for witness in found[name].witnesses):
        assert behind in naive.closure(history)[reader - 1]
        assert history[behind - 1].aborted


def test_who_waits_for_a_record_is_forgotten_when_it_has_come():
    cascade = CausalCascade()
    chain = [OpRecord(agent="a", read_time=0, write_time=n, preds=[str(n + 1)], direct=True) for n in range(1, 50)]
    for place, record in enumerate([*chain, OpRecord(agent="a", read_time=0, write_time=50)], 1):
        cascade.add(place, record)
    assert (cascade._waiting, cascade._suspects) == ({}, {})
    assert [verdict.count for verdict in cascade.verdicts()] == [0, 0]


documents = st.recursive(
    values | st.text(max_size=3) | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(documents, documents)
@example([1], [1.0])
@example([1], [True])
@example({"a": 1, "b": 2}, {"b": 2.0, "a": 1.0})
@example(LONG, [LONG])
@example("[1]", [1])
@example(2**60 * 1.0, 2**60)
@example([1e300], [int(1e300)])
@example([[1], 2], [[1, 2]])
@example([], {})
@example([True], [["true"]])
@example(True, ["true"])
def test_values_are_remembered_as_the_same_exactly_when_they_are(one, other):
    assert (_remembered(one) == _remembered(other)) is (comparable(one) == comparable(other))
    assert _remembered([one]) == _remembered((one,))
    assert hash(_remembered([one])) == hash(_remembered(json.loads(json.dumps([one]))))


def test_a_history_of_large_documents_is_remembered_by_a_digest_of_each():
    residue = Residue()
    for place in range(1, 50):
        document = {"text": f"{place}" * 10_000}
        residue.add(place, OpRecord(agent="a", read_time=0, write_time=place, write_values={"c": document}))
    assert {len(known) for known in residue._written["c"]} == {16}


writes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40)


@given(writes)
@example([(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)])
def test_a_handful_of_a_cells_writes_answers_every_question_about_all_of_them(history):
    latest, known = None, []
    for time, (agent, value) in enumerate(history, 1):
        write = Write(time, str(agent), value, time)
        if latest is None:
            latest = Latest(write)
        else:
            latest.add(write)
        known.insert(0, (time, str(agent), value))
        for asker in map(str, range(6)):
            for seen in range(6):
                expected = next((t for t, a, v in known if a != asker and v != seen), None)
                found = latest.other(asker, seen)
                assert (found and found.time) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([None, "g", "h", "i"])), max_size=40))
@example([(n % 3, n % 4, [None, "g", "h", "i", "j"][n % 5]) for n in range(200)])
def test_a_few_more_answer_every_question_about_those_of_another_group(history):
    latest, known = None, []
    for time, (agent, value, group) in enumerate(history, 1):
        write = Write(time, str(agent), value, time, group=group)
        if latest is None:
            latest = Latest(write)
        else:
            latest.add(write)
        known.insert(0, (time, str(agent), value, group))
    for asker, seen, mine in product(map(str, range(5)), range(5), "ghij"):
        expected = next((t for t, a, v, g in known if a != asker and v != seen and g != mine), None)
        found = latest.beside(asker, seen, mine) if latest else None
        assert (found and found.time) == expected


def test_of_a_cell_that_is_added_to_for_long_a_handful_of_writes_is_kept():
    beside = Beside([])
    for time in range(1, 1_000):
        beside.add(Write(time, f"agent{time % 7}", time, time, group=f"group{time % 5}"))
    assert len(beside._kept) <= 64


def adds(agent, read_time, time, **parts):
    """A record of one addition to a sum, which read the sum to add to it."""
    given = {"read_values": {"sum": read_time}, "write_values": {"sum": time}, "commutes": {"sum": "add"}}
    return OpRecord(agent=agent, read_time=read_time, write_time=time, **given | parts)


PLAIN = {"a plain effect": {"commutes": {}}, "another group": {"commutes": {"sum": "multiply"}}}


def counts(history):
    return {verdict.anomaly: verdict.count for verdict in analyze(history).verdicts if verdict.count}


def test_between_effects_that_commute_nothing_is_stale():
    seeded = OpRecord(agent="setup", read_time=0, write_time=1, write_values={"sum": 1})
    assert counts([seeded, adds("ada", 1, 2), adds("bob", 1, 3), adds("ada", 1, 4)]) == {}


@pytest.mark.parametrize("parts", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("who", ["the reader", "the writer"])
def test_beside_another_effect_one_that_commutes_is_stale_as_ever(who, parts):
    seeded = OpRecord(agent="setup", read_time=0, write_time=1, write_values={"sum": 1})
    writer, reader = (parts, {}) if who == "the writer" else ({}, parts)
    history = [seeded, adds("ada", 1, 2, **writer), adds("cy", 1, 3), adds("bob", 1, 4, **reader)]
    assert counts(history)["A1"] == (2 if who == "the writer" else 1)


@pytest.mark.parametrize("cell", ["sum", "stock:/nails"])
def test_a_read_is_stale_by_an_effect_that_commutes_with_others(cell):
    add = adds("ada", 0, 1, read_values={}, write_values={cell: 1}, commutes={cell: "add"})
    reader = OpRecord(agent="bob", read_time=0, write_time=2, read_values={"stock:": None, cell: None})
    assert counts([add, reader]) == {"A1": 1}


def test_an_effect_stands_when_one_that_commutes_with_it_is_retracted():
    undone = adds("ada", 0, 1, read_values={}, aborted=True, externalized=True)
    beside = adds("bob", 1, 2, preds=["1"], direct=True, externalized=True)
    assert counts([undone, beside]) == {}
    for parts in PLAIN.values():
        reader = adds("bob", 1, 2, preds=["1"], direct=True, externalized=True, **parts)
        assert counts([undone, reader]) == {"A3": 1, "A3x": 1, "residue": 1}


def test_what_has_seen_a_retracted_operation_in_another_way_too_is_a_cascade():
    undone = adds("ada", 0, 1, read_values={}, write_values={"sum": 1, "page": 1}, aborted=True)
    reader = adds("bob", 1, 2, read_values={"sum": 1, "page": 1}, preds=["1"], direct=True)
    assert counts([undone, reader])["A3"] == 1


def test_who_has_seen_it_through_a_third_one_is_a_cascade():
    undone = adds("ada", 0, 1, read_values={}, aborted=True)
    third = OpRecord(
        agent="cy", read_time=1, write_time=2, read_values={"sum": 1}, write_values={"page": 1}, preds=["1"]
    )
    reader = adds("bob", 2, 3, read_values={"sum": 1, "page": 1}, preds=["1", "2"])
    assert counts([undone, third, reader])["A3"] == 2


def test_a_value_that_was_undone_twice_is_no_residue_to_who_read_it_in_between():
    first, again = (
        adds("ada", time - 1, time, read_values={}, write_values={"sum": 7}, aborted=True) for time in (1, 3)
    )
    reader = adds("bob", 2, 4, read_values={"sum": 7})
    assert counts([first, again, reader]) == {}


def test_a_group_of_a_cell_that_was_not_written_is_refused():
    with pytest.raises(ValueError, match="commutes names sum, and write_values does not"):
        OpRecord(agent="ada", read_time=0, write_time=1, commutes={"sum": "add"})


def test_values_are_the_same_when_json_says_so():
    assert comparable({"a": [1, True]}) == comparable({"a": [1.0, True]})
    assert comparable({"a": [1]}) != comparable({"a": [True]})
    assert len({comparable(value) for value in (None, 0, False, "", [], {}, "0")}) == 7


@pytest.mark.parametrize("times", [(2, 1), (1, 1)])
def test_records_out_of_order_are_refused_with_the_mend(times):
    history = [OpRecord(agent="ada", read_time=0, write_time=time) for time in times]
    with pytest.raises(HistoryError, match=r"record 2 committed at 1, and the one before it at [12]: .* ordered\(\)"):
        analyze(history)


def test_sorted_they_are_accepted():
    history = [OpRecord(agent="ada", read_time=0, write_time=time) for time in (2, 1)]
    assert analyze(ordered(history)).records == 2


def test_an_agent_is_stale_by_whatever_else_it_wrote_itself_since_it_read():
    for values in (values for most in (1, 2, 3, 4) for values in product("ab", repeat=most)):
        wrote = [
            OpRecord(agent="ada", read_time=time - 1, write_time=time, write_values={"x": value})
            for time, value in enumerate(values, 1)
        ]
        for began, seen in product(range(len(values) + 1), "abc"):
            late = OpRecord(
                agent="ada", read_time=began, write_time=9, read_values={"x": seen}, write_values={"y": "c"}
            )
            (verdict,) = (v for v in analyze([*wrote, late]).verdicts if v.anomaly == "A1-self")
            assert verdict.count == any(value != seen for value in values[began:]), (values, began, seen)
