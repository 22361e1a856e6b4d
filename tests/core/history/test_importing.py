"""A trace of any source becomes a history: its format is found, and how much of it was understood is told."""

from __future__ import annotations

import json

import pytest

from settlemark import DeclarationError, Settlement, UsageError
from settlemark.history import FORMATS, HistoryError, OpRecord, encode, import_trace
from settlemark.history._importers.importing import format_of

CHAT = {"role": "assistant", "content": "Hello."}
EVENT = {"event": "on_chain_start", "run_id": "1", "data": {}, "metadata": {}, "parent_ids": []}
SPAN = {
    "name": "chat",
    "context": {"trace_id": "0x1", "span_id": "0x2"},
    "parent_id": None,
    "start_time": "2026-06-01T10:00:00Z",
    "end_time": "2026-06-01T10:00:01Z",
    "attributes": {"gen_ai.operation.name": "chat"},
}
OWN = json.loads(encode(OpRecord(agent="a", read_time=0, write_time=1)))

KNOWN = [
    ("history", [OWN]),
    ("spans", [SPAN]),
    ("spans", [{"resourceSpans": []}]),
    ("langgraph-events", [EVENT]),
    ("langgraph-stream", [{"plan": {"date": "21 June"}}, {"book": None}]),
    ("langgraph-stream", [["values", {"messages": []}], ["updates", {"plan": {}}]]),
    ("langgraph-stream", [[[], "updates", {"plan": {}}], [[], "updates", {"book": {}}]]),
    ("langgraph-stream", [{"type": "updates", "ns": [], "data": {"plan": {}}}]),
    ("langgraph-stream", [{"step": 1, "timestamp": "", "type": "task", "payload": {"id": "1", "name": "a"}}]),
    ("langgraph-stream", [{"messages": [CHAT]}, {"messages": [CHAT, CHAT]}]),
    ("chat", [CHAT]),
    ("chat", [{"messages": [CHAT]}, {"messages": [{"role": "user", "content": "?"}]}]),
    ("chat", [{"choices": [{"message": CHAT}], "created": 1}]),
]


SHAPES = [
    (shape, known, values)
    for shape in ("lines", "array", "one behind the other")
    for known, values in KNOWN
    if shape == "lines" or not (known == "history" or isinstance(values[0], list))
]


@pytest.mark.parametrize(("shape", "known", "values"), SHAPES)
def test_a_format_is_found_by_the_first_values_however_the_file_is_laid_out(tmp_path, known, values, shape):
    path = tmp_path / "trace"
    texts = {
        "lines": "\n".join(map(json.dumps, values)),
        "array": json.dumps(values),
        "one behind the other": "\n".join(json.dumps(value, indent=4) for value in values),
    }
    path.write_text(texts[shape])
    assert format_of(path) == known
    assert (known == "history") or (import_trace(path).format, import_trace(path).skipped) == (known, [])


def test_a_broken_value_within_a_file_is_one_entry_and_what_follows_is_read(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(f'{json.dumps(CHAT, indent=1)}\n{{"role": oops}}\n{json.dumps(CHAT, indent=1)}\n')
    imported = import_trace(path)

    assert (imported.parsed, imported.total) == (2, 3)
    assert imported.skipped == [(5, "no JSON: Expecting value: line 5 column 10 (char 56)")]


def test_an_empty_file_is_a_history_without_records(tmp_path):
    (tmp_path / "empty").write_text("\n")
    imported = import_trace(tmp_path / "empty")
    assert (imported.format, imported.records, imported.parsed, imported.total) == ("history", [], 0, 0)


def test_a_history_is_read_and_sorted(tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_bytes(b"\n".join(encode(OpRecord(agent="a", read_time=0, write_time=time)) for time in (2, 1)))
    imported = import_trace(path)
    assert ([r.write_time for r in imported.records], str(imported)) == ([1, 2], "2 of 2 parsed as history")


@pytest.mark.parametrize(
    ("text", "said"),
    [("no json\n", "line 1: no JSON"), ('{"level": "info"}\n{"level": "warn"}\n', "line 1: it is none of the traces")],
)
def test_what_nobody_knows_is_refused_with_what_to_say(tmp_path, text, said):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(HistoryError, match=said) as told:
        import_trace(path)
    assert "name it with format=" in str(told.value)
    assert format_of(path) is None


def test_a_format_may_be_forced_and_one_that_is_none_is_refused(tmp_path):
    path = tmp_path / "values.jsonl"
    path.write_text('{"date": "14 June"}\n{"date": "21 June"}\n')
    imported = import_trace(path, "langgraph-stream")
    assert [(r.agent, r.write_values) for r in imported.records] == [
        ("input", {"date": "14 June"}),
        ("superstep 1", {"date": "21 June"}),
    ]
    assert (imported.parsed, imported.total) == (2, 2)
    with pytest.raises(UsageError, match="format='csv' is unknown: choose auto or one of history, spans"):
        import_trace(path, "csv")
    assert len(FORMATS) == 5


def test_declarations_say_what_tools_do(tmp_path):
    path = tmp_path / "chat.jsonl"
    call = {"id": "1", "type": "function", "function": {"name": "wire", "arguments": '{"to": "7", "amount": 3}'}}
    lines = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    with Settlement("memory:") as settlement:
        settlement.declare("wire", "irreversible", scope="account:/{to}")
        imported = import_trace(path, declared=settlement.declared)

    assert [(r.write_values, r.io) for r in imported.records] == [({"account:/7": 3}, [])]
    assert imported.tools == {}


def test_effects_of_no_kind_are_refused(tmp_path):
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps(CHAT))
    with pytest.raises(DeclarationError, match="effects says 'reads' of wire: say what kind it is, one of write, read"):
        import_trace(path, effects={"wire": "reads"})
