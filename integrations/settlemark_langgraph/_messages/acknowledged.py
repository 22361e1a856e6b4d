"""The mark on an answer that is given before its transaction has settled."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage

_MARK = "settlemark"


def marked(answer: Any, key: str) -> Any:
    """Return an answer that says by which key the record knows what becomes of its call."""
    if not isinstance(answer, ToolMessage):
        return answer
    return answer.model_copy(update={"response_metadata": {**answer.response_metadata, _MARK: key}})


def key_of(message: ToolMessage) -> str | None:
    """Return the key that an answer was marked with, or None.

    >>> key_of(marked(ToolMessage("done", tool_call_id="1"), "trip#1/0"))
    'trip#1/0'
    """
    key = message.response_metadata.get(_MARK)
    return key if isinstance(key, str) else None


def unmarked(message: ToolMessage) -> ToolMessage:
    """Return a message without the mark."""
    metadata = {name: value for name, value in message.response_metadata.items() if name != _MARK}
    return message.model_copy(update={"response_metadata": metadata})


__all__ = ["key_of", "marked", "unmarked"]
