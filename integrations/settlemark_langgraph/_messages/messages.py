"""Messages and commands as the ledger keeps them, and what the model is told."""

# Whatever a tool returns comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolCall,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langgraph.types import Command, Send

from settlemark.agents import Said
from settlemark.hosting import answer_in, with_answer

_PARTS = 2
_COMMAND = ("graph", "update", "resume", "goto")


def answered_in(messages: Any) -> tuple[str, ...]:
    """Return the ids of the calls that are answered in a state's messages.

    >>> answered_in([AIMessage("", tool_calls=[]), ToolMessage("booked", tool_call_id="1")])
    ('1',)
    """
    found = messages if isinstance(messages, list) else ()
    return tuple(message.tool_call_id for message in found if isinstance(message, ToolMessage))


def issued_in(messages: Any) -> tuple[str, ...]:
    """Return the ids of the calls that a model issued last in a state's messages.

    >>> issued_in([AIMessage("", tool_calls=[{"name": "book", "args": {}, "id": "1"}])])
    ('1',)
    """
    for message in reversed(cast("list[object]", messages) if isinstance(messages, list) else []):
        if isinstance(message, AIMessage):
            return tuple(call["id"] for call in message.tool_calls if call["id"])
    return ()


def calls_in(given: Any) -> list[ToolCall]:
    """Return the calls that a task was sent: a list of them, or one with its context.

    >>> calls_in([{"type": "tool_call", "name": "book", "args": {}, "id": "1"}])[0]["name"]
    'book'
    """
    if isinstance(given, dict) and given.get("__type") == "tool_call_with_context":
        return [given["tool_call"]]
    items: list[Any] = given if isinstance(given, list) else []
    return [item for item in items if _is_call(item)]


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "tool_call"


def plain(answer: Any) -> Any:
    """Return what the ledger keeps of an answer: what the tool itself returned, which its handlers get, and the rest.

    LangChain turns a tool's result into a message's text; what it made of plain data is read back. Beside the result of
    anything richer (a command, an artifact) stands the answer whole.

    >>> plain(ToolMessage('{"id": "R7"}', tool_call_id="1")), plain(ToolMessage("done", tool_call_id="1"))
    ({'id': 'R7'}, 'done')
    >>> from settlemark.hosting import own_of
    >>> own_of(plain(ToolMessage("done", artifact={"id": "R7"}, tool_call_id="1")))
    ['done', {'id': 'R7'}]
    >>> own_of(plain(Command(goto="clerk", update={"room": "Ada"})))
    {'update': {'room': 'Ada'}, 'goto': 'clerk'}
    """
    if not _is_answer(answer):
        return pack(answer)
    if isinstance(answer, ToolMessage) and isinstance(answer.content, str) and not _is_rich(answer):
        return _content(answer)
    return with_answer(_own(answer), pack(answer))


def _is_rich(answer: ToolMessage) -> bool:
    return bool(
        answer.artifact is not None
        or answer.additional_kwargs
        or answer.response_metadata
        or answer.id is not None
        or answer.status != "success"
    )


def _own(answer: Any) -> Any:
    """Return what a tool returned, as JSON: of an artifact's message both its parts, of a command its fields."""
    if isinstance(answer, BaseMessage):
        content, artifact = _content(answer), getattr(answer, "artifact", None)
        return content if artifact is None else [content, pack(artifact)]
    if isinstance(answer, Send):
        return {"node": answer.node, "arg": _own(answer.arg)}
    if isinstance(answer, Command):
        return {name: _own(value) for name, value in _fields(answer).items()}
    if isinstance(answer, list | tuple):
        return [_own(item) for item in answer]
    if isinstance(answer, Mapping) and all(isinstance(key, str) for key in answer):
        return {key: _own(item) for key, item in answer.items()}
    return pack(answer)


def _content(message: BaseMessage) -> Any:
    """Return what a message's text was made of, as far as that can be told; else its content as it is."""
    text: Any = message.content
    if not isinstance(text, str):
        return pack(text)
    with suppress(ValueError):
        found = json.loads(text)
        if not isinstance(found, str) and json.dumps(found, ensure_ascii=False) == text:
            return pack(found)
    return text


def answer_from(result: Any, call: ToolCall, *, pair: bool = False) -> Any:
    """Return the answer that `plain` was given, or that LangChain would make of this result.

    `pair` says that the tool returns a content and an artifact.

    >>> call = ToolCall(name="book", args={}, id="1", type="tool_call")
    >>> answer_from({"id": "R7"}, call).content, answer_from(["done", {"id": "R7"}], call, pair=True).artifact
    ('{"id": "R7"}', {'id': 'R7'})
    """
    whole = answer_in(result)
    found = unpack(result if whole is None else whole)
    if _is_answer(found):
        return found
    artifact = None
    if pair and isinstance(found, list | tuple) and len(found) == _PARTS:
        found, artifact = found
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return ToolMessage(text, artifact=artifact, name=call["name"], tool_call_id=call["id"])


