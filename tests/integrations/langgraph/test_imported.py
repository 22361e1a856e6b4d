"""What LangGraph streams of real runs is imported whole, in every way in which it streams, and tells the same."""

from __future__ import annotations

import asyncio
import json

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from tests.integrations.langgraph.test_recording import FIVE, planning
from tests.integrations.langgraph.world import THREAD, graph

from settlemark.history import Recorder, analyze, import_trace
from settlemark_langgraph import record

ALONE = ["debug", "tasks", "updates", "values"]
DATED = {"date": "14 June"}


class Model(BaseChatModel):
    """Says five calls, then that it is done; it does not stream, so the calls stay together."""

    def _generate(self, messages, stop=None, run_manager=None, **options):
        said = FIVE.model_copy() if len(messages) == 1 else AIMessage("done", id="ai-2")
        return ChatResult(generations=[ChatGeneration(message=said)])

    def bind_tools(self, tools, **options):
        return self

    @property
    def _llm_type(self):
        return "scripted"


async def act(n: int) -> str:
    """Act."""
    for _ in range((5 - n) * 20):  # latency in steps of the event loop
        await asyncio.sleep(0)
    return str(n)


def found(records):
    return {verdict.anomaly: verdict.count for verdict in analyze(records).verdicts if verdict.count}


def plainly(value):
    """As many dump it: models by their fields, what else there is by its text."""
    return value.model_dump() if hasattr(value, "model_dump") else str(value)


DUMPS = {"langchain": dumps, "by hand": lambda value: json.dumps(value, default=plainly)}


@pytest.fixture
def dump(tmp_path):
    async def dump_(events, as_=dumps, known="auto"):
        path = tmp_path / "trace.jsonl"
        with path.open("w") as file:
            async for event in events:
                file.write(as_(event) + "\n")
        return import_trace(path, known)

    return dump_


@pytest.mark.parametrize("as_", DUMPS.values(), ids=DUMPS)
@pytest.mark.parametrize("saver", [None, InMemorySaver], ids=["bare", "saved"])
async def test_events_of_nodes_that_run_together_tell_what_a_recorder_tells(dump, as_, saver):
    compiled = planning(together=True).compile(saver and saver())
    config = THREAD if saver else None
    imported = await dump(compiled.astream_events(DATED, config, version="v2"), as_)
    with Recorder() as recorder:
        recorded = planning(together=True).compile(saver and saver())
        await record(recorded, recorder).ainvoke(DATED, config)

    assert (imported.format, imported.skipped, imported.notes) == ("langgraph-events", [], [])
    assert imported.parsed == imported.total > 8
    assert imported.records == recorder.records
    assert found(imported.records)["A1-semantic"] == 1


@pytest.mark.parametrize("mode", [*ALONE, ["updates", "values"], ["values", "debug"], ["messages", "tasks"]], ids=str)
@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_every_mode_of_a_stream_is_parsed_and_tells_what_it_can(dump, mode, version):
    compiled = planning(together=True).compile(InMemorySaver())
    bare = mode == "values" and version == "v1"  # any JSON may be that: it has to be said
    stream = compiled.astream(DATED, THREAD, stream_mode=mode, version=version)
    imported = await dump(stream, known="langgraph-stream" if bare else "auto")

    assert (imported.format, imported.skipped) == ("langgraph-stream", [])
    assert imported.parsed == imported.total > 1
    tells = mode not in ("updates", "values")
    assert found(imported.records).get("A1-semantic", 0) == tells
    assert (imported.notes == []) is tells


@pytest.mark.parametrize("mode", ["updates", "debug", ["updates", "values"]], ids=str)
async def test_a_stream_with_subgraphs_tells_whose_channels_are_whose(dump, mode):
    from langgraph.graph import START, StateGraph
    from tests.integrations.langgraph.test_recording import Trip

    outer = StateGraph(Trip)
    outer.add_node("sub", planning(together=False).compile())
    outer.add_edge(START, "sub")
    imported = await dump(outer.compile().astream(DATED, stream_mode=mode, subgraphs=True))

    assert imported.skipped == []
    assert {r.agent for r in imported.records} - {"input"} == {"sub", "sub:plan", "sub:book"}
    assert found(imported.records) == {}


async def test_events_tell_of_effects_that_a_stock_tool_node_reorders_and_the_transcript_does_not(dump, tmp_path):
    compiled = graph(ToolNode([act]))
    imported = await dump(compiled.astream_events({"messages": [FIVE]}, version="v2"))
    state = await compiled.ainvoke({"messages": [FIVE]})
    (tmp_path / "chat.json").write_text(json.dumps(messages_to_dict(state["messages"])))
    transcript = import_trace(tmp_path / "chat.json")

    assert imported.skipped == []
    assert found(imported.records) == {"A6": 1}
    (last,) = [r for r in imported.records if r.io]
    assert (last.agent, last.io, last.co) == (
        "tools",
        [("act", n) for n in range(5)],
        [("act", n) for n in (4, 3, 2, 1, 0)],
    )
    assert (str(transcript), found(transcript.records)) == ("6 of 6 parsed as chat", {})
    assert transcript.notes[0].endswith("reordered effects (A6) cannot be seen in it")


@pytest.mark.parametrize("how", ["events", "debug", "tasks", "updates"])
async def test_so_do_those_of_an_agent_whose_calls_are_sent_one_by_one(dump, how):
    agent = create_agent(Model(), [act])
    given = {"messages": [HumanMessage("go")]}
    events = agent.astream_events(given, version="v2") if how == "events" else agent.astream(given, stream_mode=how)
    imported = await dump(events)

    assert found(imported.records)["A6"] == 1
    (last,) = [r for r in imported.records if r.io]
    assert (last.agent, last.io, last.co) == (
        "model",
        [("act", n) for n in range(5)],
        [("act", n) for n in (4, 3, 2, 1, 0)],
    )
    # LangChain's own dump has the commands of such an agent as a text
    assert [why for _, why in imported.skipped if "what this node returned is no JSON" not in why] == []


async def test_reads_that_overtake_each_other_are_no_effects(dump, tmp_path):
    events = graph(ToolNode([act])).astream_events({"messages": [FIVE]}, version="v2")
    await dump(events)
    imported = import_trace(tmp_path / "trace.jsonl", effects={"act": {"kind": "read", "scope": "item:/{n}"}})
    assert found(imported.records) == {}
    assert [r.agent for r in imported.records if r.agent.startswith("setup")] == ["setup"] * 5
