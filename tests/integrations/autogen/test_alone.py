"""A client that is all a user can swap hands out the calls of a turn one at a time, and settles them as a turn."""

from __future__ import annotations

import asyncio

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.messages import HandoffMessage, TextMessage
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from tests.integrations.autogen.world import INFO, Scripted, answers, slow_act, told, trip, turn

from settlemark import Settlement, UsageError
from settlemark.hosting import host_of
from settlemark_autogen import SettledChatCompletionClient


def declared(settlement, tools):
    """What the tools' own `@effect` says, since a client sees no functions."""
    return {tool.__name__: host_of(settlement).tools.of(tool) for tool in tools}


def alone(model, tools, settlement, *, run="trip-42", name="agent", **options):
    how = {"effects": declared(settlement, tools), "unsettled": options.pop("unsettled", "allow")}
    client = SettledChatCompletionClient(model, settlement, run=run, **how)
    options.setdefault("max_tool_iterations", 10)
    return AssistantAgent(name, client, tools=tools, **options)


def states(settlement):
    return [t.state.value for t in settlement.transactions()]


def whole(messages):
    """A model's conversation: its own messages' calls, and what it was told of them."""
    return [
        [call.id for call in m.content]
        if isinstance(m, AssistantMessage) and not isinstance(m.content, str)
        else [(r.call_id, r.content) for r in m.content]
        if isinstance(m, FunctionExecutionResultMessage)
        else m.content
        for m in messages
        if m.type != "SystemMessage"
    ]


@pytest.mark.parametrize("streams", [False, True])
async def test_what_is_irreversible_is_handed_out_last_and_the_model_sees_its_turn_in_one_piece(
    world, settlement, streams
):
    model = Scripted(turn(("mail", {"to": "a"}), ("look", {"hotel": "Ada"})))

    result = await alone(model, trip(world), settlement, model_client_stream=streams).run(task="go")

    assert world.log == ["look Ada", "mail a"]
    assert answers(result) == [(False, "look done"), (False, "mail done")]
    assert whole(model.requests[-1][0]) == [
        "go",
        ["call-0", "call-1"],
        [("call-0", "mail done"), ("call-1", "look done")],
    ]
    assert len(model.requests) == 2
    assert states(settlement) == ["committed"]


