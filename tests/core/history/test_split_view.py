"""A split view is two answers to one question: what one copy of a cell said, and another one did not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.history import naive
from tests.core.history.test_detectors import values
from tests.extent import examples
from tests.rooms.history import is_read_log

from settlemark.history import HistoryError, ReplicaRead, ReplicaReadFile, replica_reads, split_view

GOOD = {"cell": "plan", "replica": "eu", "version": 1, "value": "fly"}
logs = st.lists(
    st.builds(
        ReplicaRead,
        cell=st.sampled_from("xy"),
        replica=st.sampled_from(["primary", "eu", "us"]),
        version=st.integers(0, 3),
        value=values,
        agent=st.sampled_from([None, "ada", "bob"]),
        time=st.none() | st.integers(0, 9),
    ),
    max_size=10,
)


def read(replica, version, value, **rest):
    return ReplicaRead(cell="plan", replica=replica, version=version, value=value, **rest)


@settings(max_examples=examples(300))
@given(logs)
def test_what_is_counted_is_what_the_definition_names(log):
    assert split_view(log).count == len(naive.a4(log))


@settings(max_examples=examples(300))
@given(logs)
def test_every_witness_is_a_pair_of_reads_that_split_and_no_pair_is_told_twice(log):
    found = split_view(log)
    assert bool(found.witnesses) == bool(naive.a4(log))
    assert len({frozenset(witness.records) for witness in found.witnesses}) == len(found.witnesses)
    for witness in found.witnesses:
        pair = [log[place - 1] for place in witness.records]
        assert naive.a4(pair) == {1, 2}
        assert [each.version for each in pair] == sorted(each.version for each in pair)
        assert (witness.cell, witness.values) == (pair[0].cell, tuple(each.value for each in pair))


def test_a_secondary_that_lags_splits_the_view_whenever_it_was_read():
    primary, lagging = read("primary", 2, "drive", agent="ada", time=9), read("eu", 1, "fly", agent="bob", time=3)
    for log, records in (([primary, lagging], (2, 1)), ([lagging, primary], (1, 2))):
        found = split_view(log)
        assert (found.anomaly, found.title, found.count) == ("A4", "split view", 2)
        assert [each.as_dict() for each in found.witnesses] == [
            {
                "sentence": "bob read plan = 'fly' from eu at 3 (version 1), and ada read plan = 'drive' from primary"
                " at 9 (version 2)",
                "records": list(records),
                "cell": "plan",
                "times": [3, 9],
                "values": ["fly", "drive"],
            }
        ]


def test_the_primary_says_other_things_at_other_versions_and_that_is_no_split_view():
    assert split_view([read("primary", 1, "fly"), read("primary", 2, "drive"), read("primary", 1, "fly")]).absent


def test_a_secondary_that_lags_without_anybody_having_asked_the_primary_splits_nothing():
    assert split_view([read("eu", 1, "fly"), read("eu", 2, "drive")]).absent
    assert split_view([read("eu", 1, "fly"), read("primary", 2, "fly")]).absent


def test_that_nothing_had_been_written_is_an_answer_too():
    assert split_view([read("eu", 0, None), read("primary", 1, "fly")]).witnesses[0].sentence == (
        "somebody read plan = None from eu (version 0), and somebody read plan = 'fly' from primary (version 1)"
    )


def test_true_is_not_one_and_one_is_the_same_with_a_point():
    assert not split_view([read("eu", 1, True), read("primary", 1, 1)]).absent
    assert split_view([read("eu", 1, [1.0]), read("primary", 1, [1])]).absent


def test_cells_do_not_mix():
    assert split_view([read("eu", 1, "fly"), ReplicaRead(cell="bug", replica="us", version=1, value="v0")]).absent


class Counted(str):
    """A replica's name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)

    def __ne__(self, other):
        Counted.compared += 1
        return str.__ne__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("split_at", [0, 1999])
def test_a_hot_cell_costs_as_much_a_read_as_a_cold_one(split_at):
    # A new name each time: the same object would not be compared at all.
    log = [
        ReplicaRead(cell="hot", replica=Counted("us" if n == split_at else "eu"), version=n, value=n)
        for n in range(2000)
    ]
    Counted.compared = 0
    assert split_view(log).count == 2000
    assert Counted.compared < 20 * len(log)


# ---- the file


@given(logs)
def test_what_is_written_is_read_again(tmp_path_factory, log):
    path = tmp_path_factory.mktemp("r") / "reads.jsonl"
    with ReplicaReadFile(path) as tell:
        for each in log:
            tell(each)
    assert list(replica_reads(path)) == log
    assert is_read_log(path) is bool(log)


@pytest.mark.parametrize(
    ("line", "field", "said"),
    [
        ({**GOOD, "replica": 7}, "replica", "Expected `str`, got `int`"),
        ({**GOOD, "version": "1"}, "version", "Expected `int`, got `str`"),
        ({**GOOD, "version": -1}, None, "versions count the writes of a cell, from 0"),
        ({"cell": "plan", "replica": "eu", "version": 1}, None, "missing required field `value`"),
        ("no json", None, "JSON is malformed"),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_field(tmp_path, line, field, said):
    path = tmp_path / "reads.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_text(json.dumps(GOOD) + "\n\n" + text + "\n")
    reads = replica_reads(path)
    assert next(reads) == ReplicaRead(**GOOD)
    with pytest.raises(HistoryError) as told:
        next(reads)
    assert (told.value.file, told.value.line, told.value.field) == (str(path), 3, field)
    assert f"{path}, line 3" in str(told.value)
    assert said in str(told.value)


def test_a_value_that_is_no_json_is_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "reads.jsonl"
    with ReplicaReadFile(path) as tell, pytest.raises(TypeError):
        tell(read("eu", 1, object()))
    assert path.read_bytes() == b""


def test_another_file_is_no_log_of_reads(tmp_path):
    path = tmp_path / "h.jsonl"
    for line in (
        '{"agent": "ada", "read_time": 0, "write_time": 1}',
        '{"role": "user"}',
        "no json",
        "",
        '{"cell": "plan", "value": 1}',
        '{"replica": "eu", "value": 1}',
        '["cell", "replica"]',
        '"cell replica"',
    ):
        path.write_text(line)
        assert not is_read_log(path), line


@pytest.mark.parametrize(("before", "known"), [(0, True), (19, True), (20, False)])
def test_a_log_is_known_by_a_read_among_its_first_twenty_values(tmp_path, before, known):
    path = tmp_path / "reads.jsonl"
    path.write_text('{"note": "of another program"}\n\n' * before + json.dumps(GOOD) + "\n")
    assert is_read_log(path) is known


def test_the_mark_of_utf_8_is_passed_over_and_a_torn_last_read_is_cut_off(tmp_path):
    path = tmp_path / "reads.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b'\n{"cell":"pl')
    with ReplicaReadFile(path) as log:
        log(read("us", 2, "drive"))
    assert is_read_log(path)
    assert [(each.replica, each.version) for each in replica_reads(path)] == [("eu", 1), ("us", 2)]
