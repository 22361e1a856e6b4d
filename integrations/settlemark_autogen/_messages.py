"""Reads an agent's messages for a client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage

NO_JSON = object()


def arguments_of(call: FunctionCall) -> Any:
    """Return a call's arguments as agents read them; `NO_JSON` where they are none, and the call is not made.

    >>> arguments_of(FunctionCall("1", "{}", "look")), arguments_of(FunctionCall("1", "{", "look")) is NO_JSON
    ({}, True)
    """
    try:
        return json.loads(call.arguments)
    except json.JSONDecodeError:
        return NO_JSON


def answered_in(messages: Sequence[LLMMessage]) -> tuple[str, ...]:
    """Return the ids of the calls whose answers are in a model's messages, as often as they were answered."""
    shown = (message.content for message in messages if isinstance(message, FunctionExecutionResultMessage))
    return tuple(result.call_id for results in shown for result in results)


__all__ = ["NO_JSON", "answered_in", "arguments_of"]
