"""Chat logs as histories: what they tell, what they cannot tell, and how much of them was understood."""

from __future__ import annotations

import json

import pytest
from tests.rooms.history import seconds

from settlemark.history import analyze, import_trace


def dumped(path, values, *, lines=True):
    text = "\n".join(map(json.dumps, values)) if lines else json.dumps(values, indent=2)
    path.write_text(text)
    return path


def found(imported):
    return {verdict.anomaly: verdict.count for verdict in analyze(imported.records).verdicts if verdict.count}


def openai(*calls, **rest):
    listed = [
        {"id": name, "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
        for name, tool, given in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": listed, **rest}


def answer(call, content, **rest):
    return {"role": "tool", "tool_call_id": call, "content": content, **rest}


TRIP = [
    {"role": "system", "content": "You book trips."},
    {"role": "user", "content": "Book a flight on the party's date."},
    openai(("1", "get_date", {}), ("2", "list_flights", {"city": "Riga"})),
    answer("1", '{"date": "14 June"}'),
    answer("2", "[]"),
    openai(("3", "book_flight", {"city": "Riga", "date": "14 June"})),
    answer("3", "booked"),
    {"role": "assistant", "content": "Booked."},
]


def same(calls, answers):
    """The same conversation in the shapes of LangChain: `dumps`, `messages_to_dict`, `model_dump`."""
    flat = [
        {"type": "human", "content": "Book."},
        {"type": "ai", "content": "", "tool_calls": [{**c, "type": "tool_call"} for c in calls], "id": "m1"},
        *({"type": "tool", "status": "success", **a} for a in answers),
    ]
    names = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    wrapped = [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", names[m["type"]]], "kwargs": m}
        for m in flat
    ]
    return {"flat": flat, "dict": [{"type": m["type"], "data": m} for m in flat], "dumps": wrapped}


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "array"])
def test_an_operation_is_what_is_read_until_something_is_written(tmp_path, lines):
    imported = import_trace(dumped(tmp_path / "trip.json", TRIP, lines=lines))

    assert str(imported) == "8 of 8 parsed as chat"
    date, flights, ada = imported.records
    assert (date.agent, date.write_values) == ("setup", {"date": {"date": "14 June"}})
    assert (flights.agent, flights.write_values) == ("setup", {"flight:/Riga": []})
    assert ada.read_values == {"date": {"date": "14 June"}, "flight:/Riga": []}
    assert ada.write_values == {"flight:/Riga": "14 June"}
    assert (ada.agent, ada.read_time, ada.write_time, ada.preds) == ("assistant", 2, 3, ["1", "2"])
    assert imported.tools == {"book_flight": "write", "get_date": "read", "list_flights": "read"}
    assert (found(imported), imported.notes) == ({}, [])


def test_what_was_written_since_it_was_read_is_in_a_record_of_its_own_just_before(tmp_path):
    chat = [
        openai(("1", "get_date", {}), name="ada"),
        answer("1", "14 June"),
        openai(("2", "set_date", {"date": "21 June"}), name="bob"),
        answer("2", "ok"),
        openai(("3", "get_price", {}), name="ada"),
        answer("3", "7"),
        openai(("4", "book_flight", {"to": "Riga"}), name="ada"),
        answer("4", "ok"),
    ]
    imported = import_trace(dumped(tmp_path / "chat.jsonl", chat))
    ada = [r for r in imported.records if r.agent == "ada"]

    assert [(r.read_time, r.write_time, r.read_set, r.write_set) for r in ada] == [
        (1, 4, ["date"], []),
        (3, 5, ["price"], ["flight:/Riga"]),
    ]
    assert found(imported) == {"A1": 1}


