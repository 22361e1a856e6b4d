"""What these tests share: agents that play a script, and tools whose latencies are reversed."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ToolReturnPart
from tests.integrations.contract.world import turns
from tests.integrations.pydantic_ai.driver import scripted

from settlemark import effect

FIVE = turns([("act", {"number": number}) for number in range(5)])
TOLD = [f"acted {number}" for number in range(5)]


def agent(script, tools=(), *, capabilities=(), name="clerk", final="done", **options):
    """An agent that plays a script, and may put calls aside."""
    options.setdefault("output_type", [str, DeferredToolRequests])
    return Agent(scripted(script, final), name=name, tools=tools, capabilities=capabilities, **options)


def answers(result):
    """What the model has been told of its calls: (outcome, text) each."""
    parts = [part for message in result.all_messages() for part in message.parts]
    found = [part for part in parts if isinstance(part, ToolReturnPart)]
    return [
        (part.outcome, part.content if isinstance(part.content, str) else part.model_response_str()) for part in found
    ]


def texts(result):
    return [text for _, text in answers(result)]


async def soon(passes=20):
    """Let everybody else go on, some times."""
    for _ in range(passes):
        await asyncio.sleep(0)


def slow_act(world, kind="reversible"):
    """A tool whose call n takes longer than call n + 1."""

    async def act(number: int) -> str:
        """Act."""
        await soon(20 * (5 - number))
        world.act(number)
        return f"acted {number}"

    if kind == "opaque":
        return effect(kind)(act)
    undo = {"undo": lambda number: world.act(f"cancel {number}")} if kind == "reversible" else {}
    return effect(kind, scope="thing:/{number}", **undo)(act)
