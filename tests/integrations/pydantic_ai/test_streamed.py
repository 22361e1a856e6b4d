"""`run_stream` ends at the first final output, and runs the calls beside it: they are one turn all the same."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset, ToolOutput
from pydantic_ai.messages import TextPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.settings import ModelSettings
from tests.integrations.contract.world import desk, turns, unaccounted, unfinished
from tests.integrations.pydantic_ai.driver import scripted
from tests.integrations.pydantic_ai.world import answers

from settlemark import State, UsageError
from settlemark_pydantic_ai import Settled, SettledToolset

TURN = [("book", "Ada"), ("mail", "ada"), ("book", "Bee")]
TEXT, TOOL = "a text first", "an output tool in its midst"


def model(turn):
    """Streams a text and a turn's calls, in parts."""
    whole = scripted(turns(turn))

    async def stream(messages, info):
        for place, part in enumerate(whole.function(messages, info).parts):
            if isinstance(part, TextPart):
                yield part.content
            else:
                yield {place: DeltaToolCall(part.tool_name, tool_call_id=part.tool_call_id)}
                yield {place: DeltaToolCall(json_args=part.args_as_json_str())}

    return FunctionModel(whole.function, stream_function=stream)


def clerk(world, *, ends=TEXT, broken=(), turn=TURN, tools=None, **options):
    found = desk(world, broken=broken)
    if ends is TOOL:
        turn = [*turn[:1], ("final_result", {"response": "done"}), *turn[1:]]
        options["output_type"] = ToolOutput(str)
    else:
        options.setdefault("output_type", [str, DeferredToolRequests])
    given = {"tools": [tool for tool in found if tool.__name__ != "pay"]} if tools is None else tools(found)
    return Agent(model(turn), name="clerk", **given, **options)


async def streamed(agent, **options):
    async with agent.run_stream("go", **options) as result:
        await result.get_output()
    return result


def states(settlement):
    return [([done.row.tool for done in each.effects], each.state) for each in settlement.transactions()]


@pytest.mark.parametrize("strategy", ["graceful", "exhaustive"])
@pytest.mark.parametrize("ends", [TEXT, TOOL])
async def test_calls_beside_a_final_output_settle_together(world, settlement, ends, strategy):
    agent = clerk(world, ends=ends, capabilities=[Settled(settlement)], end_strategy=strategy)

    result = await streamed(agent)

    assert world.log == ["book Ada", "book Bee", "mail ada"]
    told = [text for _, text in answers(result) if "number" in text]
    assert told == ["book Ada: number 1", "mail ada: number 3", "book Bee: number 2"]
    assert states(settlement) == [(["book", "mail", "book"], State.COMMITTED)]


@pytest.mark.parametrize("strategy", ["graceful", "exhaustive"])
@pytest.mark.parametrize("ends", [TEXT, TOOL])
async def test_one_that_fails_undoes_the_others_and_no_mail_leaves(world, settlement, ends, strategy):
    broken = {"book Bee"}
    agent = clerk(world, ends=ends, broken=broken, capabilities=[Settled(settlement)], end_strategy=strategy)

    with pytest.raises(ValueError, match="no Bee is to be had"):
        await streamed(agent)

    assert world.log == ["book Ada", "cancel Ada"]
    assert states(settlement) == [(["book", "mail", "book"], State.ABORTED)]
    assert (unaccounted(world, settlement), settlement.residue()) == ([], [])


@pytest.mark.parametrize("settle", ["agent", "run"])
async def test_they_belong_to_what_settles_as_a_whole(world, settlement, settle):
    await streamed(clerk(world, capabilities=[Settled(settlement, run="trip-42", settle=settle)]))

    assert world.log == ["book Ada", "book Bee", "mail ada"]
    assert states(settlement) == [(["book", "mail", "book"], State.COMMITTED)]


async def test_a_question_that_the_run_went_on_without_is_answered_no_and_nothing_stays_open(world, settlement):
    turn = [("book", "Ada"), ("pay", "hotel"), ("mail", "ada")]

    await streamed(clerk(world, turn=turn, tools=lambda found: {"tools": found}, capabilities=[Settled(settlement)]))

    assert world.log == ["book Ada", "cancel Ada"]
    assert (unfinished(settlement), settlement.residue()) == ([], [])


async def test_the_run_goes_on_from_its_messages(world, settlement):
    agent = clerk(world, capabilities=[Settled(settlement)])

    first = await streamed(agent)
    second = await streamed(agent, message_history=first.all_messages(), model_settings=ModelSettings(temperature=0))

    assert second.response.text == "done"
    assert world.log == ["book Ada", "book Bee", "mail ada"]


# ---- a toolset alone does not hear the model


def toolset_of(settlement, **options):
    def tools(found):
        return {"toolsets": [SettledToolset(FunctionToolset(found[:2]), settlement, **options)]}

    return tools


async def test_a_settled_toolset_refuses_a_call_whose_turn_it_is_not_told(world, settlement):
    with pytest.raises(UsageError, match="it would settle by itself; give the agent capabilities="):
        await streamed(clerk(world, tools=toolset_of(settlement)))

    assert (world.log, settlement.transactions()) == ([], [])


async def test_where_that_is_allowed_each_call_settles_by_itself(world, settlement):
    result = await streamed(clerk(world, tools=toolset_of(settlement, unsettled="allow")))

    assert world.log == ["book Ada", "mail ada", "book Bee"]
    assert [text for _, text in answers(result)] == [f"{entry}: number {n}" for n, entry in enumerate(world.log, 1)]
    assert states(settlement) == [([tool], State.COMMITTED) for tool in ("book", "mail", "book")]