@pytest.mark.parametrize("shape", ["flat", "dict", "dumps"])
def test_the_shapes_of_langchain_are_understood(tmp_path, shape):
    calls = [{"name": "send_mail", "args": {"to": "a"}, "id": "1"}, {"name": "get_date", "args": {}, "id": "2"}]
    answers = [{"tool_call_id": "1", "content": "sent"}, {"tool_call_id": "2", "content": "14 June"}]
    imported = import_trace(dumped(tmp_path / "chat.json", same(calls, answers)[shape], lines=False))

    assert (imported.parsed, imported.total) == (4, 4)
    assert [r.write_values for r in imported.records] == [{"mail:/a": "send_mail"}, {"date": "14 June"}]


def test_anthropic_s_blocks_are_understood(tmp_path):
    chat = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "send_mail", "input": {"to": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "sent"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "2", "name": "send_mail", "input": {"to": "b"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2", "content": "no", "is_error": True}]},
    ]
    imported = import_trace(dumped(tmp_path / "chat.jsonl", chat))

    assert [r.write_values for r in imported.records] == [{"mail:/a": "send_mail"}]


# ---- order


MAILS = openai(("1", "send_mail", {"to": "a"}), ("2", "send_mail", {"to": "b"}))


def test_without_times_a_transcript_shows_no_reordering_and_that_is_said(tmp_path):
    for order in (("1", "2"), ("2", "1")):
        imported = import_trace(dumped(tmp_path / "chat.jsonl", [MAILS, *(answer(n, "sent") for n in order)]))

        assert found(imported) == {}
        assert [r.io for r in imported.records] == [[], []]
        (note,) = imported.notes
        assert note.endswith("reordered effects (A6) cannot be seen in it")


@pytest.mark.parametrize(("first", "second", "fires"), [(3, 2, {"A6": 1}), (2, 3, {}), (2, 2, {})])
def test_with_times_it_shows_it_unless_they_are_the_same(tmp_path, first, second, fires):
    chat = [{**MAILS, "created_at": 1}, answer("1", "sent", timestamp=first), answer("2", "sent", timestamp=second)]
    imported = import_trace(dumped(tmp_path / "chat.jsonl", chat))

    assert found(imported) == fires
    assert any("same time" in note for note in imported.notes) is (first == second)


def test_of_conversations_with_times_it_is_known_what_ran_beside_what(tmp_path):
    reader = [
        {**openai(("1", "get_date", {})), "timestamp": "2026-06-01T10:00:00Z"},
        answer("1", "14 June", timestamp="2026-06-01T10:00:01Z"),
        {**openai(("2", "book_flight", {"to": "Riga"})), "timestamp": "2026-06-01T10:00:05Z"},
        answer("2", "ok", timestamp="2026-06-01T10:00:06Z"),
    ]
    writer = [
        {**openai(("1", "set_date", {"date": "21 June"})), "timestamp": "2026-06-01T10:00:02Z"},
        answer("1", "ok", timestamp="2026-06-01T10:00:03Z"),
    ]
    timed = import_trace(dumped(tmp_path / "a.jsonl", [{"messages": reader}, {"messages": writer}]))
    for each in (*reader, *writer):
        del each["timestamp"]
    bare = import_trace(dumped(tmp_path / "b.jsonl", [{"messages": reader}, {"messages": writer}]))

    assert found(timed) == {"A1": 1}
    assert analyze(timed.records)["A1"].witnesses[0].sentence == (
        "conversation 1 read date = '14 June' at 1 and committed at 3; in between, at 2, conversation 2 wrote '21 June'"
    )
    assert found(bare) == {}
    assert bare.notes == [
        "the messages have no times: conversations count as one after the other, and what ran beside what is not told"
    ]


def test_agents_of_one_conversation_go_by_their_names(tmp_path):
    chat = [
        openai(("1", "get_date", {}), name="ada"),
        answer("1", "14 June"),
        openai(("2", "set_date", {"date": "21 June"}), name="bob"),
        answer("2", "ok"),
        {"role": "assistant", "name": "ada", "content": "It is the 14th."},
    ]
    imported = import_trace(dumped(tmp_path / "chat.jsonl", chat))

    assert [r.agent for r in imported.records] == ["setup", "bob", "ada"]
    assert found(imported) == {"A1": 1}


def test_who_reads_again_before_acting_is_not_stale(tmp_path):
    chat = [
        openai(("1", "get_date", {}), name="ada"),
        answer("1", "14 June"),
        openai(("2", "set_date", {"date": "21 June"}), name="bob"),
        answer("2", "ok"),
        openai(("3", "get_date", {}), name="ada"),
        answer("3", "The party is on 21 June."),
        openai(("4", "book_flight", {"to": "Riga"}), name="ada"),
        answer("4", "ok"),
    ]
    imported = import_trace(dumped(tmp_path / "chat.jsonl", chat))

    assert found(imported) == {}
    assert imported.records[-1].read_values == {"date": "21 June"}


# ---- n of m


def test_what_is_not_understood_is_counted_with_its_line_and_why(tmp_path):
    path = tmp_path / "chat.jsonl"
    lines = [
        json.dumps(TRIP[0]),
        "{",
        json.dumps({"role": "oracle", "content": "?"}),
        json.dumps(MAILS),
        "",
        json.dumps([]),
    ]
    path.write_text("\n".join(lines))
    imported = import_trace(path)

    assert (imported.parsed, imported.total) == (2, 5)
    assert [(line, why.split(":")[0]) for line, why in imported.skipped] == [
        (2, "no JSON"),
        (3, "no message"),
        (6, "a conversation without messages"),
    ]
    assert imported.notes[-1].startswith("2 calls have no answer: whether they acted is not known")
    assert imported.records == []


def test_an_answer_to_no_call_is_told(tmp_path):
    imported = import_trace(dumped(tmp_path / "chat.jsonl", [*TRIP, answer("9", "ok")]))
    assert "1 answers belong to no call that was issued here" in imported.notes


# ---- what tools do


def test_what_tools_do_is_as_the_user_says_and_those_that_nobody_can_tell_count_as_writes(tmp_path):
    chat = [openai(("1", "audit", {"account": "7"}), ("2", "weather", {})), answer("1", "ok"), answer("2", "sun")]
    path = dumped(tmp_path / "chat.jsonl", chat)
    guessed = import_trace(path)
    said = import_trace(path, effects={"audit": {"kind": "write", "scope": "log:/all"}, "weather": "read"})

    assert [r.write_set for r in guessed.records] == [["audit:/7"], ["weather"]]
    assert any(note.startswith("the names of audit, weather do not say") for note in guessed.notes)
    assert [(r.agent, r.write_set) for r in said.records] == [("assistant", ["log:/all"]), ("setup", ["weather"])]
    assert said.tools == {}


def test_secrets_among_the_arguments_are_not_kept(tmp_path):
    chat = [openai(("1", "update_user", {"user": "ada", "password": "hunter2"})), answer("1", "ok")]
    (record,) = import_trace(dumped(tmp_path / "chat.jsonl", chat)).records
    assert record.write_values == {"user:/ada": "[secret]"}


def test_a_time_is_in_seconds_however_it_is_told():
    told = 1_700_000_000, 1_700_000_000_000, "1700000000", "2023-11-14T22:13:20Z"
    assert {seconds(each) for each in told} == {1_700_000_000}


def test_a_single_call_as_models_made_them_before_there_were_several_is_understood(tmp_path):
    call = {"name": "book_flight", "arguments": '{"city": "Riga"}'}
    for message in (
        {"role": "assistant", "content": "", "function_call": call},
        {"type": "ai", "content": "", "additional_kwargs": {"function_call": call}},
    ):
        path = dumped(tmp_path / "log.json", [{"role": "user", "content": "Book."}, message], lines=False)
        assert import_trace(path, format="chat").tools == {"book_flight": "write"}
