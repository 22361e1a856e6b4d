"""What two nodes write: what the stock channel makes of it, and what each of ours promises instead."""

from __future__ import annotations

import asyncio
import copy
import json
import operator
import pickle
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph import types
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from settlemark_langgraph import reducers
from settlemark_langgraph.channels import SingleWriter, latest_by_version, propose, resolve, value_of

THREAD = {"configurable": {"thread_id": "1"}}
Plan = Annotated[reducers.Versioned, latest_by_version]
Verdict = Annotated[reducers.Owned, SingleWriter]


def state_of(**fields):
    return TypedDict("State", {**fields, "n": int}, total=False)


def graph(schema, nodes, *edges, saver=None, sign=True):
    """A graph of these nodes; without edges they all share one step."""
    builder = StateGraph(schema)
    for name, node in nodes.items():
        builder.add_node(name, RunnableLambda(lambda _, update=node: update) if isinstance(node, dict) else node)
    for start, end in edges or [(START, name) for name in nodes]:
        builder.add_edge(start, end)
    return (reducers.signed(builder) if sign else builder).compile(checkpointer=saver)


# The vanishing todos of deer-flow #3123


@pytest.mark.parametrize(
    ("channel", "left"), [(list | None, None), (Annotated[list | None, reducers.keep_last], ["book", "pay"])]
)
def test_a_node_that_returns_no_todos_wipes_them_on_stock_and_not_under_keep_last(invoke, channel, left):
    nodes = {"plan": {"todos": ["book", "pay"]}, "report": {"todos": None, "n": 1}}
    made = graph(state_of(todos=channel), nodes, (START, "plan"), ("plan", "report"))

    assert invoke(made, {"n": 0}) == {"todos": left, "n": 1}


@pytest.mark.parametrize(
    ("channel", "left"), [(list | None, None), (Annotated[list | None, reducers.keep_last], ["book"])]
)
def test_a_field_of_a_state_object_that_kept_its_default_wipes_on_stock_and_not_under_keep_last(invoke, channel, left):
    @dataclass
    class State:
        n: int = 0
        todos: channel = None

    State.__annotations__["todos"] = channel
    nodes = {"plan": lambda state: {"todos": ["book"]}, "report": lambda state: State(n=1)}
    made = graph(State, nodes, (START, "plan"), ("plan", "report"))

    assert invoke(made, {"n": 0}) == {"todos": left, "n": 1}


def test_todos_that_two_nodes_write_in_one_step_are_all_there_with_the_fields_of_both(invoke):
    seed = {"todos": [{"id": 1, "text": "book"}]}
    nodes = {
        "left": {"todos": [{"id": 1, "done": True}]},
        "right": {"todos": [{"id": 2, "text": "pay"}, {"id": 1, "by": "Ada"}]},
    }

    with pytest.raises(InvalidUpdateError):
        invoke(graph(state_of(todos=list[dict]), nodes), seed)
    made = graph(state_of(todos=Annotated[list[dict], reducers.merge_by_key("id")]), nodes)

    assert invoke(made, seed)["todos"] == [
        {"id": 1, "text": "book", "done": True, "by": "Ada"},
        {"id": 2, "text": "pay"},
    ]


# 110 for 120


def test_two_deposits_on_branches_of_unequal_length_lose_one_on_stock_and_none_under_add(invoke):
    edges = (START, "quick"), (START, "slow"), ("slow", "slow_pays")
    total = {
        "quick": lambda state: {"balance": state["balance"] + 10},
        "slow": lambda state: {"seen": state["balance"]},
        "slow_pays": lambda state: {"balance": state["seen"] + 10},
    }
    delta = {"quick": {"balance": 10}, "slow": {"seen": 0}, "slow_pays": {"balance": 10}}

    stock = graph(state_of(balance=int, seen=int), total, *edges)
    ours = graph(state_of(balance=Annotated[int, reducers.add], seen=int), delta, *edges)

    assert invoke(stock, {"balance": 100})["balance"] == 110
    assert invoke(ours, {"balance": 100})["balance"] == 120


