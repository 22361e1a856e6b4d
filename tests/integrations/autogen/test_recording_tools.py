"""A tool that is gone, or another one, when a stock agent carries out what its model planned is found; no other is."""

from __future__ import annotations

import asyncio

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.tools import FunctionTool, StaticStreamWorkbench, TextResultContent, ToolResult, Workbench
from tests.integrations.autogen.test_recording import agent, found, replayed
from tests.integrations.autogen.world import Scripted, answers, turn

from settlemark.history import Recorder, analyze
from settlemark_autogen import RecordedAgent

BOOK = turn(("book", {"hotel": "Ada", "nights": 2}))
WROTE = {"book:/Ada": 2}


@pytest.fixture
def recorder():
    with Recorder() as recorder:
        yield recorder


def one(hotel: str, nights: int) -> str:
    """Book."""
    return f"{nights} nights"


def other(hotel: str, nights: int, breakfast: bool = False) -> str:
    """Book."""
    return f"{nights} nights"


def looking(query: str) -> str:
    """Look."""
    return query


def named(function, name="book"):
    return FunctionTool(function, description="A tool.", name=name)


class Served(Workbench):
    """A workbench whose tools change, as those of a server do."""

    def __init__(self, *tools):
        self.tools = tools
        self.listed = 0

    async def list_tools(self):
        self.listed += 1
        return [tool.schema for tool in self.tools]

    async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
        tool = next(tool for tool in self.tools if tool.name == name)
        try:
            said = await tool.run_json(arguments or {}, cancellation_token or CancellationToken(), call_id=call_id)
        except Exception as error:  # a server says what went wrong, and goes on
            return ToolResult(name=name, result=[TextResultContent(content=str(error))], is_error=True)
        return ToolResult(name=name, result=[TextResultContent(content=str(said))])

    async def start(self): ...

    async def stop(self): ...

    async def reset(self): ...

    async def save_state(self):
        return {}

    async def load_state(self, state): ...


class Thinking(Scripted):
    """A model that meanwhile something happens to."""

    meanwhile = staticmethod(lambda: None)

    async def create(self, messages, **options):
        answer = await super().create(messages, **options)
        self.meanwhile()
        return answer


def thinking(meanwhile, *turns):
    model = Thinking(*turns, final="done")
    model.meanwhile = meanwhile
    return model


def phantoms(recorder):
    return [witness.sentence for witness in analyze(recorder.records)["A2"].witnesses]


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


ONCE = {"max_tool_iterations": 1}


@pytest.mark.parametrize("options", [{}, ONCE], ids=["it asks again", "it does not"])
async def test_tools_that_stay_are_no_phantoms(recorder, options):
    served = Served(named(one), named(looking, "look"))
    stock = agent(RecordedAgent(recorder, "ada"), replayed(BOOK, "done"), served, **options)
    await stock.run(task="go")

    assert found(recorder) == {}
    assert planned(recorder) == [("book", True, True, WROTE)]
    assert [*recorder.records[0].read_registry] == [*recorder.records[0].write_registry] == ["book", "look"]


@pytest.mark.parametrize("options", [{}, ONCE], ids=["it asks again", "it does not"])
async def test_one_that_is_exchanged_while_the_model_answers_is_found_with_what_it_wrote(recorder, options):
    served = Served(named(one))
    model = thinking(lambda: setattr(served, "tools", [named(other)]), BOOK)
    await agent(RecordedAgent(recorder, "ada"), model, served, **options).run(task="go")

    assert found(recorder) == {"A2": 1}
    assert phantoms(recorder)[0].startswith("ada chose book at 0, and it was another one: ")
    assert planned(recorder) == [("book", True, False, WROTE)]


@pytest.mark.parametrize("options", [{}, ONCE], ids=["it asks again", "it does not"])
async def test_one_that_is_withdrawn_while_the_model_answers_is_found_and_has_written_nothing(recorder, options):
    served = Served(named(one), named(looking, "look"))
    model = thinking(lambda: setattr(served, "tools", [named(looking, "look")]), BOOK)
    result = await agent(RecordedAgent(recorder, "ada"), model, served, **options).run(task="go")

    assert answers(result) == [(True, "Error: tool 'book' not found in any workbench")]
    assert found(recorder) == {"A2": 1}
    assert phantoms(recorder) == ["ada chose book at 0, and it was gone at 1"]
    assert planned(recorder) == [("book", True, False, {})]


async def test_one_that_the_model_made_up_is_none(recorder):
    served = Served(named(looking, "look"))
    result = await agent(RecordedAgent(recorder, "ada"), replayed(BOOK, "done"), served).run(task="go")

    assert answers(result) == [(True, "Error: tool 'book' not found in any workbench")]
    assert recorder.records == []


async def test_of_a_turn_the_call_alone_whose_tool_is_withdrawn_is(recorder):
    served = Served(named(one), named(looking, "pay"))
    both = turn(("book", {"hotel": "Ada", "nights": 2}), ("pay", {"query": "3"}))
    model = thinking(lambda: setattr(served, "tools", [named(one)]), both)
    await agent(RecordedAgent(recorder, "ada"), model, served).run(task="go")

    assert len(phantoms(recorder)) == 1
    assert sorted(planned(recorder)) == [("book", True, True, WROTE), ("pay", True, False, {})]


