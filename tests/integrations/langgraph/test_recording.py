"""A stock graph that is recorded shows its anomalies; one that runs its nodes one by one shows none."""

from __future__ import annotations

import asyncio
import logging
import operator
import threading
from typing import Annotated, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, Send, interrupt
from tests.integrations.langgraph.world import THREAD, graph, turn

from settlemark import UsageError
from settlemark.history import Recorder, analyze
from settlemark.recording import Graphs
from settlemark_langgraph import record

FIVE = turn(*[("act", {"n": n}) for n in range(5)])


class Trip(TypedDict, total=False):
    date: str
    flight: str


@pytest.fixture(autouse=True)
def nothing_went_wrong_inside(caplog):
    """A callback's error is only logged by LangChain: here it fails the test."""
    yield
    assert [r for r in caplog.records if r.levelno >= logging.WARNING and "callback" in r.getMessage()] == []


@pytest.fixture
def recorder():
    with Recorder() as recorder:
        yield recorder


def found(recorder):
    return {verdict.anomaly: verdict.count for verdict in analyze(recorder.records).verdicts if verdict.count}


def of(recorder, agent):
    return [record for record in recorder.records if record.agent == agent]


class Dated(TypedDict, total=False):
    date: str


def planning(*, together, plan=lambda trip: {"date": "21 June"}, book=lambda trip: {"flight": trip["date"]}):
    builder = StateGraph(Trip)
    builder.add_node("plan", plan, input_schema=Dated)
    builder.add_node("book", book, input_schema=Dated)
    builder.add_edge(START, "plan")
    builder.add_edge(START if together else "plan", "book")
    return builder


@pytest.mark.parametrize("saver", [None, InMemorySaver], ids=["bare", "saved"])
def test_a_node_beside_one_that_writes_what_it_reads_is_stale_on_the_clock_of_supersteps(recorder, invoke, saver):
    result = invoke(record(planning(together=True).compile(saver and saver()), recorder), {"date": "14 June"}, THREAD)

    assert result == {"date": "21 June", "flight": "14 June"}
    witness = analyze(recorder.records)["A1-semantic"].witnesses[0]
    assert (witness.cell, witness.values) == ("trip-42/date", ("14 June", "21 June"))
    assert {record.agent: (record.read_barrier, record.write_barrier) for record in recorder.records} == {
        "input": (None, None),
        "plan": (0, 1),
        "book": (0, 1),
    }


def test_a_node_behind_it_is_not(recorder, invoke):
    invoke(record(planning(together=False).compile(), recorder), {"date": "14 June"})

    assert found(recorder) == {}
    plan, book = of(recorder, "plan")[0], of(recorder, "book")[0]
    assert (book.read_values, book.write_values) == ({"date": "21 June"}, {"flight": "21 June"})
    assert book.preds == [plan.id]
    assert [(r.read_barrier, r.write_barrier) for r in (plan, book)] == [(0, 1), (1, 2)]


async def test_on_the_clock_of_commits_it_is_stale_when_the_other_one_ended_first(recorder):
    written = asyncio.Event()

    async def plan(trip):
        written.set()
        return {"date": "21 June"}

    async def book(trip):
        await written.wait()
        await asyncio.sleep(0)
        return {"flight": trip["date"]}

    compiled = planning(together=True, plan=plan, book=book).compile()
    await record(compiled, recorder).ainvoke({"date": "14 June"})

    assert found(recorder) == {"A1": 1, "A1-semantic": 1}
    assert analyze(recorder.records)["A1"].witnesses[0].sentence == (
        "book read date = '14 June' at 1 and committed at 3; in between, at 2, plan wrote '21 June'"
    )


# ---- tools


def slow_tool(patience=30):
    """A tool whose call n ends after call n + 1."""
    acted = [threading.Event() for _ in range(6)]
    acted[5].set()

    def act(n: int) -> str:
        """Act."""
        acted[n + 1].wait(patience)
        acted[n].set()
        return str(n)

    return act


def test_effects_that_a_stock_tool_node_reorders_are_found_and_its_transcript_does_not_show_them(recorder):
    state = record(graph(ToolNode([slow_tool()])), recorder).invoke({"messages": [FIVE]})

    assert [message.content for message in state["messages"][1:]] == ["0", "1", "2", "3", "4"]
    assert found(recorder)["A6"] == 1
    (last,) = [r for r in recorder.records if r.io]
    assert last.io == [("act", n) for n in range(5)]
    assert sorted(last.co) == last.io
    assert last.co != last.io


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_serial_turn_and_one_that_only_reads_are_in_order(recorder, one_by_one):
    node = ToolNode([slow_tool(0 if one_by_one else 30)])
    recorded = record(graph(node), recorder, effects={} if one_by_one else {"act": "read"})
    recorded.invoke({"messages": [FIVE]}, {"max_concurrency": 1} if one_by_one else None)

    assert found(recorder) == {}
    assert bool([r for r in recorder.records if r.io]) is one_by_one


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


