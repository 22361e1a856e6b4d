from __future__ import annotations

import contextlib
import functools
import operator
import random
import subprocess
import sys
from collections import Counter
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import tool
from langgraph.channels import AnyValue, EphemeralValue
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send
from tests.extent import examples
from tests.integrations.langgraph.world import turn

from settlemark import Settlement, UsageError, effect
from settlemark_langgraph import Finding, Kind, SequencedToolNode, SettlementMiddleware, analyze, reducers


class Cells(TypedDict, total=False):
    a: int
    b: int
    c: int


class Account(TypedDict, total=False):
    balance: int
    seen: int


class OnlyBalance(TypedDict):
    balance: int


class OnlySeen(TypedDict):
    seen: int


class OnlyA(TypedDict):
    a: int


class Nothing(TypedDict):
    c: int


def told(report):
    return [(found.kind.value, found.channel or found.tool, found.nodes) for found in report.findings]


def together(report):
    return set(report.supersteps)


def idle(state: Nothing):
    return {}


def graph(*nodes, state=Cells, edges=()):
    """A builder of nodes that touch nothing."""
    builder = StateGraph(state)
    for node in nodes:
        builder.add_node(node, idle)
    for start, end in edges:
        builder.add_edge(start, end)
    return builder


def writers(*nodes, edges=()):
    """A builder of nodes that write `a` and do not read it."""
    builder = StateGraph(Cells)
    for node in nodes:
        builder.add_node(node, lambda state: {"a": 1}, input_schema=Nothing)
    for start, end in edges:
        builder.add_edge(start, end)
    return builder


# ---- supersteps


NODES = ["n0", "n1", "n2", "n3", "n4"]
PLACES = st.sampled_from(NODES)


def taken(builder, limit):
    """The supersteps of one run of stock LangGraph: how often each node ran."""
    steps: dict[int, Counter[str]] = {}
    with contextlib.suppress(GraphRecursionError):
        for event in builder.compile().stream({}, {"recursion_limit": limit}, stream_mode="debug"):
            if event["type"] == "task":
                steps.setdefault(event["step"], Counter())[event["payload"]["name"]] += 1
    return list(steps.values())


def wired(starts, edges, joins, deferred):
    builder = StateGraph(Cells)
    for node in NODES:
        builder.add_node(node, idle, defer=node in deferred)
    for node in starts:
        builder.add_edge(START, node)
    for start, end in edges:
        builder.add_edge(start, end)
    for sources, end in joins:
        builder.add_edge(sorted(sources), end)
    return builder


WIRES = {
    "starts": st.sets(PLACES, min_size=1, max_size=3),
    "edges": st.sets(st.tuples(PLACES, PLACES), max_size=6),
    "joins": st.lists(st.tuples(st.frozensets(PLACES, min_size=2, max_size=3), PLACES), max_size=2, unique=True),
    "deferred": st.sets(PLACES, max_size=1),
}


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(**WIRES)
def test_without_routers_the_supersteps_are_those_of_the_one_run_there_is(starts, edges, joins, deferred):
    builder = wired(starts, edges, joins, deferred)

    report = analyze(builder)

    assert together(report) == {tuple(sorted(step.elements())) for step in taken(builder, 40)}
    assert report.complete


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(
    **WIRES,
    routes=st.dictionaries(
        PLACES, st.tuples(st.sets(PLACES, min_size=1, max_size=3), st.booleans(), st.booleans()), max_size=2
    ),
    seed=st.integers(0, 1000),
)
def test_whatever_a_router_does_each_superstep_of_a_run_is_among_them(starts, edges, joins, deferred, routes, seed):
    builder = wired(starts, edges, joins, deferred)
    chance = random.Random(seed)

    def one_of(ends, state) -> str:
        return chance.choice(ends)

    def some_of(ends, sends, state):
        chosen = chance.sample(ends, chance.randint(0, len(ends)))
        return [Send(end, {}) if sends and chance.random() < 0.5 else end for end in chosen for _ in range(2)]

    for node, (allowed, several, sends) in routes.items():
        ends = sorted(allowed)
        choose = functools.partial(some_of, ends, sends) if several else functools.partial(one_of, ends)
        builder.add_conditional_edges(node, choose, ends)

    report = analyze(builder)

    known = [Counter(superstep) for superstep in report.supersteps]
    for step in taken(builder, 10):
        capped = Counter({node: min(times, 2) for node, times in step.items()})
        assert any(capped <= one for one in known), step
    assert report.complete


