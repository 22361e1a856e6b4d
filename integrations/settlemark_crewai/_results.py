"""Converts a tool's result for the ledger, and back."""

# A tool may return anything: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel


class Reported(Exception):
    """A tool reported a failure without raising: for its effect that is a failure."""

    def __init__(self, failure: ToolFailure) -> None:
        super().__init__(failure.as_agent_message())
        self.failure = failure


def checked(result: Any) -> Any:
    """Return a tool's result.

    Raises:
        Reported: the result is the tool's own report of a failure.
    """
    if isinstance(result, ToolFailure):
        raise Reported(result)
    return result


def pack(value: Any) -> Any:
    """Return a tool's result as JSON, and as the agent would have read it where JSON cannot hold it.

    >>> pack({"id": 7, "nights": (1, 2)})
    {'id': 7, 'nights': [1, 2]}
    """
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list | tuple):
        return [pack(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: pack(item) for key, item in value.items()}
    return str(value)


def unpack(value: Any, tool: BaseTool | None) -> Any:
    """Return the result given to `pack`, as far as the tool's `result_schema` describes it."""
    schema = None if tool is None else tool.result_schema
    return value if schema is None or not isinstance(value, Mapping) else schema.model_validate(value)


__all__ = ["Reported", "checked", "pack", "unpack"]