def test_an_agent_whose_calls_are_sent_one_by_one_is_found_reordered_too(recorder):
    model = Model(messages=iter([FIVE, AIMessage("done")]))
    record(create_agent(model, [slow_tool()]), recorder).invoke({"messages": [HumanMessage("go")]})

    assert found(recorder)["A6"] == 1
    (last,) = [r for r in recorder.records if r.io]
    assert (last.agent, last.io) == ("model", [("act", n) for n in range(5)])


def test_what_a_tool_read_is_stale_when_another_agent_writes_it_before_the_first_one_acts(recorder):
    world = {"date": "14 June"}

    @tool
    def get_date() -> str:
        """Look."""
        return world["date"]

    @tool
    def set_date(date: str) -> str:
        """Move."""
        world["date"] = date
        return "moved"

    @tool
    def book_flight(date: str) -> str:
        """Book."""
        return f"booked {date}"

    def agent(*turns):
        return record(
            create_agent(Model(messages=iter([*turns, AIMessage("done")])), [get_date, set_date, book_flight]), recorder
        )

    def say(*calls, n):
        return turn(*calls, ids=[f"{n}-{place}" for place in range(len(calls))]).model_copy(update={"id": f"ai-{n}"})

    looking = agent(say(("get_date", {}), n=1), say(("book_flight", {"date": "14 June"}), n=2))
    stepping = looking.stream({"messages": [HumanMessage("go")]}, interrupt_before=None)
    for _ in range(2):  # it has looked
        next(stepping)
    builder = StateGraph(MessagesState)
    builder.add_node("editor", lambda state: {"messages": [say(("set_date", {"date": "21 June"}), n=3)]})
    builder.add_node("tools", ToolNode([set_date]))
    builder.add_edge(START, "editor")
    builder.add_edge("editor", "tools")
    record(builder.compile(), recorder).invoke({"messages": [HumanMessage("move")]})
    assert [*stepping]

    assert analyze(recorder.records)["A1"].witnesses[0].sentence.startswith("model read date = '14 June' at ")
    assert "editor wrote '21 June'" in analyze(recorder.records)["A1"].witnesses[0].sentence


# ---- supersteps that fail, are retried, or wait


def test_of_a_superstep_that_fails_no_write_is_there_and_the_effects_of_both_nodes_are(recorder, invoke):
    def acting(name):
        @tool(f"send_{name}")
        def send(to: str) -> str:
            """Send."""
            return "sent"

        def node(state):
            return {"date": send.invoke({"to": name})}

        return node

    builder = StateGraph(Trip)
    for name in ("mail", "letter"):
        builder.add_node(name, acting(name))
        builder.add_edge(START, name)

    with pytest.raises(InvalidUpdateError):
        invoke(record(builder.compile(), recorder), {"date": "14 June"})

    assert of(recorder, "input")[0].write_values == {"date": "14 June"}
    assert {r.agent: (r.write_values, r.externalized) for r in recorder.records[1:]} == {
        "mail": ({"mail:/mail": "send_mail"}, True),
        "letter": ({"letter:/letter": "send_letter"}, True),
    }