def test_add_loses_nothing_and_still_lets_two_nodes_spend_the_same_money(invoke):
    def spend(state):
        return {"balance": -80 if state["balance"] >= 80 else 0}

    made = graph(state_of(balance=Annotated[int, reducers.add]), {"left": spend, "right": spend})

    assert invoke(made, {"balance": 100})["balance"] == -60


# Two writers


def decide(state):
    return {"n": len(value_of(state["verdict"]))}


TWO = {"left": {"verdict": "yes"}, "right": {"verdict": "no"}, "use": decide}
TWO_EDGES = [(START, "left"), (START, "right"), ("left", "use"), ("right", "use")]
BOTH = (
    "verdict: 'left' and 'right' wrote in the same step: nothing was applied;"
    " let one node write, or resolve() it with the value that shall hold"
)


@pytest.mark.parametrize("other", ["no", "yes"])
def test_two_writers_stop_the_stock_run_without_a_name_and_make_the_thread_unreadable(invoke, other):
    made = graph(state_of(verdict=str), {**TWO, "right": {"verdict": other}}, *TWO_EDGES, saver=InMemorySaver())

    for again in ({"verdict": "?"}, None):
        with pytest.raises(InvalidUpdateError, match="Can receive only one value per step") as error:
            invoke(made, again, THREAD)
        assert "left" not in str(error.value)
    with pytest.raises(InvalidUpdateError):
        made.get_state(THREAD)


def test_a_reducer_that_raises_makes_the_thread_unreadable_too(invoke):
    def refuse(old, new):
        if old:
            raise ValueError("two writers")
        return new

    made = graph(state_of(verdict=Annotated[str, refuse]), TWO, *TWO_EDGES, saver=InMemorySaver())

    with pytest.raises(ValueError, match="two writers"):
        invoke(made, {"n": 0}, THREAD)
    with pytest.raises(ValueError, match="two writers"):
        made.get_state(THREAD)


@pytest.mark.parametrize("other", ["no", "yes"])
def test_two_writers_are_refused_by_name_in_the_node_that_reads_and_the_thread_stays_whole(invoke, other):
    made = graph(state_of(verdict=Verdict), {**TWO, "right": {"verdict": other}}, *TWO_EDGES, saver=InMemorySaver())

    with pytest.raises(reducers.WriteConflict) as error:
        invoke(made, {"verdict": "?"}, THREAD)

    assert str(error.value) == BOTH
    assert (error.value.by, error.value.values) == (["left", "right"], ["yes", other])
    state = made.get_state(THREAD)
    conflict = {"message": BOTH, "by": ["left", "right"], "values": ["yes", other]}
    assert state.values == {"verdict": {"last": "?", "by": None, "conflicts": [conflict]}}
    assert state.next == ("use",)

    made.update_state(THREAD, {"verdict": resolve(state.values["verdict"], "maybe")}, as_node="left")
    assert invoke(made, None, THREAD) == {"verdict": {"value": "maybe", "by": None, "conflicts": []}, "n": 5}


def test_the_next_undisputed_write_gives_a_refused_channel_a_value_and_keeps_the_conflict_in_sight(invoke):
    nodes = {**TWO, "use": {"verdict": "later"}}
    verdict = invoke(graph(state_of(verdict=Verdict), nodes, *TWO_EDGES), {"n": 0})["verdict"]

    assert (value_of(verdict), verdict["by"]) == ("later", "use")
    assert [conflict["by"] for conflict in reducers.conflicts(verdict)] == [["left", "right"]]


def test_writers_are_named_however_they_return_and_whoever_signs(invoke):
    nodes = {
        "a": lambda state: Command(update={"verdict": 1}),
        "b": lambda state: [Command(goto=[]), {"verdict": 2}],
        "c": lambda state: {"verdict": reducers.sign(3)},
    }

    def by(*, sign):
        found = invoke(graph(state_of(verdict=Verdict), nodes, sign=sign), {"n": 0})["verdict"]
        return found["conflicts"][0]["by"], found["conflicts"][0]["values"], found["conflicts"][0]["message"]

    assert by(sign=True)[:2] == (["a", "b", "c"], [1, 2, 3])
    assert by(sign=False)[:2] == ([None, None, "c"], [1, 2, 3])
    assert by(sign=False)[2].endswith("signed(builder) names every writer")


