"""A stock agent that is recorded shows its anomalies; one that goes step by step shows none."""

from __future__ import annotations

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import ListMemory, MemoryContent
from autogen_core.models import ModelInfo
from autogen_core.tools import StaticStreamWorkbench, ToolResult
from autogen_ext.models.replay import ReplayChatCompletionClient
from tests.integrations.autogen.test_stock import Raising
from tests.integrations.autogen.world import FIVE, Scripted, answers, slow_act, soon, turn
from tests.rooms.autogen import tool_of

from settlemark.history import Recorder, analyze
from settlemark_autogen import RecordedAgent

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


@pytest.fixture
def recorder():
    with Recorder() as recorder:
        yield recorder


def found(recorder):
    return {verdict.anomaly: verdict.count for verdict in analyze(recorder.records).verdicts if verdict.count}


def replayed(*said):
    return ReplayChatCompletionClient([*said], model_info=INFO)


def agent(recorded, model, tools, **options):
    options.setdefault("max_tool_iterations", 10)
    return AssistantAgent(recorded.name, recorded.client(model), workbench=recorded.workbench(tools), **options)


def in_order(world, recorder):
    """A tool whose call n waits until call n - 1 has ended."""

    async def act(n: int) -> str:
        """Act."""
        await soon(lambda: len(recorder.records) == n)
        world.act(n)
        return str(n)

    return act


async def test_effects_that_a_stock_agent_reorders_are_found_and_its_transcript_does_not_show_them(recorder, world):
    result = await agent(RecordedAgent(recorder, "ada"), replayed(FIVE, "done"), [slow_act(world)]).run(task="go")

    assert world.log == [4, 3, 2, 1, 0]
    assert answers(result) == [(False, str(n)) for n in range(5)]
    assert found(recorder) == {"A6": 1}
    last = recorder.records[-1]
    assert (last.agent, last.io) == ("ada", [("act", n) for n in range(5)])
    assert last.co == last.io[::-1]


async def test_effects_in_their_order_are_none(recorder, world):
    await agent(RecordedAgent(recorder, "ada"), replayed(FIVE, "done"), [in_order(world, recorder)]).run(task="go")

    assert world.log == [0, 1, 2, 3, 4]
    assert found(recorder) == {}
    assert recorder.records[-1].io == recorder.records[-1].co == [("act", n) for n in range(5)]


async def test_reads_that_overtake_each_other_are_none(recorder, world):
    recorded = RecordedAgent(recorder, "ada", effects={"act": {"kind": "read", "scope": "item:/{n}"}})
    await agent(recorded, replayed(FIVE, "done"), [slow_act(world)]).run(task="go")

    assert world.log == [4, 3, 2, 1, 0]
    assert found(recorder) == {}


async def test_the_workbench_alone_knows_the_order_in_which_the_calls_came(recorder, world):
    recorded = RecordedAgent(recorder, "ada")
    stock = AssistantAgent("ada", replayed(FIVE, "done"), workbench=recorded.workbench([slow_act(world)]))
    await stock.run(task="go")

    assert found(recorder) == {"A6": 1}


async def test_the_client_alone_knows_what_was_done_and_not_in_which_order(recorder, world):
    recorded = RecordedAgent(recorder, "ada")
    stock = AssistantAgent(
        "ada", recorded.client(replayed(FIVE, "done")), tools=[slow_act(world)], reflect_on_tool_use=True
    )
    await stock.run(task="go")

    assert world.log == [4, 3, 2, 1, 0]
    assert [(r.write_values, r.io) for r in recorder.records] == [({"act": n}, []) for n in range(5)]
    assert found(recorder) == {}


# ---- two agents


class Calendar:
    def __init__(self):
        self.date = "14 June"

    def tools(self):
        def get_date() -> str:
            """Look."""
            return self.date

        def set_date(date: str) -> str:
            """Move."""
            self.date = date
            return "moved"

        def book_flight(date: str) -> str:
            """Book."""
            return f"booked {date}"

        return [get_date, set_date, book_flight]


def planner(recorder, tools, *, when=None):
    """Ada looks at the date and books a flight on it; her model takes its time over the latter."""

    class Thinking(Scripted):
        async def create(self, messages, **options):
            if when is not None and self.requests:
                await when()
            return await super().create(messages, **options)

    script = Thinking(
        turn(("get_date", {}), ids=["1"]), turn(("book_flight", {"date": "14 June"}), ids=["2"]), final="booked"
    )
    return agent(RecordedAgent(recorder, "ada"), script, tools)


