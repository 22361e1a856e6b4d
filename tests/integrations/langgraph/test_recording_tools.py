"""A tool that is gone, or another one, when a stock graph carries out what its model planned is found; no other is."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt
from pydantic import BaseModel
from tests.integrations.langgraph.world import THREAD, turn

from settlemark.history import Recorder, analyze, read
from settlemark_langgraph import SequencedToolNode, record

BOOK = turn(("book", {"hotel": "Ada", "nights": 2}))
GO = {"messages": [HumanMessage("go")]}


@pytest.fixture(autouse=True)
def nothing_went_wrong_inside(caplog):
    """A callback's error is only logged by LangChain: here it fails the test."""
    yield
    assert [r for r in caplog.records if r.levelno >= logging.WARNING and "callback" in r.getMessage()] == []


@pytest.fixture
def recorder():
    with Recorder() as recorder:
        yield recorder


class Told(BaseChatModel):
    """A model that tells its tools to whoever listens, as providers' do, and answers as it is scripted."""

    script: list
    form: str = "openai"
    meanwhile: object = None

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        tools = [convert_to_openai_tool(each) for each in tools]
        if self.form == "strict":
            tools = [convert_to_openai_tool(each, strict=True) for each in tools]
        if self.form == "anthropic":
            functions = [each["function"] for each in tools]
            tools = [{"name": f["name"], "description": "x", "input_schema": f["parameters"]} for f in functions]
        if self.form == "of its own":
            functions = [each["function"] for each in tools]
            tools = [{"name": f["name"], "parameters": {"type": "OBJECT", "properties": {}}} for f in functions]
        options.pop("tool_choice", None)
        return self.bind(tools=[*tools, {"type": "web_search"}], **options)

    def _generate(self, messages, stop=None, run_manager=None, **options):
        if self.meanwhile is not None:
            self.meanwhile()
        return ChatResult(generations=[ChatGeneration(message=self.script.pop(0))])


def one(hotel: str, nights: int) -> str:
    """Book."""
    return f"{nights} nights"


def other(hotel: str, nights: int, breakfast: bool = False) -> str:
    """Book."""
    return f"{nights} nights"


def worded(hotel: str, nights: str) -> str:
    """Book."""
    raise AssertionError("a number is no text")


def named(function, name="book"):
    return StructuredTool.from_function(function, name=name)


def looking(query: str) -> str:
    """Look."""
    return query


