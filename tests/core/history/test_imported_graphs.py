"""What LangGraph streams, as histories: small files written by hand. Those of real runs are with its integration."""

from __future__ import annotations

import json

import pytest

from settlemark.history import analyze, import_trace


def dumped(path, values):
    path.write_text("\n".join(map(json.dumps, values)))
    return path


def found(imported):
    return {verdict.anomaly: verdict.count for verdict in analyze(imported.records).verdicts if verdict.count}


def shown(imported):
    return [(r.agent, r.read_values, r.write_values) for r in imported.records]


def event(kind, run, node=None, *, step=1, parents=("g",), name=None, tags=None, **data):
    metadata = {} if node is None else {
        "langgraph_node": node, "langgraph_step": step, "langgraph_path": ["__pregel_pull", node],
        "langgraph_checkpoint_ns": f"{node}:{run}",
    }  # fmt: skip # a table
    tags = tags if tags is not None else [f"graph:step:{step}"] if "chain" in kind and node is not None else []
    return {
        "event": f"on_{kind}", "run_id": run, "name": name or node or "LangGraph", "tags": tags, "metadata": metadata,
        "parent_ids": list(parents), "data": data,
    }  # fmt: skip # a table


def node(name, step, given, output):
    run = f"{name}{step}"
    return (
        event("chain_start", run, name, step=step, input=given),
        event("chain_end", run, name, step=step, input=given, output=output),
    )


PLAN, PLANNED = node("plan", 1, {"date": "14 June"}, {"date": "21 June"})
BOOK, BOOKED = node("book", 1, {"date": "14 June"}, {"flight": "14 June"})
BEGUN = event("chain_start", "g", parents=(), input={"date": "14 June"})
OVER = event("chain_end", "g", parents=(), output={"date": "21 June", "flight": "14 June"})


def test_events_tell_nodes_by_what_they_were_given_and_returned_on_both_clocks(tmp_path):
    imported = import_trace(dumped(tmp_path / "e.jsonl", [BEGUN, PLAN, BOOK, PLANNED, BOOKED, OVER]))

    assert str(imported) == "6 of 6 parsed as langgraph-events"
    assert shown(imported) == [
        ("input", {}, {"date": "14 June"}),
        ("plan", {"date": "14 June"}, {"date": "21 June"}),
        ("book", {"date": "14 June"}, {"flight": "14 June"}),
    ]
    assert [(r.read_barrier, r.write_barrier) for r in imported.records[1:]] == [(0, 1), (0, 1)]
    assert found(imported) == {"A1": 1, "A1-semantic": 1}


def test_events_that_break_off_within_a_superstep_tell_what_did_not_become_visible(tmp_path):
    imported = import_trace(dumped(tmp_path / "e.jsonl", [BEGUN, PLAN, BOOK, PLANNED]))

    assert shown(imported) == [("input", {}, {"date": "14 June"})]
    (note,) = imported.notes
    assert note.startswith(
        "the run was cut short: 1 node of a superstep that has not ended: what they returned did not"
    )


def calls(*names):
    listed = [{"name": "send_mail", "args": {"to": n}, "id": n, "type": "tool_call"} for n in names]
    return {"type": "ai", "content": "", "id": "m1", "tool_calls": listed}


def tool(kind, n, within="tools2", **data):
    parents = ("g", within)
    return event(f"tool_{kind}", f"t{n}", "tools", step=2, parents=parents, name="send_mail", tags=[], **data)


@pytest.mark.parametrize(("ends", "fires"), [("ab", {}), ("ba", {"A6": 1})])
@pytest.mark.parametrize("seen", [True, False], ids=["with its model", "without"])
def test_events_tell_the_order_in_which_the_calls_of_a_turn_ended(tmp_path, ends, fires, seen):
    message = calls("a", "b")
    asked = node("model", 1, {}, {"messages": [message]}) if seen else ()
    begun, ended = node("tools", 2, {"messages": [message]}, {"messages": []})
    answers = [
        tool("end", n, output={"type": "tool", "content": "sent", "tool_call_id": n, "status": "success"}) for n in ends
    ]
    starts = [tool("start", n, input={"to": n}) for n in "ab"]
    imported = import_trace(dumped(tmp_path / "e.jsonl", [BEGUN, *asked, begun, *starts, *answers, ended, OVER]))

    assert imported.skipped == []
    (last,) = [r for r in imported.records if r.io]
    assert (last.agent, [cell for cell, _ in last.io]) == ("model" if seen else "tools", ["mail:/a", "mail:/b"])
    assert {key: value for key, value in found(imported).items() if key == "A6"} == fires


