"""A turn of an agent is one transaction: with both of ours in place, and as far as each can alone."""

from __future__ import annotations

import asyncio
import json

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.messages import HandoffMessage
from autogen_core.tools import FunctionTool, StaticWorkbench
from pydantic import BaseModel
from tests.integrations.autogen.world import FIVE, Scripted, agent, answers, slow_act, told, trip, turn

from settlemark import Settlement, UsageError, current_call, effect, inverse
from settlemark.agents import AgentRun
from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench

TRIP = turn(("mail", {"to": "a"}), ("book", {"hotel": "Ada"}), ("look", {"hotel": "Ada"}), said="I book and tell.")


def open_ones(settlement):
    """The transactions that are not at their end."""
    return [t.row.name for t in settlement.transactions() if t.state.value not in ("committed", "aborted")]


@pytest.mark.parametrize("streams", [False, True])
async def test_what_is_irreversible_leaves_when_all_calls_have_succeeded_and_answers_say_what_it_did(
    world, settlement, streams
):
    model = Scripted(turn(("mail", {"to": "a"}), ("look", {"hotel": "Ada"})))

    result = await agent(model, trip(world), settlement, model_client_stream=streams).run(task="go")

    assert world.log == ["look Ada", "mail a"]
    assert answers(result) == [(False, "mail done"), (False, "look done")]
    assert result.messages[-1].content == "done"
    assert open_ones(settlement) == []


