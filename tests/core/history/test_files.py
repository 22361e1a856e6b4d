"""A history is a file of lines: written record by record, read one at a time, and a bad line is named."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.history.test_detectors import histories
from tests.rooms.history import comparable

from settlemark import UsageError
from settlemark.history import HistoryError, HistoryFile, OpRecord, analyze, encode, ordered, read

GOOD = {"agent": "ada", "read_time": 0, "write_time": 1}


@given(histories(most=4))
def test_what_is_written_is_read_again(tmp_path_factory, history):
    path = tmp_path_factory.mktemp("h") / "h.jsonl"
    with HistoryFile(path) as file:
        for record in history:
            file.write(record)
    assert list(read(path)) == history


def test_a_line_has_the_fields_of_the_papers_format():
    record = OpRecord(agent="a", read_time=0, write_time=1, read_values={"c": None}, write_values={"d": 2})
    assert json.loads(encode(record)).items() >= {
        "agent": "a", "read_set": ["c"], "read_values": {"c": None}, "write_set": ["d"], "planned_tool": None,
        "aborted": False, "preds": [], "io": [], "co": [],
    }.items()  # fmt: skip # a table


@pytest.mark.parametrize(
    ("line", "field", "said"),
    [
        ({**GOOD, "agent": 7}, "agent", "Expected `str`, got `int`"),
        ({"agent": "ada", "read_time": 0}, None, "missing required field `write_time`"),
        ({**GOOD, "write_time": 0}, None, "an operation commits after it began"),
        ({**GOOD, "read_time": -1}, None, "the clock begins at 0"),
        ({**GOOD, "io": [["mail"]]}, "io[0]", "Expected `array` of length 2"),
        ("no json", None, "JSON is malformed"),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_field(tmp_path, line, field, said):
    path = tmp_path / "h.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_text(json.dumps(GOOD) + "\n\n" + text + "\n")
    records = read(path)
    assert next(records).agent == "ada"
    with pytest.raises(HistoryError) as told:
        next(records)
    assert (told.value.file, told.value.line, told.value.field) == (str(path), 3, field)
    assert f"{path}, line 3" in str(told.value)
    assert said in str(told.value)


def test_a_value_that_is_no_json_is_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "h.jsonl"
    with HistoryFile(path) as file, pytest.raises(TypeError):
        file.write(OpRecord(agent="a", read_time=0, write_time=1, write_values={"c": object()}))
    assert path.read_bytes() == b""


ADA, BOB = (OpRecord(agent=agent, read_time=0, write_time=time) for time, agent in enumerate(["ada", "bob"], 1))
LINE = encode(ADA) + b"\n"


class Full:
    """A file on a disk that takes so many bytes more: it takes a part of a line, and then nothing."""

    def __init__(self, file, room):
        self._file, self.room = file, room

    def write(self, data):
        if not self.room:
            raise OSError(28, "No space left on device")
        taken = self._file.write(data[: self.room])
        self.room -= taken
        return taken

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 1, len(LINE) - 1])
def test_a_line_that_the_disk_takes_a_part_of_is_taken_back_and_the_next_one_is_whole(tmp_path, monkeypatch, room):
    path = tmp_path / "h.jsonl"
    with HistoryFile(path) as file:
        file.write(ADA)
        full = Full(file._file, room)
        monkeypatch.setattr(file, "_file", full)
        for put in (lambda: file.write(BOB), lambda: file.retract("a" * len(LINE))):
            full.room = room
            with pytest.raises(OSError, match="No space left"):
                put()
            assert path.read_bytes() == LINE
        full.room = 10 * len(LINE)
        file.write(BOB)
    assert list(read(path)) == [ADA, BOB]


def test_a_line_that_is_taken_in_pieces_is_written_whole(tmp_path, monkeypatch):
    class Slow(Full):
        def write(self, data):
            return self._file.write(data[:7])

    with HistoryFile(tmp_path / "h.jsonl") as file:
        monkeypatch.setattr(file, "_file", Slow(file._file, 0))
        file.write(ADA)
    assert (tmp_path / "h.jsonl").read_bytes() == LINE


@pytest.mark.parametrize("torn", [LINE[:1], LINE[:30], LINE[:-2], b'{"retracted":"a'])
def test_what_a_writer_that_died_has_left_of_a_line_is_cut_off(tmp_path, torn):
    path = tmp_path / "h.jsonl"
    path.write_bytes(LINE + torn)
    with HistoryFile(path) as file:
        file.write(BOB)
    assert list(read(path)) == [ADA, BOB]


def test_a_last_record_without_a_newline_is_kept(tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_bytes(encode(ADA))
    with HistoryFile(path) as file:
        file.write(BOB)
    assert list(read(path)) == [ADA, BOB]


def test_a_file_of_something_else_is_refused_and_nothing_changed(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"to do:\n{buy milk")
    with pytest.raises(UsageError, match=r"the last line of .* is of another format: name another file") as refused:
        HistoryFile(path)
    assert (refused.value.data, path.read_bytes()) == ({"file": str(path)}, b"to do:\n{buy milk")


@pytest.mark.skipif(sys.platform == "win32", reason="has no flock")
def test_a_second_writer_at_the_same_time_is_refused_and_nothing_changed(tmp_path):
    path = tmp_path / "h.jsonl"
    with HistoryFile(path) as file:
        file.write(ADA)
        with pytest.raises(
            UsageError, match="is being written by another process: close that first, or name"
        ) as refused:
            HistoryFile(path)
        assert (refused.value.data, path.read_bytes()) == ({"file": str(path)}, LINE)
        file.write(BOB)
    HistoryFile(path).close()
    assert list(read(path)) == [ADA, BOB]


def test_a_torn_retraction_is_named_with_its_line(tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_bytes(LINE + b'{"retracted":"a')
    with pytest.raises(HistoryError, match="line 2: Input data was truncated") as told:
        list(read(path))
    assert (told.value.file, told.value.line) == (str(path), 2)


def test_the_mark_of_utf_8_is_passed_over(tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + LINE)
    assert list(read(path)) == [ADA]


def test_a_value_that_is_nested_too_deep_to_be_read_is_named(tmp_path):
    path = tmp_path / "h.jsonl"
    deep = b"[" * 100_000 + b"]" * 100_000
    path.write_bytes(LINE + b'{"agent":"a","read_time":0,"write_time":2,"write_values":{"x":' + deep + b"}}\n")
    with pytest.raises(HistoryError, match="line 2") as told:
        list(read(path))
    assert (told.value.file, told.value.line) == (str(path), 2)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from([0.0, 1.0, 0.5, "", "a", "[", "{", "true"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def same(one, other):
    """Say naively whether two JSON values are the same."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@given(json_values, json_values)