async def test_a_failure_stops_the_later_calls_undoes_the_earlier_ones_and_the_model_is_told(world, settlement):
    calls = [("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "a"})]
    model = Scripted(turn(*calls))

    result = await alone(model, trip(world, broken=["rent"]), settlement).run(task="go")

    assert world.log == ["book Ada", "cancel Ada"]
    assert answers(result) == [(False, "book done"), (True, "rent is down")]
    (undone, failed, never) = told(model.requests[-1][0])
    assert undone[2].startswith("undone: book had succeeded, and was undone because rent failed")
    assert failed == ("call-1", True, "rent is down")
    assert never[1]
    assert "mail was not run" in never[2]
    assert (states(settlement), settlement.residue()) == (["aborted"], [])


async def test_several_turns_are_shown_each_in_one_piece(world, settlement):
    model = ReplayChatCompletionClient(
        [turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"})), turn(("book", {"hotel": "Bee"})), "done"],
        model_info=INFO,
    )

    await alone(model, trip(world), settlement).run(task="go")

    assert world.log == ["book Ada", "mail a", "book Bee"]
    assert whole(model.create_calls[-1]["messages"]) == [
        "go",
        ["call-0", "call-1"],
        [("call-0", "book done"), ("call-1", "mail done")],
        ["call-0"],
        [("call-0", "book done")],
    ]


async def test_a_turn_of_one_call_settles_at_the_next_request_whatever_that_is(world, settlement):
    model = Scripted(turn(("book", {"hotel": "Ada"})))
    played = alone(model, trip(world), settlement, max_tool_iterations=1)

    await played.run(task="go")
    before = states(settlement)
    await played.run(task="and now?")

    assert (before, states(settlement)) == (["open"], ["committed"])
    assert world.log == ["book Ada"]
    assert whole(model.requests[-1][0]) == ["go", ["call-0"], [("call-0", "book done")], "and now?"]


@pytest.mark.parametrize("how", ["reflects", "goes on"])
async def test_a_turn_that_its_agent_leaves_is_undone_and_the_model_is_told_so(world, settlement, how):
    model = Scripted(turn(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "a"})))
    played = alone(model, trip(world), settlement, max_tool_iterations=1, reflect_on_tool_use=how == "reflects")

    result = await played.run(task="go")
    if how == "goes on":
        result = await played.run(task="and now?")

    assert result.messages[-1].content == "done"
    assert world.log == ["book Ada", "cancel Ada"]
    (undone, left, never) = told(model.requests[-1][0])
    assert "undone: book had succeeded" in undone[2]
    assert "rent was not run: the agent went on before its turn came" in left[2]
    assert "mail was not run" in never[2]
    assert states(settlement) == ["aborted"]


async def test_a_call_whose_agent_never_says_what_came_of_it_is_in_doubt(world, settlement):
    running = asyncio.Event()

    async def act() -> str:
        """Act."""
        world.act("act")
        running.set()
        await asyncio.Event().wait()

    client = SettledChatCompletionClient(Scripted(turn(("act", {}))), settlement, run="trip-42", unsettled="allow")
    job = asyncio.create_task(AssistantAgent("agent", client, tools=[act]).run(task="go"))
    await running.wait()
    job.cancel()
    await asyncio.wait([job])
    await client.close()

    assert [doubt.tool for doubt in settlement.in_doubt()] == ["act"]
    assert states(settlement) == ["aborted"]


async def test_a_job_begun_again_hands_out_nothing_that_was_done_and_the_model_goes_on_from_there(world, settlement):
    script = [turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"})), turn(("book", {"hotel": "Bee"})), "done"]

    async def begin():
        model = ReplayChatCompletionClient(script, model_info=INFO)
        return model, await alone(model, trip(world), settlement).run(task="go")

    await begin()
    model, result = await begin()

    assert world.log == ["book Ada", "mail a", "book Bee"]
    assert answers(result) == []
    assert result.messages[-1].content == "done"
    assert whole(model.create_calls[-1]["messages"]) == [
        "go",
        ["call-0", "call-1"],
        [("call-0", "book done"), ("call-1", "mail done")],
        ["call-0"],
        [("call-0", "book done")],
    ]


async def test_what_the_model_was_told_from_the_record_it_is_told_in_each_later_request(world, settlement):
    async def begin(*script):
        model = ReplayChatCompletionClient([*script, "done"], model_info=INFO)
        await alone(model, trip(world), settlement).run(task="go")
        return whole(model.create_calls[-1]["messages"])

    first = turn(("book", {"hotel": "Ada"}))
    await begin(first)
    shown = await begin(first, turn(("book", {"hotel": "Bee"})))

    assert shown == ["go", ["call-0"], [("call-0", "book done")], ["call-0"], [("call-0", "book done")]]
    assert world.log == ["book Ada", "book Bee"]


async def test_a_handoff_is_handed_out_when_the_rest_has_settled(world, settlement):
    model = Scripted(turn(("transfer_to_boss", {}), ("mail", {"to": "a"}), ("book", {"hotel": "Ada"})))

    result = await alone(model, trip(world), settlement, handoffs=[Handoff(target="boss")]).run(task="go")

    assert world.log == ["book Ada", "mail a"]
    assert isinstance(result.messages[-1], HandoffMessage)
    assert states(settlement) == ["committed"]


async def test_an_agent_that_has_handoffs_alone_is_left_as_it_is(settlement):
    client = SettledChatCompletionClient(Scripted(turn(("transfer_to_boss", {}))), settlement)

    result = await AssistantAgent("agent", client, handoffs=[Handoff(target="boss")]).run(task="go")

    assert isinstance(result.messages[-1], HandoffMessage)
    assert settlement.transactions() == []


@pytest.mark.parametrize("args", ["{no json", "[1]"])
async def test_calls_that_cannot_be_settled_are_the_agents_to_answer(world, settlement, args):
    message = turn(("book", {"hotel": "Ada"}), ("nobody", {}), ("rent", {}))
    message.content[2].arguments = args
    model = Scripted(message)

    result = await alone(model, trip(world), settlement).run(task="go")

    assert world.log == ["book Ada"]
    assert [is_error for is_error, _ in answers(result)] == [False, True, True]
    assert [(i, e) for i, e, _ in told(model.requests[-1][0])] == [
        ("call-0", False),
        ("call-1", True),
        ("call-2", True),
    ]


async def test_agents_that_share_a_client_and_run_beside_each_other_keep_to_themselves(world, settlement):
    tools = trip(world)
    client = SettledChatCompletionClient(
        Scripted(turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))),
        settlement,
        run="trip-42",
        effects=declared(settlement, tools),
        unsettled="allow",
    )
    agents = [AssistantAgent(name, client, tools=tools, max_tool_iterations=4) for name in ("first", "second")]
    builder = DiGraphBuilder()
    for played in agents:
        builder.add_node(played)

    result = await GraphFlow(agents, graph=builder.build()).run(task="go")

    assert sorted(world.log) == ["book Ada"] * 2 + ["mail a"] * 2
    assert sorted(t.row.name for t in settlement.transactions()) == ["trip-42/first/0", "trip-42/second/0"]
    assert [m.content for m in result.messages if isinstance(m, TextMessage) and m.source != "user"][:2] == ["done"] * 2