def editor(recorder, tools):
    script = replayed(turn(("set_date", {"date": "21 June"}), ids=["3"]), "moved")
    return agent(RecordedAgent(recorder, "bob"), script, tools)


async def test_a_date_that_another_agent_moves_while_the_first_one_thinks_is_stale_when_it_books(recorder):
    tools = Calendar().tools()
    moved = []

    async def move():
        if not moved:
            moved.append(await editor(recorder, tools).run(task="move it"))

    await planner(recorder, tools, when=move).run(task="book it")

    assert analyze(recorder.records)["A1"].witnesses[0].sentence == (
        "ada read date = '14 June' at 1 and committed at 3; in between, at 2, bob wrote '21 June'"
    )


async def test_agents_that_follow_each_other_are_not(recorder):
    tools = Calendar().tools()
    await editor(recorder, tools).run(task="move it")
    await planner(recorder, tools).run(task="book it")

    assert found(recorder) == {}
    ada = recorder.records[-1]
    assert (ada.read_values, ada.preds) == ({"date": "21 June"}, ["1"])


async def test_a_memory_that_agents_share_is_a_cell(recorder):
    notes = ListMemory()
    await notes.add(MemoryContent(content="14 June", mime_type="text/plain"))
    ada, bob = RecordedAgent(recorder, "ada"), RecordedAgent(recorder, "bob")

    class Thinking(Scripted):
        async def create(self, messages, **options):
            await ada_and_bob.add(MemoryContent(content="21 June", mime_type="text/plain"))
            return await super().create(messages, **options)

    ada_and_bob = bob.memory(notes, "notes")
    await agent(ada, Thinking(final="14 June it is"), [], memory=[ada.memory(notes, "notes")]).run(task="when?")

    assert analyze(recorder.records)["A1"].witnesses[0].sentence == (
        "ada read notes = ['14 June'] at 1 and committed at 3; in between, at 2, bob wrote '21 June'"
    )
    assert [found.content for found in (await ada_and_bob.query("")).results] == ["14 June", "21 June"]
    await ada_and_bob.clear()
    assert recorder.records[-1].write_values == {"notes": None}


# ---- what is wrapped stays as it is


async def test_a_call_that_fails_has_written_nothing(recorder):
    def send_mail(to: str) -> str:
        """Send."""
        raise ValueError("down")

    result = await agent(
        RecordedAgent(recorder, "ada"), replayed(turn(("send_mail", {"to": "a"})), "sorry"), [send_mail]
    ).run(task="go")

    assert answers(result) == [(True, "down")]
    assert recorder.records == []


async def test_what_a_workbench_raises_reaches_its_caller_and_has_written_nothing(recorder, world):
    workbench = RecordedAgent(recorder, "ada").workbench(Raising(ValueError("no"), world))
    with pytest.raises(ValueError, match="no"):
        await workbench.call_tool("fail", {}, call_id="1")
    with pytest.raises(ValueError, match="no"):
        await soon_done(workbench.call_tool_stream("fail", {}, call_id="1"))
    assert recorder.records == []
    assert [result.to_text() for result in await soon_done(workbench.call_tool_stream("act", {}))] == ["done"]
    assert len(recorder.records) == 1


async def soon_done(stream):
    return [each async for each in stream if isinstance(each, ToolResult)]


async def test_a_wrapped_client_streams_and_counts_as_the_one_within(recorder):
    inner = replayed("a b", FIVE)
    client = RecordedAgent(recorder, "ada").client(inner)
    said = [each async for each in client.create_stream([])]

    assert "".join(said[:-1]) == "a b"
    assert client.model_info == INFO
    assert client.total_usage() == inner.total_usage()
    assert client.remaining_tokens([]) == inner.remaining_tokens([])
    with pytest.raises(NotImplementedError, match="dump the client that it wraps"):
        client.dump_component()


async def test_a_wrapped_workbench_lists_and_keeps_what_the_one_within_does(recorder):
    def look() -> str:
        """Look."""
        return "here"

    inner = StaticStreamWorkbench([tool_of(look)])
    workbench = RecordedAgent(recorder, "ada").workbench(inner)
    assert [tool["name"] for tool in await workbench.list_tools()] == ["look"]
    assert await workbench.save_state() == await inner.save_state()
    with pytest.raises(NotImplementedError, match="dump the workbench that it wraps"):
        workbench.dump_component()
