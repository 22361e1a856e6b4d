"""What was planned is kept beside the tools that were offered, until it is carried out on those that there are."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlemark import StateError
from settlemark.history import Recorder, analyze
from settlemark.history._importers import plans as plans_module
from settlemark.recording import ANYWHERE, Plans, signature

TOOLS = st.dictionaries(st.sampled_from(["book", "pay", "send"]), st.sampled_from(["1", "2"]))


def found(recorder):
    return {verdict.anomaly: verdict.count for verdict in analyze(recorder.records).verdicts if verdict.count}


def shown(record):
    return record.agent, record.write_values, record.planned_tool, record.read_registry, record.write_registry


# ---- what a plan has come to


@given(st.lists(st.tuples(st.sampled_from(["book", "pay", "send"]), TOOLS, TOOLS, st.booleans()), max_size=6))
def test_a_planned_tool_is_a_phantom_exactly_when_it_was_offered_and_is_not_what_it_was(plans):
    recorder = Recorder()
    for place, (tool, offered, there, writes) in enumerate(plans):
        plan = recorder.begin("ada", tool=tool, registry=offered)
        with recorder.acting(plan, there):
            if writes:
                recorder.begin("ada").commit(writes={f"cell-{place}": 1})

    phantoms = [tool in offered and offered[tool] != there.get(tool) for tool, offered, there, _ in plans]
    assert found(recorder).get("A2", 0) == sum(phantoms)
    assert [shown(record) for record in recorder.records] == [
        ("ada", {f"cell-{place}": 1} if writes else {}, tool, offered, there)
        for place, (tool, offered, there, writes) in enumerate(plans)
        if writes or phantoms[place]
    ]


def test_of_all_that_is_recorded_the_first_write_is_the_plan_s_and_its_agent_s():
    recorder = Recorder()
    plan = recorder.begin("ada", tool="book", registry={"book": "1"})
    with recorder.acting(plan, {"book": "2"}):
        recorder.seed({"date": "14 June"})
        recorder.begin("ada", {"date": "14 June"}).commit()
        recorder.begin("the tools").commit(writes={"room": 1})
        recorder.begin("the tools").commit(writes={"mail": 1})
    recorder.begin("ada").commit(writes={"room": 2})

    assert [(r.agent, r.write_set, r.planned_tool) for r in recorder.records] == [
        ("setup", ["date"], None),
        ("ada", [], None),
        ("ada", ["room"], "book"),
        ("the tools", ["mail"], None),
        ("ada", ["room"], None),
    ]
    with pytest.raises(StateError):
        plan.commit()


def test_one_that_says_itself_which_tool_it_is_of_keeps_that():
    recorder = Recorder()
    with recorder.acting(recorder.begin("ada", tool="book", registry={"book": "1"}), {"book": "1"}):
        recorder.begin("bob", tool="pay", registry={"pay": "1"}).commit(writes={"x": 1})
    assert [shown(record) for record in recorder.records] == [("bob", {"x": 1}, "pay", {"pay": "1"}, {"pay": "1"})]


def test_what_another_recorder_or_thread_records_meanwhile_is_none_of_it():
    recorder, other = Recorder(), Recorder()
    with recorder.acting(recorder.begin("ada", tool="book", registry={"book": "1"}), {}):
        other.begin("bob").commit(writes={"x": 1})
        beside = threading.Thread(target=lambda: recorder.begin("cy").commit(writes={"y": 1}))
        beside.start()
        beside.join()
    assert [record.planned_tool for record in other.records] == [None]
    assert [(record.agent, record.planned_tool) for record in recorder.records] == [("cy", None), ("ada", "book")]


def test_a_plan_whose_act_raises_has_met_what_it_has_met():
    recorder = Recorder()
    with (
        pytest.raises(ValueError, match="down"),
        recorder.acting(recorder.begin("ada", tool="book", registry={"book": "1"}), {"book": "2"}),
    ):
        raise ValueError("down")
    assert found(recorder) == {"A2": 1}


# ---- calls that wait


def test_a_plan_is_there_for_all_who_record_together_once_and_began_when_it_was_made():
    recorder = Recorder()
    Plans.of(recorder).made("1", "ada", "book", {"tools": {"book": "1"}, ANYWHERE: {"book": "2"}}, name="trip")
    recorder.begin("bob").commit(writes={"x": 1})

    assert Plans.of(recorder) is Plans.of(recorder) is not Plans.of(Recorder())
    plan = Plans.of(recorder).take("1", "book", where="tools")
    assert (plan.agent, plan.tool, plan.registry, plan.began, plan.name) == ("ada", "book", {"book": "1"}, 0, "trip")
    assert Plans.of(recorder).take("1", "book", where="tools") is None
    assert Plans.of(recorder).take("2", "book") is None


@pytest.mark.parametrize(
    ("offered", "where", "registry"),
    [
        ({ANYWHERE: {"book": "1"}}, "tools", {"book": "1"}),
        ({"tools": {"book": "1"}}, "tools", {"book": "1"}),
        ({"tools": {"book": "1"}}, "others", None),
        ({}, ANYWHERE, None),
    ],
)
def test_where_nobody_knows_what_was_offered_there_is_no_plan(offered, where, registry):
    plans = Plans.of(Recorder())
    plans.made("1", "ada", "book", offered)
    plan = plans.take("1", "book", where=where)
    assert (plan.registry if plan is not None else None) == registry
    assert plans.take("1", "book", where=where) is None


def test_of_calls_with_one_id_the_latest_of_the_tool_is_taken():
    plans = Plans.of(Recorder())
    for tool, sign in (("book", "1"), ("book", "2"), ("pay", "3")):
        plans.made("call-0", "ada", tool, {ANYWHERE: {tool: sign}})
    assert [plans.take("call-0", tool).registry for tool in ("book", "pay", "book")] == [
        {"book": "2"},
        {"pay": "3"},
        {"book": "1"},
    ]


def test_one_that_is_given_back_is_there_again_wherever_it_is_carried_out():
    plans = Plans.of(Recorder())
    plans.made("1", "ada", "book", {"tools": {"book": "1"}})
    plan = plans.take("1", "book", where="tools")
    plans.give_back("1", plan)
    assert plans.take("1", "book", where="others") is plan
    assert plan.registry == {"book": "1"}


def test_plans_that_nobody_carries_out_are_forgotten_the_oldest_first(monkeypatch):
    monkeypatch.setattr(plans_module, "_REMEMBERED", 2)
    plans = Plans.of(Recorder())
    for call in "123":
        plans.made(call, "ada", "book", {ANYWHERE: {"book": "1"}})
    assert [plans.take(call, "book") is not None for call in "123"] == [False, True, True]


# ---- signatures

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "nights": {"type": "integer", "default": 1}},
    "required": ["title"],
}


@pytest.mark.parametrize(
    "same",
    [
        dict(reversed(SCHEMA.items())),
        {**SCHEMA, "title": "Book"},
        {**SCHEMA, "additionalProperties": False},
        {**SCHEMA, "strict": True},
        {**SCHEMA, "properties": {**SCHEMA["properties"], "title": {"type": "string", "title": "Title"}}},
    ],
    ids=["other order", "a title", "closed", "strict", "a title within"],
)
def test_what_says_nothing_of_the_arguments_is_no_part_of_a_signature(same):
    assert signature("book", same) == signature("book", SCHEMA)


@pytest.mark.parametrize(
    ("tool", "other"),
    [
        ("pay", SCHEMA),
        ("book", None),
        ("book", {**SCHEMA, "required": []}),
        ("book", {**SCHEMA, "additionalProperties": {"type": "string"}}),
        ("book", {**SCHEMA, "properties": {"nights": SCHEMA["properties"]["nights"]}}),
        ("book", {**SCHEMA, "properties": {**SCHEMA["properties"], "title": {"type": "integer"}}}),
        ("book", {**SCHEMA, "properties": {**SCHEMA["properties"], "nights": {"type": "integer", "default": 2}}}),
        ("book", {**SCHEMA, "properties": {**SCHEMA["properties"], "strict": {"type": "boolean"}}}),
    ],
    ids=["name", "none", "required", "further ones", "one less", "type", "default", "one more"],
)
def test_a_tool_of_another_name_or_other_arguments_has_another_signature(tool, other):
    assert signature(tool, other) != signature("book", SCHEMA)