def test_a_loop_beside_a_longer_chain_meets_all_of_it():
    builder = graph("loop", "first", "second", "third", edges=[("first", "second"), ("second", "third")])
    builder.add_edge(START, "loop").add_edge(START, "first")
    builder.add_conditional_edges("loop", lambda state: "loop" if state["a"] else END, ["loop", END])

    assert {("loop", "third"), ("loop", "second"), ("first", "loop"), ("third",)} <= together(analyze(builder))


def test_a_loop_that_writes_what_a_longer_chain_writes_late_is_a_fail_stop_and_stock_stops_there():
    class Rounds(TypedDict, total=False):
        rounds: int
        a: int

    builder = StateGraph(Rounds)
    builder.add_node("loop", lambda state: {"rounds": state["rounds"] + 1, "a": 1})
    builder.add_node("early", idle).add_node("late", lambda state: {"a": 2}, input_schema=Nothing)
    builder.add_edge(START, "loop").add_edge(START, "early").add_edge("early", "late")
    builder.add_conditional_edges("loop", lambda state: "loop" if state["rounds"] < 3 else END)

    (found,) = analyze(builder).findings

    assert (found.kind, found.channel, found.nodes, found.superstep) == (
        Kind.FAIL_STOP,
        "a",
        ("late", "loop"),
        ("late", "loop"),
    )
    with pytest.raises(InvalidUpdateError):
        builder.compile().invoke({"rounds": 0})


def test_a_send_runs_a_node_several_times_in_one_superstep_and_a_single_send_once():
    def fan(state):
        return [Send("worker", {"c": n}) for n in range(3)]

    def single(state):
        return Send("worker", {"c": 1})

    def two(state):
        return [Send("worker", {"c": 1}), Send("worker", {"c": 2})]

    for router, expected in ((fan, ("worker", "worker")), (single, ("worker",)), (two, ("worker", "worker"))):
        builder = graph("worker")
        builder.add_conditional_edges(START, router, ["worker"])
        assert together(analyze(builder)) == {expected}


def test_a_join_waits_for_all_its_sources_so_that_the_longer_branch_is_not_beside_what_comes_after():
    joined = graph("a", "b1", "b2", "end", edges=[(START, "a"), (START, "b1"), ("b1", "b2")])
    joined.add_edge(["a", "b2"], "end")
    unjoined = graph(
        "a", "b1", "b2", "end", edges=[(START, "a"), (START, "b1"), ("b1", "b2"), ("a", "end"), ("b2", "end")]
    )

    assert together(analyze(joined)) == {("a", "b1"), ("b2",), ("end",)}
    assert together(analyze(unjoined)) == {("a", "b1"), ("b2", "end"), ("end",)}


def test_a_deferred_node_runs_when_nothing_else_is_left():
    builder = StateGraph(Cells).add_node("a", idle).add_node("b1", idle).add_node("b2", idle)
    builder.add_node("end", idle, defer=True)
    for start, end in [(START, "a"), (START, "b1"), ("b1", "b2"), ("a", "end"), ("b2", "end")]:
        builder.add_edge(start, end)

    assert together(analyze(builder)) == {("a", "b1"), ("b2",), ("end",)}


def test_an_error_handler_runs_in_the_place_of_its_node():
    builder = StateGraph(Cells).add_node("a", idle, error_handler=idle).add_node("b", idle)
    builder.add_edge(START, "a").add_edge(START, "b")

    assert together(analyze(builder)) == {("a", "b"), ("__error_handler__a", "b")}


def one_or_other(state) -> Literal["a", "b"]:
    return "a" if state["a"] else "b"


def by_the_state(state: Cells):
    return "a" if state["a"] else ["b"]


def by_a_local(state):
    goto = "a"
    if state["b"]:
        goto = "b"
    return goto


def by_an_unknown_text(state):
    goto = state["a"].choice()
    if goto == "done":
        goto = END
    return goto


def by_a_table(state):
    return {True: "a", False: "b"}[state["a"] > 1]


@pytest.mark.parametrize("router", [one_or_other, by_the_state, by_a_local, by_an_unknown_text, by_a_table])
def test_a_router_that_returns_one_node_never_runs_two(router):
    builder = graph("a", "b")
    builder.add_conditional_edges(START, router, ["a", "b", END])

    assert together(analyze(builder)) == {("a",), ("b",)}


def both(state):
    return ["a", "b"]


