"""Reads an agent's messages for a client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, FunctionExecutionResultMessage, LLMMessage, ModelFamily

from settlemark.agents import Said

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


def said_in(answer: CreateResult, tools: Iterable[str], client: object = None) -> Said:
    """Return what is known of an answer with calls of a model that was offered these tools.

    An answer names no model, and a client has the name of its family alone.
    """
    info: object = getattr(client, "model_info", None)
    family = cast("Mapping[str, object]", info).get("family") if isinstance(info, Mapping) else None
    named = family if isinstance(family, str) and family != ModelFamily.UNKNOWN else None
    return Said(answer.thought, model=named, tools=tuple(tools))


__all__ = ["NO_JSON", "answered_in", "arguments_of", "said_in"]
