"""Chat messages, in the formats of OpenAI, Anthropic, and LangChain (three)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeGuard, cast

Role = Literal["assistant", "tool", "other"]

_ROLES: dict[str, Role] = {
    "assistant": "assistant", "ai": "assistant", "aimessage": "assistant", "aimessagechunk": "assistant",
    "model": "assistant",
    "tool": "tool", "function": "tool", "toolmessage": "tool", "functionmessage": "tool",
    "user": "other", "human": "other", "system": "other", "developer": "other", "humanmessage": "other",
    "systemmessage": "other", "chatmessage": "other", "chat": "other", "remove": "other", "removemessage": "other",
}  # fmt: skip # a table of words
_TIMES = ("timestamp", "created_at", "created", "time", "ts", "at", "date")
_MILLISECONDS = 1e11  # a larger number of seconds would be in the far future


class ToolCall(NamedTuple):
    """A call that a model issued: its id, the tool's name, and the arguments."""

    id: str
    tool: str
    arguments: Mapping[str, Any]


class Result(NamedTuple):
    """A call's result: the call's id or None, the tool's name or None, the answer, whether it failed."""

    call: str | None
    tool: str | None
    content: Any
    failed: bool


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a chat.

    Attributes:
        role: the author's role.
        calls: the calls that the model issued in it, in order.
        results: the results of calls that it holds.
        id: its own, if it has one.
        name: the agent's, if given.
        time: when it was written, in seconds.
    """

    role: Role
    calls: tuple[ToolCall, ...] = ()
    results: tuple[Result, ...] = ()
    id: str | None = None
    name: str | None = None
    time: float | None = None


def is_mapping(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether this is a JSON object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether this is a JSON array."""
    return isinstance(value, list)


def message(value: Any) -> Message | None:
    """Parse a message from a JSON value; None if it is none.

    >>> message({"role": "tool", "tool_call_id": "7", "content": "ok"}).results
    (Result(call='7', tool=None, content='ok', failed=False),)
    >>> message({"type": "ai", "data": {"content": "", "tool_calls": [{"id": "7", "name": "look", "args": {}}]}}).calls
    (ToolCall(id='7', tool='look', arguments={}),)
    """
    if not is_mapping(value):
        return None
    around, inner = value, _unwrapped(value)
    kind = inner.get("role") or inner.get("type")
    role = _ROLES.get(kind.lower()) if isinstance(kind, str) else None
    if role is None or not (inner.keys() & {"content", "tool_calls", "function_call", "parts"} or kind == "remove"):
        return None
    calls = tuple(_calls(inner)) if role == "assistant" else ()
    name = _first(inner, around, "name", "agent", "source")
    return Message(
        role,
        calls,
        tuple(_results(inner, role)),
        _text(inner.get("id")),
        name if role == "assistant" else None,
        time_of(inner) or time_of(around),
    )


def messages_in(value: Any, depth: int = 4) -> Iterator[Message]:
    """Yield the messages inside a value, such as an update of a state."""
    found = message(value)
    if found is not None:
        yield found
    elif depth and is_list(value):
        for item in value:
            yield from messages_in(item, depth - 1)
    elif depth and is_mapping(value):
        for item in value.values():
            if isinstance(item, dict | list):
                yield from messages_in(item, depth - 1)