def grown(state):
    found = []
    if state["a"]:
        found.append("a")
    found.append("b")
    return found


@pytest.mark.parametrize("router", [both, grown, len, functools.partial(operator.add, 1)])
def test_a_router_that_returns_a_list_or_cannot_be_read_runs_both(router):
    builder = graph("a", "b")
    builder.add_conditional_edges(START, router, ["a", "b"])

    assert any(set(superstep) == {"a", "b"} for superstep in analyze(builder).supersteps)


def test_a_router_without_path_map_or_readable_source_may_lead_anywhere():
    builder = graph("a", "b", "c")
    builder.add_edge(START, "a").add_conditional_edges("a", functools.partial(operator.add, 1))

    assert any(set(superstep) == {"a", "b", "c"} for superstep in analyze(builder).supersteps)


def test_a_router_of_too_many_ends_is_not_enumerated_and_all_nodes_count_as_running_together():
    names = [f"n{number}" for number in range(12)]
    builder = writers("n0", "n1")
    for name in names[2:]:
        builder.add_node(name, idle)
    builder.add_conditional_edges(START, functools.partial(operator.add, 1), names)

    report = analyze(builder)

    assert not report.complete
    assert "the start may lead to 12 ends, any of them together" in report.notes[0]
    assert ("fail-stop", "a", ("n0", "n1")) in told(report)


def test_when_the_limit_is_reached_all_nodes_count_as_running_together_and_it_says_so():
    builder = writers("x", "y", edges=[(START, "x"), ("x", "y")])
    said = []

    report = analyze(builder, limit=1, tell=said.append)

    assert not report.complete
    assert ("fail-stop", "a", ("x", "y")) in told(report)
    assert "more supersteps than the limit allows" in report.notes[0]
    assert analyze(builder, tell=said.append).findings == ()


def test_commands_lead_where_their_source_says_and_where_their_annotation_does():
    def literal(state: Nothing):
        return Command(goto=["a", "b"])

    def announced(state: Nothing) -> Command[Literal["a", "b"]]:
        return make(state)

    def to_sends(state: Nothing):
        return Command(goto=[Send("a", {}) for _ in "xy"])

    for node, expected in ((literal, ("a", "b")), (announced, ("a", "b")), (to_sends, ("a", "a"))):
        builder = graph("a", "b").add_node("go", node).add_edge(START, "go")
        found = together(analyze(builder))
        assert any(set(superstep) == set(expected) and len(superstep) >= 2 for superstep in found), node


def make(state): ...


# ---- what nodes write


def as_literal(state: Nothing):
    return {"a": 1}


def as_local(state: Nothing):
    found: dict[str, Any] = {}
    found["a"] = 1
    return found


def as_command(state: Nothing):
    return Command(update={"a": 1}, goto=END)


def as_copy(state: Nothing):
    return {**as_literal(state)}


def as_dict(state: Nothing):
    return dict(as_literal(state), a=2) if state["c"] else None


def as_helper(state: Nothing):
    return as_literal(state)


async def as_coroutine(state: Nothing):
    return as_local(state) | {}


KEY = "a"


def as_constant(state: Nothing):
    return {KEY: 1}


class Agent:
    def method(self, state: Nothing):
        return {"a": 1}

    def __call__(self, state: Nothing):
        return {"a": 1}


WRITES_A = [
    as_literal, as_local, as_command, as_copy, as_dict, as_helper, as_coroutine, as_constant, Agent().method, Agent(),
    lambda state: {"a": 1}, functools.partial(as_literal),
]  # fmt: skip # a list of names and values


@pytest.mark.parametrize("node", WRITES_A)
def test_what_a_node_writes_is_read_from_its_source(node):
    builder = StateGraph(Cells)
    for name in "xy":
        builder.add_node(name, node, input_schema=Nothing)
        builder.add_edge(START, name)

    report = analyze(builder)

    assert told(report) == [("fail-stop", "a", ("x", "y"))]
    assert report.notes == ()


def filled_elsewhere(state: Nothing):
    found = {"a": 1}
    make(found)
    return found


def computed(state: Nothing):
    return {name: number for number, name in enumerate("ab")}


@pytest.mark.parametrize("node", [filled_elsewhere, computed, functools.partial(operator.add, 1)])
def test_what_cannot_be_read_counts_as_every_channel(node):
    builder = StateGraph(Cells)
    for name in "xy":
        builder.add_node(name, node, input_schema=Nothing)
        builder.add_edge(START, name)

    report = analyze(builder)

    assert told(report) == [("fail-stop", channel, ("x", "y")) for channel in "abc"]
    assert len(report.notes) == 2
    assert "x writes cannot be read from its source" in report.notes[0]