def asking(model, node, *, saver=None, retry=None, **options):
    """A model, and a node of tools."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", node, retry_policy=retry)
    builder.add_edge(START, "model")
    builder.add_edge("model", "tools")
    return builder.compile(checkpointer=saver, **options)


def told(*tools, says=BOOK, form="openai"):
    return Told(script=[says], form=form).bind_tools([*tools])


def phantoms(recorder):
    return [witness.sentence.partition(" chose ")[2] for witness in analyze(recorder.records)["A2"].witnesses]


def planned(recorder):
    """What was recorded of planned tools: which, whether it was offered, whether it was the same, what it wrote."""
    return [
        (
            r.planned_tool,
            r.planned_tool in r.read_registry,
            r.read_registry.get(r.planned_tool) == r.write_registry.get(r.planned_tool),
            r.write_values,
        )
        for r in recorder.records
        if r.planned_tool is not None
    ]


WROTE = {"book:/Ada": 2}


# ---- what a model is offered, and what the node has


@pytest.mark.parametrize("form", ["openai", "strict", "anthropic", "of its own"])
def test_a_tool_that_is_what_the_model_was_offered_is_no_phantom(recorder, invoke, form):
    node = ToolNode([named(one), named(looking, "look")])
    invoke(record(asking(told(named(one), named(looking, "look"), form=form), node), recorder), GO)

    assert phantoms(recorder) == []
    assert planned(recorder) == [("book", True, True, WROTE)]
    (record_,) = [r for r in recorder.records if r.planned_tool]
    assert [*record_.read_registry] == [*record_.write_registry] == ["book", "look"]


@pytest.mark.parametrize("form", ["openai", "strict", "anthropic"])
@pytest.mark.parametrize("now", [other, worded])
def test_a_tool_of_other_arguments_than_the_one_that_was_offered_is(recorder, invoke, form, now):
    invoke(record(asking(told(named(one), form=form), ToolNode([named(now)])), recorder), GO)

    assert planned(recorder) == [("book", True, False, {} if now is worded else WROTE)]
    (sentence,) = phantoms(recorder)
    assert "it was another one" in sentence


def test_a_tool_that_the_node_does_not_have_is_and_its_call_has_written_nothing(recorder, invoke):
    state = invoke(record(asking(told(named(one)), ToolNode([named(looking, "look")])), recorder), GO)

    assert "book is not a valid tool" in state["messages"][-1].text
    assert phantoms(recorder) == ["book at 1, and it was gone at 3"]
    assert planned(recorder) == [("book", True, False, {})]


def test_a_tool_that_the_model_made_up_is_not(recorder, invoke):
    invoke(record(asking(told(named(looking, "look")), ToolNode([named(looking, "look")])), recorder), GO)
    assert (phantoms(recorder), planned(recorder)) == ([], [])


def test_one_that_it_made_up_and_the_node_has_is_not_either(recorder, invoke):
    invoke(record(asking(told(named(looking, "look")), ToolNode([named(one)])), recorder), GO)
    assert phantoms(recorder) == []
    assert planned(recorder) == [("book", False, False, WROTE)]


def test_of_a_turn_the_call_alone_whose_tool_is_gone_is(recorder, invoke):
    says = turn(("book", {"hotel": "Ada", "nights": 2}), ("pay", {"query": "3"}))
    model = told(named(one), named(looking, "pay"), says=says)
    invoke(record(asking(model, ToolNode([named(one)])), recorder), GO)

    assert phantoms(recorder) == ["pay at 1, and it was gone at 4"]
    assert planned(recorder) == [("book", True, True, WROTE), ("pay", True, False, {})]


def test_a_tool_that_only_reads_or_that_fails_is_found_changed_too(recorder, invoke):
    def failing(hotel: str, nights: int, breakfast: bool = False) -> str:
        """Book."""
        raise ConnectionError

    look = turn(("look", {"query": "x"}))
    changed = StructuredTool.from_function(lambda query, page=1: query, name="look", description="Look.")
    invoke(record(asking(told(named(looking, "look"), says=look), ToolNode([changed])), recorder), GO)
    failed = asking(told(named(one)), ToolNode([named(failing)], handle_tool_errors=True))
    invoke(record(failed, recorder), GO)

    assert len(phantoms(recorder)) == 2
    assert planned(recorder) == [("look", True, False, {}), ("book", True, False, {})]


def test_a_tool_that_only_reads_or_that_fails_and_is_the_same_leaves_no_record_of_its_own(recorder, invoke):
    def failing(hotel: str, nights: int) -> str:
        """Book."""
        raise ConnectionError

    look = turn(("look", {"query": "x"}))
    invoke(record(asking(told(named(looking, "look"), says=look), ToolNode([named(looking, "look")])), recorder), GO)
    invoke(record(asking(told(named(failing)), ToolNode([named(failing)], handle_tool_errors=True)), recorder), GO)
    assert (phantoms(recorder), planned(recorder)) == ([], [])


# ---- where no model tells what it is offered


class Silent(Told):
    """A model that tells nobody its tools."""

    def bind_tools(self, tools, **options):
        return self


def silent(says=BOOK, **options):
    return Silent(script=[says], **options)


def test_it_was_offered_what_the_graph_s_nodes_had_when_it_answered(recorder, invoke):
    node = ToolNode([named(one)])

    def renew(state):
        node.tools_by_name["book"] = named(other)
        return {"messages": [BOOK]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [BOOK]})
    builder.add_node("beside", lambda state: node.tools_by_name.update(book=named(other)))
    builder.add_node("tools", node)
    builder.add_edge(START, "model")
    builder.add_edge("model", "beside")
    builder.add_edge("beside", "tools")
    invoke(record(builder.compile(), recorder), GO)

    assert planned(recorder) == [("book", True, False, WROTE)]
    assert len(phantoms(recorder)) == 1


def test_an_agent_whose_tool_is_exchanged_while_it_thinks_is_found(recorder, invoke):
    model = Told(script=[BOOK, AIMessage("done")])
    agent = create_agent(model, [named(one), named(looking, "look")])
    tools = agent.nodes["tools"].bound.tools_by_name
    model.meanwhile = lambda: tools.update(book=named(other))
    state = invoke(record(agent, recorder), GO)

    assert state["messages"][-1].text == "done"
    assert len(phantoms(recorder)) == 1
    assert planned(recorder) == [("book", True, False, WROTE)]


def test_an_agent_that_one_without_its_tool_goes_on_for_is_found(recorder, invoke):
    saver = InMemorySaver()
    before = create_agent(Told(script=[BOOK]), [named(one)], checkpointer=saver, interrupt_before=["tools"])
    after = create_agent(Told(script=[AIMessage("done")]), [named(looking, "look")], checkpointer=saver)
    invoke(record(before, recorder), GO, THREAD)
    state = invoke(record(after, recorder), None, THREAD)

    assert state["messages"][-1].text == "done"
    assert [sentence.partition(" at ")[0] for sentence in phantoms(recorder)] == ["book"]
    assert planned(recorder) == [("book", True, False, {})]


def test_an_agent_whose_tools_stay_is_not(recorder, invoke):
    agent = create_agent(Told(script=[BOOK, AIMessage("done")]), [named(one), named(looking, "look")])
    invoke(record(agent, recorder), GO)
    assert (phantoms(recorder), planned(recorder)) == ([], [("book", True, True, WROTE)])


def test_a_node_that_makes_its_tool_node_itself_shows_what_is_gone_and_the_rest_to_who_tells_it(recorder, invoke):
    def node(tool):
        return lambda state: ToolNode([tool]).invoke(state)

    invoke(record(asking(told(named(one)), node(named(looking, "look"))), recorder), GO)
    assert [sentence.partition(" at ")[0] for sentence in phantoms(recorder)] == ["book"]

    invoke(record(asking(told(named(one)), node(named(other))), recorder), GO)
    assert len(phantoms(recorder)) == 1

    live = asking(told(named(one)), node(named(other)))
    invoke(record(live, recorder, tools=lambda: [named(other)]), GO)
    assert len(phantoms(recorder)) == 2
    assert planned(recorder) == [("book", True, False, {}), ("book", True, False, WROTE)]


def test_who_tells_the_tools_there_are_is_asked_when_the_calls_are_issued_and_when_one_is_carried_out(recorder, invoke):
    tools = [named(one)]

    def renewed(state):
        tools[:] = [named(other)]

    def carry_out(state):
        (call,) = state["messages"][-1].tool_calls
        return {"messages": [tools[0].invoke(call)]}

    builder = StateGraph(MessagesState)
    builder.add_sequence([("model", lambda state: {"messages": [BOOK]}), ("renew", renewed), ("tools", carry_out)])
    builder.add_edge(START, "model")
    invoke(record(builder.compile(), recorder, tools=lambda: tools), GO)

    assert planned(recorder) == [("book", True, False, WROTE)]


# ---- interrupted, tried again, and gone on with


@pytest.mark.parametrize("now", [one, other, None], ids=["the same", "another", "gone"])
@pytest.mark.parametrize("model", [silent, lambda: told(named(one))], ids=["silent", "told"])
def test_a_thread_that_another_build_of_the_graph_goes_on_with_meets_that_one_s_tools(recorder, invoke, now, model):
    saver = InMemorySaver()
    before = asking(model(), ToolNode([named(one)]), saver=saver, interrupt_before=["tools"])
    after = asking(model(), ToolNode([named(looking, "look")] if now is None else [named(now)]), saver=saver)
    invoke(record(before, recorder), GO, THREAD)
    assert planned(recorder) == []
    invoke(record(after, recorder), None, THREAD)

    assert len(phantoms(recorder)) == (now is not one)
    assert planned(recorder) == [("book", True, now is one, {} if now is None else WROTE)]
    assert [r.agent for r in recorder.records if r.planned_tool] == ["model"]


@pytest.mark.parametrize("now", [one, other], ids=["the same", "another"])
def test_a_tool_that_waits_for_an_answer_is_found_when_it_is_another_one_by_then(recorder, now):
    def asked(hotel: str, nights: int) -> str:
        """Book."""
        return interrupt("sure?")

    saver = InMemorySaver()
    record(asking(silent(), ToolNode([named(asked)]), saver=saver), recorder).invoke(GO, THREAD)
    assert planned(recorder) == []
    after = asking(silent(), ToolNode([named(now)]), saver=saver)
    record(after, recorder).invoke(Command(resume="yes"), THREAD)

    assert len(phantoms(recorder)) == (now is other)
    assert planned(recorder) == [("book", True, now is one, WROTE)]


def test_a_changed_tool_that_waits_for_an_answer_is_found_once_when_it_has_acted(recorder):
    def asking_first(hotel: str, nights: int, breakfast: bool = False) -> str:
        """Book."""
        return interrupt("sure?")

    graph = record(asking(told(named(one)), ToolNode([named(asking_first)]), saver=InMemorySaver()), recorder)
    graph.invoke(GO, THREAD)
    assert planned(recorder) == []
    graph.invoke(Command(resume="yes"), THREAD)

    assert len(phantoms(recorder)) == 1
    assert planned(recorder) == [("book", True, False, WROTE)]


def test_a_tool_that_is_tried_again_is_one_plan(recorder, invoke):
    tries = []

    def failing_once(hotel: str, nights: int) -> str:
        """Book."""
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionError
        return "booked"

    again = RetryPolicy(initial_interval=0.001, jitter=False)
    invoke(record(asking(told(named(failing_once)), ToolNode([named(failing_once)]), retry=again), recorder), GO)

    assert len(tries) == 2
    assert (phantoms(recorder), planned(recorder)) == ([], [("book", True, True, WROTE)])


@pytest.mark.parametrize("when", ["before it answers", "after it has answered"])
@pytest.mark.parametrize("now", [one, other], ids=["the same", "another"])
def test_a_model_that_is_asked_again_has_planned_what_it_answers_then(recorder, invoke, when, now):
    tries = []

    def fail_once():
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionError

    model = Told(script=[BOOK, BOOK], meanwhile=fail_once if when == "before it answers" else None)
    bound = model.bind_tools([named(one)])

    def ask(state):
        said = bound.invoke(state["messages"])
        if when == "after it has answered":
            fail_once()
        return {"messages": [said]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", ask, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    builder.add_node("tools", ToolNode([named(now)]))
    builder.add_edge(START, "model")
    builder.add_edge("model", "tools")
    invoke(record(builder.compile(), recorder), GO)

    assert len(tries) == 2
    assert len(phantoms(recorder)) == (now is other)
    assert planned(recorder) == [("book", True, now is one, WROTE)]


def test_a_history_in_a_file_has_it_too(tmp_path, invoke):
    with Recorder(tmp_path / "history.jsonl") as recorder:
        invoke(record(asking(told(named(one)), ToolNode([named(other)])), recorder), GO)
    assert analyze(read(tmp_path / "history.jsonl"))["A2"].count == 1


def test_a_tool_whose_arguments_have_no_schema_hinders_no_other(recorder, invoke):
    def calling(what: Callable[[], str]) -> str:
        """Call."""
        return what()

    invoke(record(asking(silent(), ToolNode([named(calling, "call"), named(one)])), recorder), GO)

    assert (phantoms(recorder), planned(recorder)) == ([], [("book", True, True, WROTE)])
    assert [[*r.read_registry] for r in recorder.records if r.planned_tool] == [["book"]]


# ---- graphs of other shapes


@pytest.mark.parametrize("how", ["a node", "within a function"])
@pytest.mark.parametrize("now", [one, other], ids=["the same", "another"])
def test_a_graph_within_a_graph_has_tools_of_its_own(recorder, invoke, how, now):
    inner = asking(told(named(one)), ToolNode([named(now)]))
    outer = StateGraph(MessagesState)
    outer.add_node("sub", inner if how == "a node" else lambda state: inner.invoke(state))
    outer.add_edge(START, "sub")
    invoke(record(outer.compile(), recorder), GO)

    assert len(phantoms(recorder)) == (now is other)
    assert [(r.agent, r.planned_tool) for r in recorder.records if r.planned_tool] == [("sub:model", "book")]


def test_agents_with_tools_of_one_name_have_each_its_own(recorder, invoke):
    builder = StateGraph(MessagesState)
    for name, function in (("ada", one), ("bob", other)):
        says = turn(("book", {"hotel": name, "nights": 2}), ids=[name]).model_copy(update={"id": name})
        builder.add_node(name, lambda state, says=says: {"messages": [says]})
        builder.add_node(f"{name}-tools", ToolNode([named(function)]))
    builder.add_edge(START, "ada")
    for before, after in (("ada", "ada-tools"), ("ada-tools", "bob"), ("bob", "bob-tools")):
        builder.add_edge(before, after)
    invoke(record(builder.compile(), recorder), GO)

    assert phantoms(recorder) == []
    assert [(r.agent, r.planned_tool) for r in recorder.records if r.planned_tool] == [("ada", "book"), ("bob", "book")]


def test_a_tool_that_the_node_does_not_list_and_a_middleware_runs_is_there(recorder):
    class Handing(AgentMiddleware):
        tools = ()

        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=[*request.tools, named(one)]))

        def wrap_tool_call(self, request, handler):
            found = request.override(tool=named(one)) if request.tool_call["name"] == "book" else request
            return handler(found)

    agent = create_agent(Told(script=[BOOK, AIMessage("done")]), [named(looking, "look")], middleware=[Handing()])
    record(agent, recorder).invoke(GO)

    assert (phantoms(recorder), planned(recorder)) == ([], [("book", True, True, WROTE)])


def test_a_call_that_a_middleware_answers_itself_has_met_no_missing_tool(recorder):
    class Answering(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=[*request.tools, named(one)]))

        def wrap_tool_call(self, request, handler):
            return ToolMessage("booked", name="book", tool_call_id=request.tool_call["id"])

    agent = create_agent(Told(script=[BOOK, AIMessage("done")]), [named(looking, "look")], middleware=[Answering()])
    record(agent, recorder).invoke(GO)
    assert (phantoms(recorder), planned(recorder)) == ([], [])


def test_messages_that_are_handed_on_plan_nothing_anew(recorder, invoke):
    def failing(hotel: str, nights: int) -> str:
        """Book."""
        raise ConnectionError

    tools = [named(failing)]
    builder = StateGraph(MessagesState)
    builder.add_sequence(
        [
            ("model", lambda state: {"messages": [BOOK]}),
            ("tools", ToolNode(tools, handle_tool_errors=True)),
            ("hand on", lambda state: {"messages": state["messages"]}),
            ("withdraw", lambda state: tools.clear()),
            ("hand on again", lambda state: {"messages": state["messages"]}),
        ]
    )
    builder.add_edge(START, "model")
    invoke(record(builder.compile(), recorder, tools=lambda: tools), GO)
    assert (phantoms(recorder), planned(recorder)) == ([], [])


def test_the_shape_of_an_answer_that_is_asked_for_as_a_tool_is_no_phantom(recorder, invoke):
    class Trip(BaseModel):
        hotel: str

    model = Told(script=[turn(("Trip", {"hotel": "Ada"}))])
    agent = create_agent(model, [named(one)], response_format=ToolStrategy(Trip))
    state = invoke(record(agent, recorder), GO)

    assert state["structured_response"] == Trip(hotel="Ada")
    assert (phantoms(recorder), planned(recorder)) == ([], [])


def test_a_settled_node_s_tools_are_seen_as_a_stock_one_s(recorder, invoke, settlement):
    node = SequencedToolNode([named(other)], settlement=settlement)
    invoke(record(asking(told(named(one)), node), recorder), GO)
    assert len(phantoms(recorder)) == 1