def answer_of(result: Any, call: ToolCall, *, pair: bool = False) -> Any:
    """Return a tool's answer; what a release handler returned in the tool's place is made one first.

    >>> answer_of(0.5, ToolCall(name="book", args={}, id="1", type="tool_call")).content
    '0.5'
    """
    return result if _is_answer(result) else answer_from(pack(result), call, pair=pair)


def content_of(answer: ToolMessage) -> Any:
    """Return what a tool that is called with its arguments alone returns: LangChain gives no artifact then."""
    return unpack(_content(answer))


def _is_answer(value: Any) -> bool:
    items = value if isinstance(value, list) and value else [value]
    return isinstance(items[0], BaseMessage | Command)


def pack(value: Any) -> Any:
    """Return what a tool returned as JSON from which `unpack` makes an equal value, as far as JSON can hold it.

    >>> unpack(pack(ToolMessage("done", tool_call_id="1"))).content
    'done'
    """
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, BaseMessage | Send | Command):
        return _pack_object(value)
    if isinstance(value, list | tuple):
        return [pack(item) for item in cast("Iterable[Any]", value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        packed = {key: pack(item) for key, item in cast("Mapping[str, Any]", value).items()}
        return {"$mapping": packed} if _MAKERS.keys() & packed.keys() else packed
    return {"$repr": repr(value)[:10_000]}


def _pack_object(value: BaseMessage | Send | Command[Any]) -> dict[str, Any]:
    if isinstance(value, BaseMessage):
        return {"$message": pack(message_to_dict(value))}
    if isinstance(value, Send):
        return {"$send": [value.node, pack(value.arg)]}
    return {"$command": {name: pack(field) for name, field in _fields(value).items()}}


def _fields(command: Command[Any]) -> dict[str, Any]:
    """Return what a command was given."""
    fields = {name: getattr(command, name) for name in _COMMAND}
    return {name: field for name, field in fields.items() if field is not None and field != ()}


def unpack(value: Any) -> Any:
    """Return what `pack` was given; of what JSON could not hold, its text."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    kind = next(iter(fields), "")
    if kind not in _MAKERS:
        return {key: unpack(item) for key, item in fields.items()}
    inner: Any = fields[kind]
    made = {key: unpack(item) for key, item in inner.items()} if isinstance(inner, dict) else inner
    return _MAKERS[kind](made)


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "$message": lambda fields: messages_from_dict([fields])[0],
    "$send": lambda parts: Send(parts[0], unpack(parts[1])),
    "$command": lambda fields: Command(**fields),
    "$mapping": lambda fields: fields,
    "$repr": str,
}


def messages_in(state: Any, key: str = "messages") -> Any:
    """Return the messages of a state, whatever it is made of.

    >>> messages_in({"messages": ["hello"]}), messages_in(["hello"])
    (['hello'], ['hello'])
    """
    if isinstance(state, list):
        return state
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def told(call: ToolCall, text: str, *, status: str = "error") -> ToolMessage:
    """Return the answer to a call that says what became of it."""
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status)


def failure(output: Any) -> str | None:
    """Return the text of an answer that is an error, or None when it is none."""
    for answer in output if isinstance(output, list) else [output]:
        if isinstance(answer, ToolMessage) and answer.status == "error":
            return answer.text
    return None


def rationale(messages: Any, call_ids: Iterable[str | None]) -> str | None:
    """Return what the model said when it issued these calls, with the message's id."""
    message = _issuing(messages, call_ids)
    if message is None:
        return None
    return " ".join(part for part in (message.text, f"[{message.id}]" if message.id else "") if part) or None


def said(messages: Any, call_ids: Iterable[str | None], tools: Iterable[str]) -> Said:
    """Return what is known of the answer in which a model, offered these tools, issued these calls."""
    message = _issuing(messages, call_ids)
    if message is None:
        return Said(tools=tuple(tools))
    model = message.response_metadata.get("model_name")
    return Said(message.text or None, message.id, model if isinstance(model, str) else None, tuple(tools))


def _issuing(messages: Any, call_ids: Iterable[str | None]) -> AIMessage | None:
    wanted = set(call_ids)
    for message in reversed(messages) if isinstance(messages, list) else ():
        if isinstance(message, AIMessage) and wanted & {call["id"] for call in message.tool_calls}:
            return message
    return None


def left_behind(messages: Any, calls: Iterable[ToolCall]) -> list[str]:
    """Return the tools of the unanswered calls of the same message that are not among these calls.

    >>> book, mail = (ToolCall(name=name, args={}, id=name, type="tool_call") for name in ("book", "mail"))
    >>> left_behind([AIMessage("", tool_calls=[book, mail])], [mail])
    ['book']
    """
    here = {call["id"] for call in calls}
    answered: set[str] = set()
    for message in reversed(messages) if isinstance(messages, list) else ():
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        if isinstance(message, AIMessage) and here & {call["id"] for call in message.tool_calls}:
            return [c["name"] for c in message.tool_calls if c["id"] not in here and c["id"] not in answered]
    return []
