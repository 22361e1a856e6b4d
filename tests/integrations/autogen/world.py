"""What the tests of the AutoGen shim share: a world that tools act on, a scripted model, and agents."""

from __future__ import annotations

import asyncio
import json
import threading
from itertools import count

import pytest

pytest.importorskip("autogen_agentchat")

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    RequestUsage,
)

from settlemark import current_call, effect
from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench

INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


class World:
    """The outside: what happened there, in order, and under which keys."""

    def __init__(self):
        self.log = []
        self.keys = []
        self._lock = threading.Lock()

    def act(self, entry):
        with self._lock:
            self.log.append(entry)
            call = current_call()
            self.keys.append(None if call is None else call.key)


def turn(*named, ids=None, said=None, args=None):
    """What the model answers: one call for each (name, arguments); `args` are texts in the arguments' place."""
    calls = [
        FunctionCall(ids[n] if ids else f"call-{n}", args[n] if args else json.dumps(given), name)
        for n, (name, given) in enumerate(named)
    ]
    return CreateResult(
        finish_reason="function_calls",
        content=calls,
        usage=RequestUsage(prompt_tokens=7, completion_tokens=3),
        cached=False,
        thought=said,
    )


class Scripted(ChatCompletionClient):
    """Answers the n-th request of a conversation with `turns[n]`, then says `final`; remembers what it was asked."""

    def __init__(self, *turns, final="done", heed=None):
        self.turns = turns
        self.heed = heed
        self.final = final
        self.requests = []

    async def create(self, messages, **options):
        self.requests.append((list(messages), options))
        said = sum(isinstance(message, AssistantMessage) for message in messages)
        turns = self.turns
        if self.heed is not None:
            turns = self.heed("\n".join(str(message.content) for message in messages), turns, said)
        if said < len(turns) and options.get("tool_choice") != "none":
            return turns[said]
        return CreateResult(
            finish_reason="stop",
            content=self.final,
            usage=RequestUsage(prompt_tokens=1, completion_tokens=1),
            cached=False,
        )

    async def create_stream(self, messages, **options):
        answer = await self.create(messages, **options)
        if isinstance(answer.content, str):
            yield answer.content
        yield answer

    async def close(self):
        self.closed = True

    def actual_usage(self):
        return RequestUsage(prompt_tokens=7, completion_tokens=3)

    def total_usage(self):
        return RequestUsage(prompt_tokens=70, completion_tokens=30)

    def count_tokens(self, messages, *, tools=()):
        return 11

    def remaining_tokens(self, messages, *, tools=()):
        return 989

    @property
    def capabilities(self):
        return INFO

    @property
    def model_info(self):
        return INFO


def told(messages):
    """What a model is told of its calls: (call id, is_error, text), in order."""
    return [
        (result.call_id, result.is_error, result.content)
        for message in messages
        if isinstance(message, FunctionExecutionResultMessage)
        for result in message.content
    ]


def answers(result):
    """What came of the calls of a run: (is_error, text), in order."""
    return [
        (found.is_error, found.content)
        for event in result.messages
        if isinstance(event, ToolCallExecutionEvent)
        for found in event.content
    ]


def agent(
    model, tools, settlement=None, *, name="agent", run="trip-42", effects=None, primer=False, called=None, **options
):
    """An agent that settles what it does with both of ours, or the stock one."""
    options.setdefault("max_tool_iterations", 10)
    if settlement is None:
        return AssistantAgent(name, model, tools=tools, **options)
    workbench = SettledWorkbench(tools, settlement, run=run, effects=effects, agent=called)
    client = SettledChatCompletionClient(model, settlement, primer=primer, agent=called)
    return AssistantAgent(name, client, workbench=workbench, **options)


def trip(world, *, broken=()):
    """Tools that book, pay, send and look: one of each class; those in `broken` raise instead."""

    def happen(name, detail):
        if name in broken:
            raise ValueError(f"{name} is down")
        world.act(f"{name} {detail}")
        return f"{name} done"

    def cancel_room(hotel: str):
        world.act(f"cancel {hotel}")

    @effect("reversible", scope="room:/{hotel}", undo=cancel_room)
    async def book(hotel: str) -> str:
        """Book a room."""
        return happen("book", hotel)

    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        return happen("mail", to)

    @effect("read")
    async def look(hotel: str) -> str:
        """Look a room up."""
        return happen("look", hotel)

    @effect("idempotent", scope="car:/{plate}")
    def rent(plate: str) -> str:
        """Rent a car."""
        return happen("rent", plate)

    return [book, mail, look, rent]


def slow_act(world, calls=5):
    """A tool whose call n takes longer than call n + 1, in steps of the event loop."""

    async def act(n: int) -> str:
        """Act."""
        for _ in range((calls - n) * 20):
            await asyncio.sleep(0)
        world.act(n)
        return str(n)

    return act


FIVE = turn(*[("act", {"n": n}) for n in range(5)])


async def soon(condition):
    """Let the other tasks run until this is so."""
    for _ in count():
        if condition():
            return
        await asyncio.sleep(0)
