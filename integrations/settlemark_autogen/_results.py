"""Converts a tool's result: for AutoGen's answers, the ledger and undo handlers."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from autogen_core.tools import TextResultContent, ToolResult
from pydantic import BaseModel

from settlemark import PayloadError
from settlemark.hosting import answer_in, json_text, with_answer


@dataclass(slots=True)
class Seen:
    """What a tool itself returned or raised, before a workbench turned it into text.

    Attributes:
        returned: it has returned.
        value: its result.
        error: its exception, or None.
    """

    returned: bool = False
    value: Any = None
    error: BaseException | None = None


class Answered(Exception):
    """A workbench answered with an error. Attribute `result`: the answer."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.to_text())
        self.result = result


def text_result(name: str, text: str, *, is_error: bool = False) -> ToolResult:
    """Return an answer of this text.

    >>> text_result("book", "booked").to_text()
    'booked'
    """
    return ToolResult(name=name, result=[TextResultContent(content=text)], is_error=is_error)


def packed(result: ToolResult, seen: Seen | None = None) -> Any:
    """Return an answer as the record keeps it, from which `unpacked` makes an equal one.

    It is the tool's own result, for its undo, and the answer beside it unless that follows from it. Where nobody saw
    the result itself it is read back from the tool's text, if that is JSON, or what Python writes of plain data.

    >>> packed(text_result("book", "R7")), packed(text_result("book", "{'id': 'R7'}"))["$own"]
    ('R7', {'id': 'R7'})
    """
    value: Any = _plain(seen.value) if seen is not None and seen.returned else _said(result)
    if not _has_fields(value) and text_result(result.name, str(value)) == result:
        return value
    return with_answer(value, result.model_dump(mode="json"))


def unpacked(value: Any, name: str) -> ToolResult:
    """Return the answer given to `packed`; a release handler's result is turned into an answer.

    >>> unpacked(packed(text_result("book", '{"id": "R7"}')), "book").to_text()
    '{"id": "R7"}'
    """
    whole = answer_in(value)
    return text_result(name, str(cast("object", value))) if whole is None else ToolResult.model_validate(whole)


def _has_fields(value: Any) -> bool:
    """Whether it contains mappings: the ledger does not keep their order, which their text shows."""
    if isinstance(value, list | tuple):
        return any(_has_fields(item) for item in cast("list[Any]", value))
    return isinstance(value, Mapping)


def _plain(value: Any) -> Any:
    found = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    try:
        json_text.check(found)
    except PayloadError:
        return str(found)
    return found


def _said(result: ToolResult) -> Any:
    text = "\n".join(part.content for part in result.result if isinstance(part, TextResultContent))
    with suppress(ValueError):
        return _plain(json.loads(text))
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        found: object = ast.literal_eval(text)
        if isinstance(found, dict | list | tuple) and str(cast("object", found)) == text:
            return _plain(found)
    return text


__all__ = ["Answered", "Seen", "packed", "text_result", "unpacked"]
