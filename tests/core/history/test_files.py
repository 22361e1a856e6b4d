"""A history is a file of lines: written record by record, read one at a time, and a bad line is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from tests.core.history.test_detectors import histories

from settlemark.history import HistoryError, HistoryFile, OpRecord, encode, read

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
    }.items()  # fmt: skip


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