async def test_the_model_is_shown_each_agents_own_answers_also_when_all_else_is_alike(world, settlement):
    async def count() -> str:
        """Count."""
        world.act("count")
        return f"number {len(world.log)}"

    model = Scripted(turn(("count", {})))
    client = SettledChatCompletionClient(model, settlement, run="trip-42", unsettled="allow")
    agents = [AssistantAgent(name, client, tools=[count], max_tool_iterations=2) for name in ("first", "second")]
    builder = DiGraphBuilder()
    for played in agents:
        builder.add_node(played)

    await GraphFlow(agents, graph=builder.build()).run(task="go")

    shown = [told(messages) for messages, _ in model.requests]
    assert sorted(shown) == [[], [], [("call-0", False, "number 1")], [("call-0", False, "number 2")]]


@pytest.mark.parametrize("streams", [False, True])
async def test_alone_it_refuses_an_answer_whose_calls_act_before_any_of_them_does(world, settlement, streams):
    model = Scripted(turn(("look", {"hotel": "Ada"})), turn(("look", {"hotel": "Bee"}), ("book", {"hotel": "Ada"})))
    played = alone(model, trip(world), settlement, unsettled="refuse", model_client_stream=streams)

    with pytest.raises(UsageError, match=r'workbench=SettledWorkbench.*or pass unsettled="warn".*nothing was run'):
        await played.run(task="go")

    assert (world.log, settlement.transactions()) == (["look Ada"], [])


@pytest.mark.parametrize(("unsettled", "times"), [("warn", 1), ("allow", 0)])
async def test_alone_it_says_once_what_it_needs_where_that_is_known(world, settlement, caplog, unsettled, times):
    for run in ("trip-42", "trip-43"):
        model = Scripted(turn(("book", {"hotel": "Ada"})))
        await alone(model, trip(world), settlement, run=run, unsettled=unsettled).run(task="go")

    said = [r.message for r in caplog.records if "SettledWorkbench" in r.message]
    assert len(said) == times
    assert all("max_tool_iterations must be at least the number of calls" in text for text in said)


def test_a_mistake_is_refused_when_it_is_made(settlement):
    with pytest.raises(UsageError, match="is no Settlement"):
        SettledChatCompletionClient(Scripted(), "sqlite://")
    with pytest.raises(UsageError, match="give your id for the job"):
        SettledChatCompletionClient(Scripted(), settlement, run=" ")
    with pytest.raises(UsageError, match="unsettled='no': choose one of 'refuse', 'warn', 'allow'"):
        SettledChatCompletionClient(Scripted(), settlement, unsettled="no")


async def test_order_is_kept_whatever_the_latencies(world):
    with Settlement("memory:") as settlement:
        client = SettledChatCompletionClient(
            Scripted(turn(*[("act", {"n": n}) for n in range(5)])),
            settlement,
            run="trip-42",
            unsettled="allow",
        )
        await AssistantAgent("agent", client, tools=[slow_act(world)], max_tool_iterations=6).run(task="go")

    assert world.log == [0, 1, 2, 3, 4]