def test_values_are_the_same_when_json_says_so(one, other):
    assert (comparable(one) == comparable(other)) is same(one, other)
    assert hash(comparable(one)) == hash(comparable(json.loads(json.dumps(one))))


def test_however_deep_a_value_is_it_is_compared():
    def nested(innermost):
        for _ in range(50_000):
            innermost = [{"a": innermost}]
        return comparable(innermost)

    assert len({nested(1), nested(1), nested(2)}) == 2


def test_two_clocks_in_one_history_are_told_from_a_wrong_order():
    twice = [ADA, OpRecord(agent="bob", read_time=0, write_time=1)]
    with pytest.raises(HistoryError, match=r"ordered\(\) does not help; they are of two clocks: analyze what each"):
        analyze(ordered(twice))
    with pytest.raises(HistoryError, match=r"or sort them with ordered\(\)"):
        analyze([BOB, ADA])


def test_a_reader_is_told_how_far_it_has_read_in_bytes(tmp_path):
    path = tmp_path / "long.jsonl"
    with HistoryFile(path) as file:
        for place in range(1, 2_501):
            file.write(OpRecord(agent="a", read_time=place - 1, write_time=place))
    lines, told = path.read_bytes().splitlines(keepends=True), []

    found = [record.write_time for record in read(path, told=told.append)]

    assert found == list(range(1, 2_501))
    assert told == [sum(map(len, lines[:1_000])), sum(map(len, lines[:2_000]))]
