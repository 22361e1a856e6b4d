"""Converts a tool's result to JSON for the ledger, and back; content for a model stays unchanged."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai import ToolReturn
from pydantic_ai.messages import ToolReturnContent, UserContent
from pydantic_core import from_json, to_json

from settlemark.hosting import answer_in, own_of, with_answer


@cache
def _content() -> TypeAdapter[Any]:
    return TypeAdapter(ToolReturnContent)


@cache
def _user_content() -> TypeAdapter[Any]:
    return TypeAdapter(str | list[UserContent])


def pack(result: Any) -> Any:
    """Return any result of a tool as JSON for the record.

    >>> own_of(pack(ToolReturn("done", metadata={"took": 3})))
    'done'
    """
    if not isinstance(result, ToolReturn):
        return plain(result)
    told = cast("ToolReturn[Any]", cast("object", result))
    content = None if told.content is None else _user_content().dump_python(told.content, mode="json")
    return with_answer(
        plain(told.return_value), {"content": content, "metadata": plain(told.metadata), "tools": told.tools}
    )


def unpack(recorded: Any) -> Any:
    """Return a tool's result, as its model is told it.

    >>> unpack(pack(ToolReturn("done"))).return_value
    'done'
    """
    own, told = _content().validate_python(own_of(recorded)), answer_in(recorded)
    if told is None:
        return own
    content = None if told["content"] is None else _user_content().validate_python(told["content"])
    return ToolReturn[Any](own, content=content, metadata=told["metadata"], tools=told["tools"])


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    # It has happened even if it cannot be recorded: its text is better than nothing.
    return from_json(to_json(value, bytes_mode="base64", inf_nan_mode="null", fallback=str))


__all__ = ["pack", "plain", "unpack"]