def test_one_run_tells_what_the_source_does_not():
    builder = StateGraph(Cells)
    for name in "xy":
        builder.add_node(name, lambda state, key=name: {{"x": "a", "y": "b"}[key]: 1}, input_schema=Nothing)
        builder.add_edge(START, name)

    assert len(analyze(builder).findings) == 3
    assert analyze(builder, run={}).findings == ()
    assert analyze(builder.compile(), run={}).notes == ()


async def test_the_run_may_be_asked_for_within_a_running_loop_and_its_end_by_an_error_is_said():
    async def fails(state: Nothing):
        raise ValueError("no key")

    builder = StateGraph(Cells).add_node("x", fails).add_node("y", computed)
    builder.add_edge(START, "x").add_edge("x", "y")

    report = analyze(builder, run={})

    assert (
        report.notes[0] == "the run ended early (ValueError: no key): nodes that it did not reach are not known by it"
    )


def test_the_state_handed_on_writes_all_that_was_read():
    builder = StateGraph(Cells)
    builder.add_node("x", lambda state: state).add_node("y", lambda state: {"b": 1}, input_schema=Nothing)
    builder.add_edge(START, "x").add_edge(START, "y")

    assert told(analyze(builder)) == [("fail-stop", "b", ("x", "y")), ("stale-read", "c", ("y", "x"))]


# ---- kinds


def deposits(builder):
    builder.add_node("look", lambda state: {"seen": state["balance"]}, input_schema=OnlyBalance)
    builder.add_node("add", lambda state: {"balance": state["seen"] + 10}, input_schema=OnlySeen)
    builder.add_node("deposit", lambda state: {"balance": state["balance"] + 10}, input_schema=OnlyBalance)
    return builder.add_edge(START, "look").add_edge("look", "add").add_edge(START, "deposit")


def test_a_value_read_early_and_written_over_late_is_a_lost_update_and_stock_loses_it():
    builder = deposits(StateGraph(Account))

    (found,) = analyze(builder).findings

    assert (found.kind, found.channel, found.nodes, found.superstep, found.suggestion) == (
        Kind.LOST_UPDATE,
        "balance",
        ("deposit", "add"),
        ("deposit", "look"),
        "add",
    )
    assert found.why.startswith("look reads 'balance', deposit writes it, and then add")
    assert builder.compile().invoke({"balance": 100})["balance"] == 110


def test_a_reducer_keeps_the_update_and_what_was_read_stays_stale():
    class Summed(TypedDict, total=False):
        balance: Annotated[int, reducers.add]
        seen: int

    assert told(analyze(deposits(StateGraph(Summed)))) == [("stale-read", "balance", ("look", "deposit"))]


def test_a_write_that_waits_for_the_other_branch_loses_nothing():
    builder = StateGraph(Account)
    builder.add_node("look", lambda state: {"seen": 1}, input_schema=OnlySeen)
    builder.add_node("deposit", lambda state: {"balance": state["balance"] + 10}, input_schema=OnlyBalance)
    builder.add_node("add", lambda state: {"balance": state["balance"] + state["seen"]})
    builder.add_edge(START, "look").add_edge(START, "deposit").add_edge(["look", "deposit"], "add")

    assert analyze(builder).findings == ()


def a_state(kind):
    class State(TypedDict, total=False):
        c: int

    State.__annotations__["a"] = kind
    return State


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Annotated[int, AnyValue], "lost-update"),
        (Annotated[int, EphemeralValue], "fail-stop"),
        (int, "fail-stop"),
        (Annotated[int, operator.add], None),
        (Annotated[reducers.Owned, reducers.SingleWriter], None),
    ],
)
def test_two_writers_in_one_superstep_meet_the_channels_own_rule(kind, expected):
    builder = StateGraph(a_state(kind))
    for name in "xy":
        builder.add_node(name, lambda state: {"a": 1}, input_schema=Nothing)
        builder.add_edge(START, name)

    assert told(analyze(builder)) == ([] if expected is None else [(expected, "a", ("x", "y"))])