def test_events_whose_values_are_no_json_are_counted_and_told_from_the_graph_s_stream_where_that_has_them(tmp_path):
    begun, ended = node("model", 1, {"messages": []}, "Command(update={'messages': …})")
    chunk = event("chain_stream", "g", parents=(), chunk={"model": {"messages": [calls("a")]}})
    imported = import_trace(dumped(tmp_path / "e.jsonl", [BEGUN, begun, ended, chunk, OVER]))

    assert (imported.parsed, imported.total) == (4, 5)
    assert imported.skipped == [
        (3, "what this node returned is no JSON: what it wrote is taken from the graph's stream, if that has it")
    ]
    (model,) = [r for r in imported.records if r.agent == "model"]
    assert [message["id"] for message in model.write_values["messages"]] == ["m1"]


@pytest.mark.parametrize(("ends", "fires"), [("ab", {}), ("ba", {"A6": 1})])
def test_calls_of_which_the_graph_s_stream_alone_tells_are_known_by_the_order_in_which_they_were_issued(
    tmp_path, ends, fires
):
    """Neither the model's node nor that of its tools has values that are JSON."""
    asked, said = node("model", 1, {"messages": []}, "Command(update={'messages': …})")
    chunk = event("chain_stream", "g", parents=(), chunk={"model": {"messages": [calls("a", "b")]}})
    begun, ended = node("tools", 2, {}, {})
    starts = [tool("start", n, input={"to": n}) for n in reversed(ends)]
    answers = [
        tool("end", n, output={"type": "tool", "content": "sent", "tool_call_id": n, "status": "success"}) for n in ends
    ]
    events = [BEGUN, asked, said, chunk, begun, *starts, *answers, ended, OVER]
    imported = import_trace(dumped(tmp_path / "e.jsonl", events))

    (last,) = [r for r in imported.records if r.io]
    assert (last.agent, [cell for cell, _ in last.io]) == ("model", ["mail:/a", "mail:/b"])
    assert {key: value for key, value in found(imported).items() if key == "A6"} == fires


NO_NODE = 'a node without langgraph_node, langgraph_step or parent_ids: was it made with version="v2"?'


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"event": "on_chain_end"}, "no event: it needs event and run_id"),
        ({"event": "on_chain_end", "run_id": "1", "data": {}}, "an event without data or metadata"),
        ({**PLAN, "metadata": {}}, NO_NODE),
        ({**PLAN, "event": "chain"}, "chain is no event that is known"),
        (tool("end", "z", output="x"), "a tool ends that has not begun in this file"),
    ],
)
def test_events_that_are_not_understood_are_told_with_why(tmp_path, value, why):
    imported = import_trace(dumped(tmp_path / "e.jsonl", [BEGUN, value]))
    assert (imported.parsed, imported.skipped) == (1, [(2, why)])


# ---- streams


def debug(step, kind, **payload):
    return {"step": step, "timestamp": "2026-06-01T10:00:00", "type": kind, "payload": payload}


def task(step, name, given):
    return debug(step, "task", id=f"{name}{step}", name=name, input=given, triggers=[f"branch:to:{name}"])


def result(step, name, writes, error=None):
    return debug(step, "task_result", id=f"{name}{step}", name=name, error=error, result=writes, interrupts=[])


DEBUG = [
    task(1, "plan", {"date": "14 June"}),
    task(1, "book", {"date": "14 June"}),
    result(1, "plan", {"date": "21 June"}),
    result(1, "book", [["flight", "14 June"]]),
    task(2, "tell", {"date": "21 June", "flight": "14 June"}),
    result(2, "tell", {}),
]


def test_debug_tells_supersteps_and_what_nodes_were_given(tmp_path):
    imported = import_trace(dumped(tmp_path / "d.jsonl", DEBUG))

    assert str(imported) == "6 of 6 parsed as langgraph-stream"
    assert [(r.agent, r.read_set, r.write_set, r.write_barrier) for r in imported.records] == [
        ("input", [], ["date"], None),
        ("plan", ["date"], ["date"], 1),
        ("book", ["date"], ["flight"], 1),
        ("tell", ["date", "flight"], [], 2),
    ]
    assert found(imported) == {"A1": 1, "A1-semantic": 1}
    assert imported.notes == []