def test_a_node_whose_writes_are_signed_still_asks_and_is_resumed(invoke):
    def ask(state, config):
        return {"verdict": [types.interrupt("which?"), config["metadata"]["langgraph_node"]]}

    made = graph(state_of(verdict=Verdict), {"ask": ask}, saver=InMemorySaver())
    invoke(made, {"n": 0}, THREAD)

    assert [task.interrupts[0].value for task in made.get_state(THREAD).tasks] == ["which?"]
    assert invoke(made, Command(resume="yes"), THREAD)["verdict"] == {
        "value": ["yes", "ask"],
        "by": "ask",
        "conflicts": [],
    }


def test_two_tasks_of_one_node_are_two_writers(invoke):
    builder = StateGraph(state_of(verdict=Verdict))
    builder.add_node("worker", lambda state: {"verdict": state["n"]})
    builder.add_conditional_edges(START, lambda state: [Send("worker", {"n": n}) for n in (2, 1)], ["worker"])
    verdict = invoke(reducers.signed(builder).compile(), {"n": 0})["verdict"]

    assert (verdict["conflicts"][0]["by"], verdict["conflicts"][0]["values"]) == (["worker"] * 2, [2, 1])


def test_a_thread_from_before_the_annotation_keeps_its_value(invoke):
    saver = InMemorySaver()
    invoke(graph(state_of(verdict=str), {"left": {"verdict": "yes"}}, saver=saver), {"n": 0}, THREAD)
    made = graph(state_of(verdict=Verdict), {"left": {"n": 1}}, saver=saver)

    assert value_of(made.get_state(THREAD).values["verdict"]) == "yes"
    assert invoke(made, {"n": 0}, THREAD)["verdict"] == {"value": "yes", "by": None, "conflicts": []}


# The false positive of #6446


def nested(channel):
    schema = state_of(verdict=channel, other=int)
    inner = graph(schema, {"inner": {"other": 1}})
    return graph(schema, {"beside": {"verdict": "yes"}, "sub": inner})


def test_a_parallel_subgraph_that_touches_another_key_stops_the_stock_run_and_is_no_second_writer(invoke):
    with pytest.raises(InvalidUpdateError, match="verdict"):
        invoke(nested(str), {"verdict": "?"})

    assert invoke(nested(Verdict), {"verdict": "?"}) == {
        "verdict": {"value": "yes", "by": "beside", "conflicts": []},
        "other": 1,
    }


def test_a_subgraph_that_does_write_the_key_is_a_second_writer(invoke):
    schema = state_of(verdict=Verdict)
    sub = graph(schema, {"inner": {"verdict": "no"}})
    verdict = invoke(graph(schema, {"beside": {"verdict": "yes"}, "sub": sub}), {"verdict": "?"})["verdict"]

    assert [(c["by"], c["values"]) for c in verdict["conflicts"]] == [(["beside", "inner"], ["yes", "no"])]


def test_keep_last_cannot_tell_what_a_subgraph_hands_back_from_what_it_wrote(invoke):
    made = nested(Annotated[str, reducers.keep_last])

    assert invoke(made, {"verdict": "?"})["verdict"] == "?"


def test_a_subgraph_that_hands_a_versioned_key_back_is_no_writer(invoke):
    schema = state_of(plan=Plan, other=int)
    sub = graph(schema, {"inner": {"other": 1}})
    made = graph(schema, {"beside": lambda state: {"plan": propose(state["plan"], "drive")}, "sub": sub})

    assert invoke(made, {"plan": {"value": "fly"}}) == {
        "plan": {"value": "drive", "version": 2, "after": 1, "by": "beside", "conflicts": []},
        "other": 1,
    }


@pytest.mark.parametrize("beside", [{}, {"plan": {"value": "drive", "based_on": 3, "by": "beside"}}])
def test_what_a_subgraph_proposes_is_based_on_what_it_was_handed(invoke, beside):
    schema = state_of(plan=Plan)
    sub = graph(schema, {"inner": lambda state: {"plan": propose(state["plan"], "swim")}})
    made = graph(schema, {"beside": beside, "sub": sub})
    plan = invoke(made, {"plan": {"value": "fly", "version": 3}})["plan"]

    assert (plan["version"], plan["after"]) == (4, 3)
    assert plan["by"] == ("beside" if beside else "inner")
    assert [(c["by"], c["values"], c["based_on"]) for c in plan["conflicts"]] == (
        [(["inner", "beside"], ["swim"], 3)] if beside else []
    )