async def test_a_failed_call_stops_the_later_ones_undoes_the_earlier_ones_and_each_is_told_so(world, settlement):
    calls = [("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "a"}), ("book", {"hotel": "Bee"})]
    model = Scripted(turn(*calls))

    result = await agent(model, trip(world, broken=["rent"]), settlement).run(task="go")

    assert world.log == ["book Ada", "cancel Ada"]
    (undone, failed, never, stopped) = answers(result)
    assert undone[0]
    assert undone[1].startswith("undone: book had succeeded, and was undone because rent failed")
    assert failed == (True, "rent is down")
    assert never[0]
    assert "mail was not run" in never[1]
    assert stopped[0]
    assert "book was not run" in stopped[1]
    assert [text for _, _, text in told(model.requests[-1][0])] == [text for _, text in answers(result)]
    assert (settlement.residue(), open_ones(settlement)) == ([], [])


async def test_the_turn_settles_when_the_agent_never_asks_its_model_again(world, settlement):
    model = Scripted(turn(("mail", {"to": "a"}), ("book", {"hotel": "Ada"})))

    result = await agent(model, trip(world), settlement, max_tool_iterations=1).run(task="go")

    assert len(model.requests) == 1
    assert world.log == ["book Ada", "mail a"]
    assert result.messages[-1].content == "mail done\nbook done"
    assert [t.state.value for t in settlement.transactions()] == ["committed"]


async def test_with_order_issued_what_is_issued_behind_a_mail_happens_behind_it(world, settlement):
    model = Scripted(turn(("mail", {"to": "a"}), ("book", {"hotel": "Ada"})))
    workbench = SettledWorkbench(trip(world), settlement, run="trip-42", order="issued")

    await AssistantAgent("agent", SettledChatCompletionClient(model, settlement), workbench=workbench).run(task="go")

    assert world.log == ["mail a", "book Ada"]


async def test_an_agent_that_reflects_is_told_the_truth(world, settlement):
    model = Scripted(turn(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"})))

    await agent(model, trip(world, broken=["rent"]), settlement, max_tool_iterations=1, reflect_on_tool_use=True).run(
        task="go"
    )

    assert model.requests[-1][1]["tool_choice"] == "none"
    assert [text.partition(":")[0] for _, _, text in told(model.requests[-1][0])] == ["undone", "rent is down"]


async def test_the_why_of_an_effect_is_what_the_model_said(world, settlement):
    await agent(Scripted(TRIP), trip(world), settlement).run(task="go")

    effects = {e.row.tool: e.row.rationale for t in settlement.transactions() for e in t.effects}
    assert effects == {"book": "I book and tell.", "mail": "I book and tell."}


async def test_synchronous_tools_know_the_call_they_act_for(world, settlement):
    await agent(Scripted(turn(("rent", {"plate": "X"}), ("book", {"hotel": "Ada"}))), trip(world), settlement).run()

    assert world.log == ["rent X", "book Ada"]
    assert world.keys == ["trip-42/0#1/0:call-0", "trip-42/0#1/1:call-1"]
    assert current_call() is None


# ---- calls that never come


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("strange", "args", "said"),
    [
        (("nobody", {}), None, "Error: tool 'nobody' not found in any workbench"),
        (("book", {}), "{no json", "Error: Expecting property name"),
        (("book", {}), "", "Error: Expecting value"),
    ],
)
async def test_a_call_that_never_reaches_the_workbench_is_waited_for_by_nobody_and_fails_its_turn(
    world, streams, strange, args, said
):
    message = turn(("mail", {"to": "a"}), strange, ("book", {"hotel": "Ada"}))
    if args is not None:
        message.content[1].arguments = args
    with Settlement("memory:", wait=1e6) as settlement:  # who waits for it fails by the test's own deadline
        result = await agent(Scripted(message), trip(world), settlement, model_client_stream=streams).run(task="go")

    assert world.log == []
    (mailed, strange_one, booked) = answers(result)
    assert "mail was held and never left" in mailed[1] or "never left: mail" in mailed[1] or "not run" in mailed[1]
    assert f"book was not run: {strange[0]}, issued before it, failed" in booked[1]
    assert (mailed[0], strange_one[0], booked[0]) == (True, True, True)
    assert strange_one[1].startswith(said)


async def test_a_turn_in_which_no_call_reaches_the_workbench_opens_nothing(world, settlement):
    result = await agent(Scripted(turn(("nobody", {}))), trip(world), settlement).run(task="go")

    assert answers(result) == [(True, "Error: tool 'nobody' not found in any workbench")]
    assert (world.log, settlement.transactions()) == ([], [])


@pytest.mark.parametrize("given", ["[1]", '{"hotel": {"a": 1}}', '{"town": "x"}', "3", '"Ada"'])
async def test_arguments_that_a_tool_cannot_take_fail_the_turn_with_the_tools_own_words(world, settlement, given):
    message = turn(("book", {"hotel": "Ada"}), ("book", {}))
    message.content[1].arguments = given
    stock = answers(await agent(Scripted(message), trip(type(world)())).run(task="go"))

    result = await agent(Scripted(message), trip(world), settlement).run(task="go")

    assert answers(result)[1] == stock[1]
    assert answers(result)[1][0]
    assert world.log in (["book Ada", "cancel Ada"], [])
    assert open_ones(settlement) == []


@pytest.mark.parametrize("given", ["null", "{}", "[]"])
async def test_no_arguments_are_no_arguments_however_a_model_writes_them(world, settlement, given):
    async def act() -> str:
        """Act."""
        world.act("act")
        return "done"

    message = turn(("act", {}))
    message.content[0].arguments = given

    result = await agent(Scripted(message), [act], settlement).run(task="go")

    assert (world.log, answers(result)) == (["act"], [(False, "done")])


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_handoff_among_the_calls_goes_its_way_and_the_others_settle(world, place):
    calls = [("mail", {"to": "a"}), ("book", {"hotel": "Ada"})]
    calls.insert(place, ("transfer_to_boss", {}))
    with Settlement("memory:", wait=1e6) as settlement:
        result = await agent(Scripted(turn(*calls)), trip(world), settlement, handoffs=[Handoff(target="boss")]).run(
            task="go"
        )

    assert world.log == ["book Ada", "mail a"]
    assert isinstance(result.messages[-1], HandoffMessage)
    assert [
        r.content for m in result.messages[-1].context if m.type == "FunctionExecutionResultMessage" for r in m.content
    ] == ["mail done", "book done"]


async def test_a_handoff_goes_before_a_tool_of_its_name_so_that_one_is_not_waited_for(world):
    async def transfer_to_boss() -> str:
        """Never reached."""
        world.act("tool")
        return "tool"

    message = turn(("transfer_to_boss", {}), ("book", {"hotel": "Ada"}))
    with Settlement("memory:", wait=1e6) as settlement:
        result = await agent(
            Scripted(message), [transfer_to_boss, *trip(world)], settlement, handoffs=[Handoff(target="boss")]
        ).run(task="go")

    assert world.log == ["book Ada"]
    assert isinstance(result.messages[-1], HandoffMessage)


async def test_calls_of_a_workbench_that_is_not_ours_run_as_they_are(world, settlement):
    async def ring(bell: str) -> str:
        """Ring."""
        world.act(f"ring {bell}")
        return "rang"

    ours = SettledWorkbench(trip(world), settlement, run="trip-42")
    theirs = StaticWorkbench([FunctionTool(ring, description="ring")])
    message = turn(("book", {"hotel": "Ada"}), ("ring", {"bell": "x"}), ("mail", {"to": "a"}))
    both = AssistantAgent(
        "agent",
        SettledChatCompletionClient(Scripted(message), settlement),
        workbench=[theirs, ours],
        max_tool_iterations=2,
    )

    result = await both.run(task="go")

    assert sorted(world.log) == ["book Ada", "mail a", "ring x"]
    assert answers(result) == [(False, "book done"), (False, "rang"), (False, "mail done")]
    assert [e.row.tool for t in settlement.transactions() for e in t.effects] == ["book", "mail"]


# ---- two workbenches


async def test_two_workbenches_of_one_job_settle_a_turn_together(world, settlement):
    book, mail, *_ = trip(world, broken=["mail"])
    job = AgentRun(settlement, "trip-42")
    workbenches = [SettledWorkbench([book], settlement, run=job), SettledWorkbench([mail], settlement, run=job)]
    message = turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))

    result = await AssistantAgent(
        "agent", SettledChatCompletionClient(Scripted(message), settlement), workbench=workbenches
    ).run(task="go")

    assert world.log == ["book Ada", "cancel Ada"]
    assert [is_error for is_error, _ in answers(result)] == [True, True]


@pytest.mark.parametrize("other", ["job", "settlement"])
async def test_workbenches_that_cannot_settle_together_are_refused_before_the_model_is_asked(world, settlement, other):
    book, mail, *_ = trip(world)
    with Settlement("memory:") as another:
        workbenches = [
            SettledWorkbench([book], settlement, run="trip-42"),
            SettledWorkbench([mail], another if other == "settlement" else settlement, run="trip-43"),
        ]
        model = Scripted(turn(("book", {"hotel": "Ada"})))
        refused = AssistantAgent("agent", SettledChatCompletionClient(model, settlement), workbench=workbenches)

        with pytest.raises(UsageError, match="the model was not asked"):
            await refused.run(task="go")

    assert (model.requests, world.log) == ([], [])


# ---- a workbench alone


async def test_a_workbench_alone_settles_each_call_by_itself(world, settlement):
    message = turn(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "a"}))
    workbench = SettledWorkbench(trip(world, broken=["rent"]), settlement, run="trip-42", unsettled="allow")

    result = await AssistantAgent("agent", Scripted(message), workbench=workbench).run(task="go")

    assert world.log == ["book Ada", "mail a"]
    assert answers(result) == [(False, "book done"), (True, "rent is down"), (False, "mail done")]
    assert open_ones(settlement) == []


