"""AutoGen: the model of a job that was begun before is told what the record says; the agent remembers nothing of it."""

from __future__ import annotations

import pytest
from autogen_core.models import SystemMessage, UserMessage
from tests.integrations.autogen.world import Scripted, World, agent, trip, turn

from settlemark import Settlement
from settlemark_autogen import SettledChatCompletionClient

DONE = "Done, and not to be done again:"


@pytest.fixture
def settlement():
    with Settlement("memory:", wait=20) as settlement:
        yield settlement


def systems(model):
    return [[m.content for m in messages if isinstance(m, SystemMessage)] for messages, _ in model.requests]


async def played(settlement):
    model = Scripted(turn(("mail", {"to": "ada"})))
    one = agent(model, [*trip(World())], settlement, primer=True)
    await one.run(task="go")
    return model, await one.model_context.get_messages()


async def test_each_request_of_a_client_is_told_behind_the_system_message_where_the_job_was_begun_before(settlement):
    first, _ = await played(settlement)
    again, remembered = await played(settlement)
    assert not any(DONE in text for texts in systems(first) for text in texts)
    assert [len(texts) for texts in systems(again)] == [2] * len(again.requests)
    assert all(DONE in texts[1] for texts in systems(again))
    assert not any(DONE in str(message.content) for message in remembered)


async def test_a_client_alone_tells_it_under_its_own_run(settlement):
    with settlement.transaction("trip-42/1") as tx:
        tx.call(print, "booked")
    model = Scripted()
    client = SettledChatCompletionClient(model, settlement, run="trip-42", primer=True)
    await client.create([UserMessage(content="go", source="user")])
    assert [DONE in texts[0] for texts in systems(model)] == [True]
