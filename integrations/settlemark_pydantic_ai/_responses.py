"""Reads a run's messages: which response issued which calls, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai import ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolReturn,
    ToolReturnPart,
)
from pydantic_ai.tools import ToolDenied

Results = Mapping[str, Any]
"""The framework's results for deferred calls, by their ids."""


def issuer_of(messages: Sequence[ModelMessage], call_id: str | None) -> tuple[int, ModelResponse | None]:
    """Return the model's last response and its index, if it has issued this call."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, ModelResponse):
            return (index, message) if call_id in ids_of(message) else (-1, None)
    return -1, None


def asker(messages: Sequence[ModelMessage]) -> str | None:
    """Return the run of the model's last response."""
    return next((found.run_id for found in reversed(messages) if isinstance(found, ModelResponse)), None)


def ids_of(response: ModelResponse) -> Sequence[str]:
    """Return the ids of the calls that a response issued."""
    return tuple(part.tool_call_id for part in response.tool_calls)


def answered_in(messages: Sequence[ModelMessage]) -> tuple[str, ...]:
    """Return the ids of the calls whose answers are in these messages, as often as they were answered."""
    requests = (message for message in messages if isinstance(message, ModelRequest))
    parts = (part for request in requests for part in request.parts)
    return tuple(part.tool_call_id for part in parts if isinstance(part, ToolReturnPart))


def are_answered(messages: Sequence[ModelMessage]) -> bool:
    """Whether all calls of the model's last response have their answers, or it has issued none."""
    last = next((message for message in reversed(messages) if isinstance(message, ModelResponse)), None)
    return last is None or {*ids_of(last)} <= {*answered_in(messages[messages.index(last) :])}


def answers_in(parts: Sequence[ModelRequestPart]) -> Results:
    """Return the framework's answers for calls, as results."""
    found: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, ToolReturnPart):
            text = part.model_response_str()
            given = {"denied": ToolDenied(text), "success": ToolReturn(part.content)}
            found[part.tool_call_id] = given.get(part.outcome, ToolFailed(text))
    return found


__all__ = ["Results", "answered_in", "answers_in", "are_answered", "asker", "ids_of", "issuer_of"]
