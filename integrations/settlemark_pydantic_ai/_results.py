"""Converts a tool's result to JSON for the ledger, and back; content for a model stays unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai import ToolReturn
from pydantic_ai.messages import ToolReturnContent, UserContent
from pydantic_core import from_json, to_json

_MARK = "settlemark.tool-return"


@cache
def _content() -> TypeAdapter[Any]:
    return TypeAdapter(ToolReturnContent)


@cache
def _user_content() -> TypeAdapter[Any]:
    return TypeAdapter(str | list[UserContent])


def pack(result: Any) -> Any:
    """Return any result of a tool as JSON for the record.

    >>> pack(ToolReturn("done", metadata={"took": 3}))["return_value"]
    'done'
    """
    if not isinstance(result, ToolReturn):
        return _plain(result)
    told = cast("ToolReturn[Any]", cast("object", result))
    content = None if told.content is None else _user_content().dump_python(told.content, mode="json")
    return {
        "kind": _MARK,
        "return_value": _plain(told.return_value),
        "content": content,
        "metadata": _plain(told.metadata),
        "tools": told.tools,
    }


def unpack(recorded: Any) -> Any:
    """Return a tool's result, as its model is told it.

    >>> unpack(pack(ToolReturn("done"))).return_value
    'done'
    """
    if not isinstance(recorded, Mapping):
        return _content().validate_python(recorded)
    found = cast("Mapping[str, Any]", recorded)
    if found.get("kind") != _MARK:
        return _content().validate_python(found)
    content = None if found["content"] is None else _user_content().validate_python(found["content"])
    return ToolReturn[Any](
        _content().validate_python(found["return_value"]),
        content=content,
        metadata=found["metadata"],
        tools=found["tools"],
    )


def _plain(value: Any) -> Any:
    # It has happened even if it cannot be recorded: its text is better than nothing.
    return from_json(to_json(value, bytes_mode="base64", inf_nan_mode="null", fallback=str))


__all__ = ["pack", "unpack"]