def seconds(value: Any) -> float | None:
    """Return a time in seconds, in whatever format, or None.

    >>> seconds("1970-01-01T00:00:02Z"), seconds(1_700_000_000_000), seconds("2.5"), seconds("soon")
    (2.0, 1700000000.0, 2.5, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value / 1000 if value > _MILLISECONDS else float(value)
    if not isinstance(value, str):
        return None
    try:
        return seconds(float(value))
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def time_of(value: dict[str, Any]) -> float | None:
    """Return when something was written, under any of the usual field names."""
    places = [value, *(value[key] for key in ("metadata", "response_metadata", "additional_kwargs") if key in value)]
    for place in places:
        for name in _TIMES if is_mapping(place) else ():
            found = seconds(place.get(name))
            if found is not None:
                return found
    return None


def unserialized(value: Any) -> Any:
    """Undo `langchain_core.load.dumps`: return {"lc": 1, "kwargs": {…}} as its kwargs."""
    if is_mapping(value) and value.get("lc") == 1 and is_mapping(value.get("kwargs")):
        names = value.get("id") or [""]
        return {"type": str(names[-1]), **value["kwargs"]}
    return value


def unserialized_within(value: Any) -> Any:
    """Apply `unserialized` to a value and everything inside."""
    value = unserialized(value)
    if is_mapping(value):
        return {key: unserialized_within(item) for key, item in value.items()}
    return [unserialized_within(item) for item in value] if is_list(value) else value


def _unwrapped(value: dict[str, Any]) -> dict[str, Any]:
    value = unserialized(value)
    if is_list(value.get("choices")) and value["choices"] and is_mapping(value["choices"][0]):
        value = value["choices"][0]
    for key in ("message", "data"):
        inner = unserialized(value.get(key))
        if is_mapping(inner) and "content" not in value and (inner.keys() & {"content", "tool_calls", "role"}):
            return {"type": value.get("type"), **inner}
    return value


def _calls(value: dict[str, Any]) -> Iterator[ToolCall]:
    listed = value.get("tool_calls") or _extra(value, "tool_calls")
    for place, each in enumerate(listed if is_list(listed) else ()):
        inner = each.get("function", each) if is_mapping(each) else None
        if is_mapping(inner) and isinstance(inner.get("name"), str):
            given = inner.get("args", inner.get("arguments", inner.get("input")))
            yield ToolCall(str(each.get("id") or f"{inner['name']} {place}"), inner["name"], arguments(given))
    single = value.get("function_call") or _extra(value, "function_call")
    if is_mapping(single) and isinstance(single.get("name"), str):
        yield ToolCall(single["name"], single["name"], arguments(single.get("arguments")))
    blocks = value.get("content") if not listed else ()
    for block in blocks if is_list(blocks) else ():
        if is_mapping(block) and block.get("type") == "tool_use" and isinstance(block.get("name"), str):
            yield ToolCall(str(block.get("id") or block["name"]), block["name"], arguments(block.get("input")))


def _results(value: dict[str, Any], role: Role) -> Iterator[Result]:
    content = value.get("content")
    if role == "tool":
        failed = value.get("status") == "error" or value.get("is_error") is True
        yield Result(_text(value.get("tool_call_id")), _text(value.get("name")), _said(content), failed)
        return
    for block in content if is_list(content) else ():
        if is_mapping(block) and block.get("type") == "tool_result":
            yield Result(
                _text(block.get("tool_use_id")), None, _said(block.get("content")), block.get("is_error") is True
            )


def _said(content: Any) -> Any:
    """Return a tool's answer: of content in blocks of text, the text."""
    if is_list(content) and content and all(is_mapping(block) and block.get("type") == "text" for block in content):
        return "".join(str(cast("dict[str, Any]", block).get("text", "")) for block in content)
    return content


def arguments(given: Any) -> dict[str, Any]:
    """Return a call's arguments by name; anything but a JSON object becomes the argument "arguments"."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {"arguments": given}
    if given is None:
        return {}
    return given if is_mapping(given) else {"arguments": given}


def _extra(value: dict[str, Any], name: str) -> Any:
    extra = value.get("additional_kwargs")
    return extra.get(name) if is_mapping(extra) else None


def _first(inner: dict[str, Any], around: dict[str, Any], *names: str) -> str | None:
    for name in names:
        for place in (inner, around):
            found = _text(place.get(name))
            if found is not None:
                return found
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


__all__ = [
    "Message",
    "Result",
    "arguments",
    "is_list",
    "is_mapping",
    "message",
    "messages_in",
    "seconds",
    "time_of",
    "unserialized",
    "unserialized_within",
]