def test_tasks_tell_the_same_without_the_numbers(tmp_path):
    imported = import_trace(dumped(tmp_path / "t.jsonl", [["tasks", each["payload"]] for each in DEBUG]))
    assert [(r.agent, r.write_barrier) for r in imported.records] == [
        ("input", None),
        ("plan", 1),
        ("book", 1),
        ("tell", 2),
    ]
    assert found(imported) == {"A1": 1, "A1-semantic": 1}


def test_a_task_that_failed_takes_its_superstep_with_it(tmp_path):
    failed = [*DEBUG[:3], result(1, "book", None, error="ValueError('no')")]
    imported = import_trace(dumped(tmp_path / "d.jsonl", failed))
    assert [r.agent for r in imported.records] == ["input"]
    assert imported.notes[0].startswith("the run was cut short: 1 node of a superstep")


VALUES = [
    ["values", {"date": "14 June"}],
    ["updates", {"plan": {"date": "21 June"}}],
    ["updates", {"book": {"flight": "14 June"}}],
    ["values", {"date": "21 June", "flight": "14 June"}],
    ["updates", {"tell": None}],
    ["values", {"date": "21 June", "flight": "14 June"}],
]


def test_updates_with_values_tell_it_too(tmp_path):
    imported = import_trace(dumped(tmp_path / "v.jsonl", VALUES))
    assert shown(imported)[1:] == [
        ("plan", {"date": "14 June"}, {"date": "21 June"}),
        ("book", {"date": "14 June"}, {"flight": "14 June"}),
        ("tell", {"date": "21 June", "flight": "14 June"}, {}),
    ]
    assert found(imported) == {"A1": 1, "A1-semantic": 1}


def test_updates_alone_have_no_reads_and_values_alone_no_nodes_and_that_is_said(tmp_path):
    updates = import_trace(dumped(tmp_path / "u.jsonl", [chunk for mode, chunk in VALUES if mode == "updates"]))
    values = import_trace(dumped(tmp_path / "v.jsonl", [each for each in VALUES if each[0] == "values"]))

    assert shown(updates) == [
        ("plan", {}, {"date": "21 June"}),
        ("book", {}, {"flight": "14 June"}),
        ("tell", {}, {}),
    ]
    assert updates.notes[0].startswith("updates tell what nodes returned, and not what they were given")
    assert [(r.agent, r.write_set) for r in values.records] == [
        ("input", ["date"]),
        ("superstep 1", ["date", "flight"]),
    ]
    assert values.notes[0].startswith("values tell what has changed, and not who changed it")


def test_answers_that_come_one_by_one_tell_the_order_of_the_effects_and_those_of_one_update_do_not(tmp_path):
    def answer(n):
        return {"type": "tool", "content": "sent", "tool_call_id": n}

    asked = {"model": {"messages": [calls("a", "b")]}}
    apart = [asked, *({"tools": {"messages": [answer(n)]}} for n in "ba")]
    together = [asked, {"tools": {"messages": [answer(n) for n in "ba"]}}]

    assert found(import_trace(dumped(tmp_path / "a.jsonl", apart))) == {"A6": 1}
    imported = import_trace(dumped(tmp_path / "t.jsonl", together))
    assert found(imported) == {}
    assert any(note.startswith("of 1 turn the answers came together") for note in imported.notes)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x", "no chunk of a stream"),
        ({"type": "values", "ns": [], "data": 7}, "values that are no state"),
        (["updates", 7], "a chunk of updates that is no object"),
        (["updates", {"plan": "Command(…)"}], "what plan returned is a text: write chunks as JSON"),
    ],
)
def test_chunks_that_are_not_understood_are_told_with_why(tmp_path, value, why):
    imported = import_trace(dumped(tmp_path / "v.jsonl", [*VALUES, value]))
    assert (imported.parsed, imported.skipped) == (len(VALUES), [(len(VALUES) + 1, why)])


def test_a_stream_of_messages_alone_tells_nothing_and_that_is_said(tmp_path):
    imported = import_trace(dumped(tmp_path / "m.jsonl", [["messages", [{"type": "ai", "content": "x"}, {}]]] * 2))
    assert imported.records == []
    assert imported.notes[0].startswith("a stream of messages alone does not tell what nodes read and wrote")