@pytest.mark.parametrize(
    ("kind", "reducer"),
    [
        (int, "add"),
        (list[str], "append"),
        (dict[str, int], "merge_by_key"),
        (str, "latest_by_version"),
        (list[MessagesState], "append"),
        (int | None, "add"),
    ],
)
def test_the_suggestion_is_a_reducer_of_ours_that_suits_the_type(kind, reducer):
    builder = StateGraph(a_state(kind))
    for name in "xy":
        builder.add_node(name, lambda state: {"a": 1}, input_schema=Nothing)
        builder.add_edge(START, name)

    (found,) = analyze(builder).findings

    assert found.suggestion == reducer
    assert hasattr(reducers, found.suggestion)


def test_who_writes_through_latest_by_version_alone_goes_by_no_old_value():
    class Plan(TypedDict, total=False):
        plan: Annotated[reducers.Versioned, reducers.latest_by_version]
        c: int

    builder = StateGraph(Plan)
    builder.add_node("x", lambda state: {"plan": reducers.propose(state.get("plan"), 1)})
    builder.add_node("y", lambda state: {"plan": reducers.propose(state.get("plan"), 2)})
    builder.add_edge(START, "x").add_edge(START, "y")

    assert analyze(builder).findings == ()


def test_signed_nodes_are_read_as_what_they_were():
    builder = writers("x", "y", edges=[(START, "x"), (START, "y")])

    assert told(analyze(reducers.signed(builder))) == [("fail-stop", "a", ("x", "y"))]


# ---- subgraphs


def test_a_subgraph_is_looked_at_inside_with_its_name_before_its_nodes():
    inner = writers("x", "y", edges=[(START, "x"), (START, "y")])
    builder = StateGraph(Cells).add_node("team", inner.compile()).add_edge(START, "team")

    report = analyze(builder)

    (found,) = report.findings
    assert (found.nodes, found.superstep) == (("team:x", "team:y"), ("team:x", "team:y"))
    assert report.supersteps == (("team",), ("team:x", "team:y"))


def test_a_subgraph_hands_back_all_of_its_output_so_one_that_only_reads_a_key_is_a_writer_and_stock_stops():
    inner = StateGraph(Cells).add_node("x", lambda state: {"b": 1}).add_edge(START, "x").compile()
    builder = StateGraph(Cells).add_node("team", inner).add_node("y", lambda state: {"a": 1}, input_schema=Nothing)
    builder.add_edge(START, "team").add_edge(START, "y")

    report = analyze(builder)

    assert ("fail-stop", "a", ("team", "y")) in told(report)
    assert "team hands back its whole output schema, 'a' with it" in report.findings[0].why
    with pytest.raises(InvalidUpdateError):
        builder.compile().invoke({"a": 0})


def test_a_command_to_the_parent_leads_and_writes_there():
    def leave(state: Nothing):
        return Command(graph=Command.PARENT, goto=["a", "b"], update={"b": 1})

    inner = StateGraph(Nothing).add_node("leave", leave).add_edge(START, "leave").compile()
    builder = graph("a", "b").add_node("team", inner).add_node("y", lambda state: {"b": 2}, input_schema=OnlyA)
    builder.add_edge(START, "team").add_edge(START, "y")

    report = analyze(builder)

    assert ("a", "b") in together(report)
    assert told(report) == [("fail-stop", "b", ("team", "y"))]


# ---- tools


@tool
def pay(amount: int) -> str:
    """Pay."""
    return "paid"


@tool
@effect("read", scope="city:/{city}")
def weather(city: str) -> str:
    """Say how the weather is."""
    return "sun"


def with_tools(node):
    builder = StateGraph(MessagesState).add_node("model", lambda state: {"messages": [turn(("pay", {"amount": 1}))]})
    return builder.add_node("tools", node).add_edge(START, "model").add_edge("model", "tools")


def test_an_undeclared_tool_of_a_stock_node_is_found_with_the_node_to_swap_for_it():
    (found,) = analyze(with_tools(ToolNode([pay, weather]))).findings

    assert found == Finding(
        Kind.UNDECLARED_TOOL,
        None,
        ("tools",),
        ("tools",),
        "SequencedToolNode",
        "what pay does to the world is not declared, so it cannot be held back or undone: swap the stock ToolNode for"
        ' SequencedToolNode(tools, settlement=…), and settlement.declare("pay", …)',
        "pay",
    )