def test_a_node_that_is_tried_again_is_one_operation(recorder, invoke):
    tries = []

    def plan(trip):
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionError
        return {"date": "21 June"}

    builder = StateGraph(Trip)
    builder.add_node("plan", plan, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    builder.add_edge(START, "plan")
    invoke(record(builder.compile(), recorder), {"date": "14 June"})

    assert [r.agent for r in recorder.records] == ["input", "plan"]


def test_what_the_sibling_of_an_interrupted_node_returned_commits_when_that_was_resumed(recorder, invoke):
    builder = planning(together=True, book=lambda trip: {"flight": interrupt("which?")})
    recorded = record(builder.compile(InMemorySaver()), recorder)
    invoke(recorded, {"date": "14 June"}, THREAD)
    before = [r.agent for r in recorder.records]
    state = invoke(recorded, Command(resume="14 June"), THREAD)

    assert before == ["input"]
    assert [r.agent for r in recorder.records] == ["input", "plan", "book"]
    assert state == {"date": "21 June", "flight": "14 June"}
    assert found(recorder)["A1-semantic"] == 1


def test_what_an_interrupted_superstep_returned_is_gone_when_the_thread_goes_another_way(recorder):
    builder = planning(together=True, book=lambda trip: {"flight": interrupt("which?")})
    recorded = record(builder.compile(InMemorySaver()), recorder)
    recorded.invoke({"date": "14 June"}, THREAD)
    recorded.invoke({"date": "15 June"}, THREAD)

    assert [(r.agent, r.write_values) for r in recorder.records] == [
        ("input", {"trip-42/date": "14 June"}),
        ("input", {"trip-42/date": "15 June"}),
    ]


# ---- what graphs are made of


def test_a_reducer_s_channel_holds_what_it_made_of_all_writes_and_no_value_is_left_unexplained(recorder, invoke):
    class Sum(TypedDict):
        total: Annotated[int, operator.add]

    builder = StateGraph(Sum)
    for name in ("ada", "bob"):
        builder.add_node(name, lambda state: {"total": 10})
        builder.add_edge(START, name)
    builder.add_node("tell", lambda state: {})
    builder.add_edge(["ada", "bob"], "tell")
    invoke(record(builder.compile(), recorder), {"total": 100})

    (tell,) = of(recorder, "tell")
    assert tell.read_values == {"total": 120}
    assert tell.preds == [r.id for r in recorder.records if r.agent in {"ada", "bob"}]
    assert found(recorder).get("residue") is None
    assert found(recorder)["A1-semantic"] == 2


def test_nodes_that_are_sent_to_have_read_no_channel(recorder, invoke):
    class Notes(TypedDict):
        notes: Annotated[list, operator.add]

    builder = StateGraph(Notes)
    builder.add_node("fan", lambda state: {})
    builder.add_node("write", lambda given: {"notes": [given["n"]]})
    builder.add_edge(START, "fan")
    builder.add_conditional_edges("fan", lambda state: [Send("write", {"n": n}) for n in range(3)], ["write"])
    invoke(record(builder.compile(), recorder), {"notes": []})

    assert [r.read_values for r in of(recorder, "write")] == [{}, {}, {}]
    assert found(recorder) == {}


def test_a_subgraph_has_channels_of_its_own_and_hands_its_parent_what_it_returns(recorder, invoke):
    outer = StateGraph(Trip)
    outer.add_node("sub", planning(together=True).compile())
    outer.add_edge(START, "sub")
    invoke(record(outer.compile(), recorder), {"date": "14 June"})

    assert {r.agent for r in recorder.records} == {"input", "sub", "sub:plan", "sub:book"}
    (sub,) = of(recorder, "sub")
    assert sub.write_values == {"date": "21 June", "flight": "14 June"}
    assert all(cell.startswith("sub:") for r in of(recorder, "sub:plan") for cell in r.write_values)
    assert found(recorder)["A1-semantic"] == 1


def test_a_handoff_to_a_node_of_the_graph_around_writes_there(recorder, invoke):
    def leave(trip):
        return Command(graph=Command.PARENT, goto="book", update={"date": "21 June"})

    inner = StateGraph(Trip)
    inner.add_node("leave", leave)
    inner.add_edge(START, "leave")
    outer = StateGraph(Trip)
    outer.add_node("sub", inner.compile(), destinations=("book",))
    outer.add_node("book", lambda trip: {"flight": trip["date"]})
    outer.add_edge(START, "sub")
    state = invoke(record(outer.compile(), recorder), {"date": "14 June"})

    assert state == {"date": "21 June", "flight": "21 June"}
    assert [(r.agent, r.write_values) for r in recorder.records if r.agent in {"sub", "book"}] == [
        ("sub", {"date": "21 June"}),
        ("book", {"flight": "21 June"}),
    ]
    assert found(recorder) == {}


def test_runs_without_a_thread_share_no_channel_and_threads_do_not_either(recorder, invoke):
    recorded = record(planning(together=False).compile(), recorder)
    for _ in range(2):
        invoke(recorded, {"date": "14 June"})
    saved = record(planning(together=False).compile(InMemorySaver()), recorder)
    invoke(saved, {"date": "14 June"}, THREAD)

    assert [[*r.write_values] for r in of(recorder, "plan")] == [["date"], ["run-2/date"], ["trip-42/date"]]
    assert found(recorder) == {}


def test_the_graph_is_as_it_was_and_what_is_no_graph_is_refused(recorder):
    builder = planning(together=True)
    compiled = builder.compile()
    record(compiled, recorder)
    assert compiled.invoke({"date": "14 June"}) == {"date": "21 June", "flight": "14 June"}
    with pytest.raises(UsageError, match="record.. takes what a graph's compile.. returns, not a StateGraph"):
        record(builder, recorder)
    assert recorder.records == []


def test_a_recorder_that_fails_does_not_reach_the_graph(recorder, monkeypatch, caplog):
    recorded = record(planning(together=True).compile(), recorder)
    monkeypatch.setattr(Graphs, "node_began", lambda *a, **k: 1 / 0)
    assert recorded.invoke({"date": "14 June"}) == {"date": "21 June", "flight": "14 June"}
    caplog.clear()