def test_what_a_subgraph_refused_is_on_record_in_its_parent(invoke):
    schema = state_of(plan=Plan)
    sub = graph(schema, {name: lambda state: {"plan": propose(state["plan"], "swim")} for name in ("one", "two")})
    plan = invoke(graph(schema, {"sub": sub}), {"plan": {"value": "fly"}})["plan"]

    assert (plan["version"], plan["by"], [c["by"] for c in plan["conflicts"]]) == (2, "one", [["two", "one"]])


# Versions


def slow_and_quick(write):
    """Both branches read the plan in the first step; the slow one writes after the quick one."""
    return {
        "quick": lambda state: {"plan": write(state["plan"], "drive")},
        "slow": lambda state: {"seen": state["plan"]},
        "slow_writes": lambda state: {"plan": write(state["seen"], "swim")},
    }


UNEQUAL = (START, "quick"), (START, "slow"), ("slow", "slow_writes")


def test_a_plan_made_from_a_superseded_one_replaces_it_on_stock_and_is_a_conflict_under_latest_by_version(invoke):
    stock = graph(state_of(plan=str, seen=Any), slow_and_quick(lambda seen, value: value), *UNEQUAL)
    ours = graph(state_of(plan=Plan, seen=Any), slow_and_quick(propose), *UNEQUAL, saver=InMemorySaver())

    assert invoke(stock, {"plan": "fly"})["plan"] == "swim"
    plan = invoke(ours, {"plan": {"value": "fly"}}, THREAD)["plan"]

    conflict = {
        "message": "'slow_writes' wrote on version 1, but 'quick' had written version 2: not applied;"
        " read it again and propose() anew",
        "by": ["slow_writes", "quick"],
        "values": ["swim"],
        "based_on": 1,
        "found": 2,
    }
    assert plan == {"value": "drive", "version": 2, "after": 1, "by": "quick", "conflicts": [conflict]}
    assert ours.get_state(THREAD).values["plan"] == plan
    assert value_of(plan) == "drive"


def test_of_two_writes_based_on_one_version_the_first_in_write_order_holds(invoke):
    nodes = {name: lambda state, name=name: {"plan": propose(state["plan"], name)} for name in ("z", "a")}
    plan = invoke(graph(state_of(plan=Plan), nodes), {"plan": {"value": "fly"}})["plan"]

    assert (plan["value"], plan["by"], [c["by"] for c in plan["conflicts"]]) == ("a", "a", [["z", "a"]])


def test_resolving_clears_the_conflicts_seen_and_only_those():
    seen = [{"message": "one", "by": [None], "values": [1]}]
    record = {"value": "fly", "version": 3, "after": 2, "by": None, "conflicts": seen}
    later = {"message": "two", "by": [None], "values": [2]}
    now = {**record, "conflicts": [*seen, later]}

    assert latest_by_version(now, resolve(record)) == {**record, "conflicts": [later]}
    assert latest_by_version(now, resolve(record, "go")) == {
        **record,
        "value": "go",
        "version": 4,
        "after": 3,
        "conflicts": [later],
    }
    moved = {**now, "version": 4}
    lost = latest_by_version(moved, resolve(record, "go"))
    assert (lost["value"], lost["conflicts"][:2], lost["conflicts"][2]["values"]) == ("fly", now["conflicts"], ["go"])


