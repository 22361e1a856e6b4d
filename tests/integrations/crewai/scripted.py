"""Models that play a script, offline: one that calls functions, and one that writes its calls down (ReAct)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from crewai import BaseLLM
from pydantic import Field, PrivateAttr

_IDS = itertools.count(1)


@dataclass(frozen=True)
class ScriptedCall:
    """One call that a scripted model issues; without an id it gets a new one each time, as models give them."""

    tool: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str | None = None


class Scripted(BaseLLM):
    """Answers with its next turn: which one that is, it reads off the messages. So one that is asked anew begins anew.

    `turns` are lists of calls; the `final` text comes after them. `seen` has the messages of every request.
    """

    native: bool = True
    _turns: list[Any] = PrivateAttr(default_factory=list)
    _final: str = PrivateAttr(default="done")
    _before: Callable[[int], object] | None = PrivateAttr(default=None)
    _heed: Callable[[str, Any, int], Any] | None = PrivateAttr(default=None)
    seen: list[Any] = Field(default_factory=list)

    def __init__(
        self,
        *turns: Sequence[ScriptedCall],
        final: str = "done",
        native: bool = True,
        before: Callable[[int], object] | None = None,
        heed: Callable[[str, Any, int], Any] | None = None,
    ) -> None:
        super().__init__(model="scripted", provider="scripted", native=native, seen=[])
        self._turns, self._final, self._before, self._heed = list(turns), final, before, heed

    def supports_function_calling(self) -> bool:
        return self.native

    def supports_stop_words(self) -> bool:
        return False

    def get_input_tokens_count(self, *_: Any, **__: Any) -> int:
        return 1

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.seen.append([dict(message) for message in messages])
        number = turns_in(messages)
        if self._before is not None:
            self._before(number)
        turns = self._turns
        if self._heed is not None:
            turns = self._heed("\n".join(str(message.get("content")) for message in messages), turns, number)
        if number >= len(turns):
            return self._final if self.native else f"Thought: I now know the final answer\nFinal Answer: {self._final}"
        calls = turns[number]
        return [_function_call(call) for call in calls] if self.native else _written(calls)

    async def acall(self, messages: Any, *given: Any, **named: Any) -> Any:
        return self.call(messages, *given, **named)


def turns_in(messages: Any) -> int:
    """How many turns with calls the messages show."""
    return sum(
        1
        for message in messages
        if message.get("role") == "assistant"
        and (message.get("tool_calls") or re.search(r"^Action:", str(message.get("content")), re.MULTILINE))
    )


def answers(llm: Scripted) -> list[tuple[str, str]]:
    """What the model was told last of its calls: (call id or tool, text)."""
    messages = llm.seen[-1]
    told = [(message["tool_call_id"], message["content"]) for message in messages if message["role"] == "tool"]
    for message in messages:
        found = re.search(r"Action: (.*)\nAction Input:.*?\nObservation: (.*)", str(message.get("content")), re.DOTALL)
        if message["role"] == "assistant" and found:
            told.append((found[1].strip(), found[2].strip()))
    return told


def _function_call(call: ScriptedCall) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return {
        "id": call.id or f"call-{next(_IDS)}",
        "type": "function",
        "function": {"name": call.tool, "arguments": arguments},
    }


def _written(calls: Sequence[ScriptedCall]) -> str:
    (call,) = calls  # a written turn has one call
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return f"Thought: I act.\nAction: {call.tool}\nAction Input: {arguments}"
