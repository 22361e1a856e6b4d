"""Pydantic AI: the model of a job that was begun before is told what the record says; its messages stay as they are."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from settlemark import Settlement, effect
from settlemark_pydantic_ai import Settled

DONE = "Done, and not to be done again:"


@pytest.fixture
def settlement():
    with Settlement("memory:", wait=20) as settlement:
        yield settlement


def prompts(messages):
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [part.content for part in parts if isinstance(part, SystemPromptPart)]


async def test_each_request_is_told_behind_the_system_prompt_where_the_job_was_begun_before(settlement):
    seen = []

    def answer(messages, _info):
        seen.append(prompts(messages))
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("mail", {"to": "ada"})])

    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        return "sent"

    settled = Settled(settlement, run="trip-42", primer=True)
    agent = Agent(FunctionModel(answer), tools=[mail], capabilities=[settled], system_prompt="Be kind.")
    for _ in range(2):
        result = await agent.run("go")
    assert seen[:2] == [["Be kind."]] * 2
    assert [(told[0], DONE in told[1]) for told in seen[2:]] == [("Be kind.", True)] * 2
    assert prompts(result.all_messages()) == ["Be kind."]