@pytest.mark.parametrize("now", [looking, lambda query, page=1: query], ids=["the same", "another"])
@pytest.mark.parametrize("fails", [True, False])
async def test_one_that_only_reads_or_fails_is_found_exchanged_and_else_leaves_no_record(recorder, now, fails):
    def failing(query: str) -> str:
        """Fail."""
        raise ConnectionError

    def failing_otherwise(query: str, page: int = 1) -> str:
        """Fail."""
        raise ConnectionError

    def typed(query: str, page: int = 1) -> str:
        """Look."""
        return query

    before, changed = (failing, failing_otherwise) if fails else (looking, typed)
    served = Served(named(before, "look"))
    then = before if now is looking else changed
    model = thinking(lambda: setattr(served, "tools", [named(then, "look")]), turn(("look", {"query": "x"})))
    await agent(RecordedAgent(recorder, "ada", effects={"look": "write" if fails else "read"}), model, served).run(
        task="go"
    )

    assert planned(recorder) == ([] if now is looking else [("look", True, False, {})])
    assert len(phantoms(recorder)) == (now is not looking)


async def test_tools_that_are_found_in_one_of_several_workbenches_are_where_they_were(recorder):
    recorded = RecordedAgent(recorder, "ada")
    books, looks = Served(named(one)), Served(named(looking, "look"), named(other))
    stock = AssistantAgent(
        "ada",
        recorded.client(replayed(BOOK, "done")),
        workbench=[recorded.workbench(w) for w in (books, looks)],
        max_tool_iterations=5,
    )
    await stock.run(task="go")
    assert (phantoms(recorder), planned(recorder)) == ([], [("book", True, True, WROTE)])


async def test_a_handoff_is_no_tool_that_is_gone(recorder):
    both = turn(("transfer_to_bob", {}), ("book", {"hotel": "Ada", "nights": 2}))
    stock = agent(RecordedAgent(recorder, "ada"), replayed(both, "done"), Served(named(one)), handoffs=["bob"])
    await stock.run(task="go")
    assert (phantoms(recorder), planned(recorder)) == ([], [("book", True, True, WROTE)])


async def test_a_call_that_was_given_up_before_it_was_carried_out_is_none(recorder):
    served = Served(named(one))
    recorded = RecordedAgent(recorder, "ada")
    client, workbench = recorded.client(replayed(BOOK, "done")), recorded.workbench(served)
    await workbench.list_tools()
    await client.create([], tools=[named(one)])
    await workbench.list_tools()  # for the next request
    await client.create([], tools=[named(one)])
    served.tools = []
    await asyncio.create_task(workbench.list_tools())

    assert recorder.records == []


async def test_tools_that_an_agent_lists_for_its_next_request_are_for_no_call(recorder):
    served = Served(named(one))
    recorded = RecordedAgent(recorder, "ada")
    client, workbench = recorded.client(replayed(BOOK, "done")), recorded.workbench(served)
    await workbench.list_tools()
    await client.create([], tools=[named(one)])
    served.tools = []
    await workbench.list_tools()

    assert recorder.records == []


async def test_of_a_workbench_that_was_never_asked_for_its_tools_nobody_knows_them(recorder):
    recorded = RecordedAgent(recorder, "ada")
    client, workbench = recorded.client(replayed(BOOK, "done")), recorded.workbench(Served(named(one)))
    await client.create([], tools=[named(one)])
    await workbench.call_tool("book", {"hotel": "Ada", "nights": 2}, call_id="call-0")

    assert [record.write_values for record in recorder.records] == [WROTE]
    assert (phantoms(recorder), planned(recorder)) == ([], [])


async def test_a_workbench_is_asked_for_its_tools_no_oftener_than_by_a_stock_agent(recorder):
    stock, seen = Served(named(one)), Served(named(one))
    await AssistantAgent("ada", replayed(BOOK, "done"), workbench=stock, max_tool_iterations=5).run(task="go")
    await agent(RecordedAgent(recorder, "ada"), replayed(BOOK, "done"), seen, max_tool_iterations=5).run(task="go")
    assert seen.listed == stock.listed


async def test_the_workbench_alone_and_the_client_alone_know_of_no_plan(recorder):
    recorded = RecordedAgent(recorder, "ada")
    served = Served(named(one))
    model = thinking(lambda: setattr(served, "tools", [named(other)]), BOOK)
    await AssistantAgent("ada", model, workbench=recorded.workbench(served)).run(task="go")
    alone = RecordedAgent(recorder, "bob")
    stock = StaticStreamWorkbench([named(one)])
    await AssistantAgent("bob", alone.client(replayed(BOOK, "done")), workbench=stock, max_tool_iterations=5).run(
        task="go"
    )
    assert [record.agent for record in recorder.records] == ["ada", "bob"]
    assert planned(recorder) == []


async def test_a_streamed_answer_is_planned_on_what_it_was_offered_too(recorder):
    served = Served(named(one))
    model = replayed(BOOK, "done")
    recorded = RecordedAgent(recorder, "ada")
    stock = AssistantAgent(
        "ada", recorded.client(model), workbench=recorded.workbench(served), model_client_stream=True
    )
    async for event in stock.run_stream(task="go"):
        if type(event).__name__ == "ToolCallRequestEvent":
            served.tools = [named(other)]

    assert found(recorder) == {"A2": 1}
    assert planned(recorder) == [("book", True, False, WROTE)]