def test_a_sequenced_nodes_own_declarations_count_and_so_do_those_of_a_settlement_that_is_given():
    with Settlement("memory:") as settlement:
        assert told(analyze(with_tools(SequencedToolNode([pay, weather])))) == [("undeclared-tool", "pay", ("tools",))]
        assert analyze(with_tools(SequencedToolNode([pay], effects={"pay": "opaque"}))).findings == ()
        assert told(analyze(with_tools(SequencedToolNode([pay], settlement=settlement)))) != []
        settlement.declare("pay", "idempotent", scope="account:/all")
        assert analyze(with_tools(SequencedToolNode([pay], settlement=settlement))).findings == ()
        assert analyze(with_tools(ToolNode([pay])), settlement=settlement).findings == ()


def test_of_declared_tools_in_a_stock_node_it_is_said_that_nobody_heeds_the_declaration():
    report = analyze(with_tools(ToolNode([weather])))

    assert report.findings == ()
    assert "a stock ToolNode heeds no declaration" in report.notes[0]


def test_an_agent_of_create_agent_has_sound_channels_and_its_tools_are_declared_through_the_middleware():
    model = FakeListChatModel(responses=["done"])
    with Settlement("memory:") as settlement:
        bare = analyze(create_agent(model, [pay]))
        middleware = SettlementMiddleware(settlement)
        settling = analyze(create_agent(model, [pay], middleware=[middleware]))
        settlement.declare("pay", "idempotent", scope="account:/all")
        declared = analyze(create_agent(model, [pay], middleware=[middleware]))

    assert together(bare) == {("model",), ("tools",), ("tools", "tools")}
    assert [(f.kind, f.tool, f.suggestion) for f in bare.findings] == [
        (Kind.UNDECLARED_TOOL, "pay", "SettlementMiddleware")
    ]
    assert [(f.kind, f.tool, f.suggestion) for f in settling.findings] == [
        (Kind.UNDECLARED_TOOL, "pay", "settlement.declare")
    ]
    assert declared.findings == ()


def test_a_tool_that_updates_the_state_by_a_command_writes_it_beside_its_like():
    class Memo(MessagesState):
        memo: str

    @tool
    @effect("read", scope="memo:/all")
    def remember(text: str) -> Command:
        """Remember."""
        return Command(update={"memo": text})

    builder = StateGraph(Memo).add_node("tools", ToolNode([remember]))
    builder.add_conditional_edges(START, lambda state: [Send("tools", call) for call in state["messages"]], ["tools"])

    assert told(analyze(builder)) == [("fail-stop", "memo", ("tools", "tools"))]


# ---- the report, and what is refused


def test_a_report_is_clean_or_not_and_says_all_as_json():
    builder = writers("x", "y", edges=[(START, "x"), (START, "y")])

    report = analyze(builder)

    assert not report.clean
    assert report.to_json() == {
        "clean": False,
        "complete": True,
        "findings": [
            {
                "kind": "fail-stop",
                "channel": "a",
                "nodes": ["x", "y"],
                "superstep": ["x", "y"],
                "suggestion": "add",
                "why": "x and y both write 'a' in one superstep: a plain channel takes one write a superstep, and the"
                " run ends after both have acted; give it a reducer (add)",
                "tool": None,
            }
        ],
        "supersteps": [["x", "y"]],
        "notes": [],
    }
    assert analyze(graph("x", edges=[(START, "x")])).clean


def test_a_builder_can_still_be_added_to(caplog):
    builder = graph("x", edges=[(START, "x")])

    analyze(builder, run={})
    builder.add_node("y", idle)

    assert caplog.messages == []


@pytest.mark.parametrize("given", [None, idle, FakeListChatModel(responses=[]), "graph"])
def test_what_is_no_graph_is_refused(given):
    with pytest.raises(UsageError, match="analyze\\(\\) takes a StateGraph, or what its compile\\(\\) returns"):
        analyze(given)


def test_a_graph_that_langgraph_refuses_is_refused_in_its_words():
    with pytest.raises(UsageError, match="LangGraph refuses this graph: Graph must have an entrypoint"):
        analyze(graph("x"))


def test_the_swap_loads_neither_the_analysis_nor_the_channels():
    code = (
        "import sys\n"
        "from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, settled_checkpointer\n"
        "rooms = ('settlemark_langgraph.analysis', 'settlemark_langgraph.channels')\n"
        "print([room for room in rooms if room in sys.modules])\n"
        "from settlemark_langgraph import analyze, reducers\n"
        "print([room for room in rooms if room in sys.modules], reducers.append.__name__, analyze.__name__)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = ["settlemark_langgraph.analysis", "settlemark_langgraph.channels"]
    assert said.stdout == f"[]\n{rooms} append analyze\n"