@pytest.mark.parametrize(
    ("head", "write", "version"),
    [
        (3, {"value": 1, "based_on": 3}, 4),
        (3, {"value": 1, "based_on": 3, "version": 9}, 9),
        (3, {"value": 1, "based_on": 3, "version": "etag"}, "etag"),
        ("etag", {"value": 1, "based_on": "etag"}, "etag+1"),
        ("etag+1", {"value": 1, "based_on": "etag+1"}, "etag+2"),
        ("etag", {"value": 1, "based_on": "etag", "version": "next"}, "next"),
        (3, {"value": 1, "based_on": 3, "version": 3}, None),
        (3, {"value": 1, "based_on": 3, "version": 2}, None),
        (3, {"value": 1, "based_on": 3, "version": 4.5}, None),
        (3, {"value": 1, "based_on": 2}, None),
        (3, {"value": 1, "based_on": 4}, None),
        (3, {"value": 1, "based_on": "3"}, None),
        (3, {"value": 1}, None),
        (3, {"other": 1}, None),
        (3, "bare", None),
    ],
)
def test_a_write_is_the_next_version_or_a_conflict_and_then_nothing_changed(head, write, version):
    record = {"value": 0, "version": head, "after": 0, "by": None, "conflicts": []}

    after = latest_by_version(record, write)

    if version is None:
        assert len(after.pop("conflicts")) == 1
        assert after == {"value": 0, "version": head, "after": 0, "by": None}
    else:
        assert after == {"value": 1, "version": version, "after": head, "by": None, "conflicts": []}


HELD = {"value": 0, "version": 3, "after": 2, "by": "x", "conflicts": []}


@pytest.mark.parametrize("nothing", [None, {}, HELD, {**HELD, "value": 9, "version": 2}, latest_by_version({}, None)])
def test_nothing_and_what_is_handed_back_unchanged_is_no_write(nothing):
    assert latest_by_version(HELD, nothing) == HELD


@pytest.mark.parametrize("other", [{**HELD, "value": 1}, {**HELD, "version": 1}, {**HELD, "version": 5, "after": 4}])
def test_a_whole_record_that_is_not_what_the_step_began_with_is_a_conflict(other):
    after = latest_by_version(HELD, other)

    assert len(after["conflicts"]) == 1
    assert {**after, "conflicts": []} == HELD


# One channel in two schemas


def two_schemas(first, second):
    builder = StateGraph(state_of(todos=first))
    builder.add_node("other", lambda state: {}, input_schema=state_of(todos=second))
    builder.add_edge(START, "other")
    return builder.compile()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Annotated[list, reducers.merge_by_key("id")],
        lambda: Annotated[list, reducers.dedupe_by_id],
        lambda: Annotated[list, reducers.append],
        lambda: Verdict,
    ],
)
def test_the_same_reducer_in_two_schemas_is_one_channel_and_another_is_refused(make):
    two_schemas(make(), make())

    for other in (reducers.merge_by_key("sku"), reducers.keep_last, operator.add):
        with pytest.raises(ValueError, match="Channel 'todos' already exists with a different type"):
            two_schemas(make(), Annotated[list, other])


def test_two_different_lambdas_are_taken_for_one_by_langgraph():
    two_schemas(Annotated[list, lambda old, new: old], Annotated[list, lambda old, new: new])


def test_a_reducer_is_its_own_copy_and_says_what_it_is():
    merge = reducers.merge_by_key("id")

    assert copy.deepcopy(merge) is pickle.loads(pickle.dumps(merge)) is merge
    assert (repr(merge), merge.__name__, merge == reducers.merge_by_key("sku")) == ("merge_by_key('id')",) * 2 + (
        False,
    )


# Write order, never completion order


EVERYTHING = state_of(
    last=Annotated[str, reducers.keep_last],
    log=Annotated[list, reducers.append],
    total=Annotated[float, reducers.add],
    items=Annotated[list, reducers.merge_by_key("id")],
    events=Annotated[list, reducers.dedupe_by_id],
    plan=Plan,
    verdict=Verdict,
)


def writes(name, n):
    return {
        "last": name,
        "log": [name],
        "total": 0.1 * n,
        "items": [{"id": 1, name: n, "by": name}, {"id": name}],
        "events": [{"id": 1, "by": name}, {"id": name}],
        "plan": {"value": name, "by": name},
        "verdict": name,
    }


class Finishing:
    """Nodes that end in a given order, by events."""

    def __init__(self, order):
        self.ended = []
        self.before = dict(zip(order, [None, *order], strict=False))
        self.threads = {name: threading.Event() for name in order}
        self.tasks = {name: asyncio.Event() for name in order}

    def node(self, name, n):
        def run(state):
            if before := self.before[name]:
                assert self.threads[before].wait(60)
            self.ended.append(name)
            self.threads[name].set()
            return writes(name, n)

        async def arun(state):
            if before := self.before[name]:
                await asyncio.wait_for(self.tasks[before].wait(), 5)
            self.ended.append(name)
            self.tasks[name].set()
            return writes(name, n)

        return RunnableLambda(run, arun)