async def test_a_workbench_finds_its_turn_also_when_the_model_was_asked_in_another_task(world, settlement):
    class Elsewhere(SettledChatCompletionClient):
        async def create(self, *given, **options):
            return await asyncio.create_task(super().create(*given, **options))

    workbench = SettledWorkbench([slow_act(world), *trip(world)], settlement, run="trip-42")
    client = Elsewhere(Scripted(FIVE), settlement)

    await AssistantAgent("agent", client, workbench=workbench).run(task="go")

    assert world.log == [0, 1, 2, 3, 4]
    assert [len(t.effects) for t in settlement.transactions()] == [5]


# ---- what is recorded of a result


class Booking(BaseModel):
    id: str
    nights: int


def booking_tools(world, made):
    def cancel(number):
        world.act(f"cancel {number}")

    @effect("reversible", scope="room:/{hotel}", undo=inverse(cancel, number="id"))
    async def book(hotel: str, nights: int = 2):
        """Book."""
        world.act(f"book {hotel}")
        return made

    async def fail() -> str:
        """Fail."""
        raise ValueError("no")

    book.__annotations__["return"] = type(made)
    return [book, fail]


@pytest.mark.parametrize("made", [{"id": "R7", "b": 1, "a": 2}, Booking(id="R7", nights=2)], ids=["dict", "model"])
async def test_an_undo_gets_what_the_tool_itself_returned(world, settlement, made):
    message = turn(("book", {"hotel": "Ada"}), ("fail", {}))

    await agent(Scripted(message), booking_tools(world, made), settlement).run(task="go")

    assert world.log == ["book Ada", "cancel R7"]


async def test_an_undo_gets_what_a_probe_found_where_the_tool_could_not_say(world, settlement):
    def cancel(number):
        world.act(f"cancel {number}")

    @effect("reversible", scope="room:/{hotel}", undo=inverse(cancel, number="id"), probe=lambda key: {"id": "R7"})
    async def book(hotel: str) -> dict:
        """Book."""
        world.act(f"book {hotel}")
        raise TimeoutError("no answer")

    found = turn(("book", {"hotel": "Ada"}))
    undone = turn(("book", {"hotel": "Bee"}), ("rent", {"plate": "X"}))
    tools = [book, *trip(world, broken=["rent"])[1:]]

    result = await agent(Scripted(found, undone), tools, settlement).run(task="go")

    assert answers(result)[0] == (False, "{'id': 'R7'}")
    assert world.log == ["book Ada", "book Bee", "cancel R7"]


RESULTS = ["text", "", 7, 0.5, True, None, [1, "a"], [{"b": 1, "a": 2}], {"id": 1}, Booking(id="R7", nights=2), {1, 2}]


@pytest.mark.parametrize("made", RESULTS, ids=repr)
async def test_a_job_begun_again_is_answered_with_the_words_of_the_first_time(world, tmp_path, made):
    message = turn(("book", {"hotel": "Ada"}))
    stock = answers(await agent(Scripted(message), booking_tools(type(world)(), made)).run(task="go"))

    said = []
    for _ in range(2):
        with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
            played = agent(Scripted(message), booking_tools(world, made), settlement)
            said.append(answers(await played.run(task="go")))

    assert said == [stock, stock]
    assert world.log == ["book Ada"]


async def test_defaults_are_part_of_what_a_call_acts_on(world, settlement):
    @effect("irreversible", scope="mail:/{to}/{kind}")
    async def mail(to: str, kind: str = "plain") -> str:
        """Mail."""
        return "sent"

    await agent(Scripted(turn(("mail", {"to": "a"}))), [mail], settlement).run(task="go")

    ((recorded,),) = [t.effects for t in settlement.transactions()]
    assert (json.loads(recorded.row.arguments), recorded.row.scope) == ({"to": "a"}, "mail:/a/plain")