@pytest.mark.parametrize("order", list(permutations("mza")), ids="".join)
def test_the_state_after_a_step_is_the_same_in_whatever_order_its_nodes_end(invoke, order):
    finishing = Finishing(order)
    builder = StateGraph(EVERYTHING)
    for n, name in enumerate("mza"):
        builder.add_node(name, finishing.node(name, n))
        builder.add_edge(START, name)

    state = invoke(reducers.signed(builder).compile(), {"n": 0})

    assert finishing.ended == list(order)
    assert state["last"] == "z"
    assert state["log"] == ["a", "m", "z"]
    assert state["total"] == 0.0 + 0.1 * 2 + 0.1 * 0 + 0.1 * 1
    assert state["items"] == [{"id": 1, "a": 2, "m": 0, "z": 1, "by": "z"}, {"id": "a"}, {"id": "m"}, {"id": "z"}]
    assert state["events"] == [{"id": 1, "by": "a"}, {"id": "a"}, {"id": "m"}, {"id": "z"}]
    assert (state["plan"]["value"], [c["by"] for c in state["plan"]["conflicts"]]) == ("a", [["m", "a"], ["z", "a"]])
    assert [c["by"] for c in state["verdict"]["conflicts"]] == [["a", "m", "z"]]


# Checkpoints


@pytest.mark.parametrize(
    "open_saver", [lambda: nullcontext(InMemorySaver()), lambda: SqliteSaver.from_conn_string(":memory:")]
)
def test_what_the_channels_hold_comes_back_from_a_checkpointer_and_goes_on(open_saver):
    with open_saver() as saver:
        made = graph(EVERYTHING, {"a": lambda state: writes("a", 1), "b": lambda state: writes("b", 2)}, saver=saver)
        first = made.invoke({"n": 0}, THREAD)
        assert made.get_state(THREAD).values == first
        second = made.invoke({"n": 0}, THREAD)

    assert second["log"] == ["a", "b"] * 2
    assert second["events"] == first["events"]
    assert [len(state["verdict"]["conflicts"]) for state in (first, second)] == [1, 2]
    assert [len(state["plan"]["conflicts"]) for state in (first, second)] == [1, 3]
    assert json.loads(json.dumps(second)) == second
    serde = JsonPlusSerializer(pickle_fallback=False)
    assert serde.loads_typed(serde.dumps_typed(second)) == second


def test_the_first_write_of_a_type_that_cannot_be_called_is_stored_unreduced_and_made_whole_by_the_next(invoke):
    saver = InMemorySaver()
    channels = {"plan": Annotated[reducers.Versioned | None, latest_by_version]}
    first = {"plan": {"value": "fly"}}
    made = graph(state_of(**channels), {"a": {"n": 1}}, saver=saver)

    assert invoke(made, first, THREAD)["plan"] == {"value": "fly"}
    made.update_state(THREAD, {"plan": {"value": "drive", "based_on": 1}}, as_node="a")
    assert made.get_state(THREAD).values["plan"] == {
        "value": "drive",
        "version": 2,
        "after": 1,
        "by": None,
        "conflicts": [],
    }


@pytest.mark.skipif(not hasattr(types, "Overwrite"), reason="came with a later release of LangGraph 1")
def test_an_overwrite_replaces_what_is_there(invoke):
    replaced = {key: types.Overwrite(value) for key, value in {"log": ["new"], "total": 1.0, "verdict": "new"}.items()}
    made = graph(EVERYTHING, {"a": lambda state: writes("a", 1), "b": lambda state: replaced}, saver=InMemorySaver())
    state = invoke(made, {"n": 0}, THREAD)

    assert (state["log"], state["total"], value_of(state["verdict"])) == (["new"], 1.0, "new")
    assert made.get_state(THREAD).values == state
    both = graph(EVERYTHING, {"a": {"verdict": types.Overwrite(1)}, "b": {"verdict": types.Overwrite(2)}})
    assert invoke(both, {"n": 0})["verdict"]["conflicts"][0]["values"] == [1, 2]
