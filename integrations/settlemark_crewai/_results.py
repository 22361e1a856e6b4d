"""What a tool returned, as the ledger keeps it, and what it makes of it again."""

# Whatever a tool returns comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel


class Reported(Exception):
    """A tool said that it has failed, without raising: for its effect that is a failure."""

    def __init__(self, failure: ToolFailure) -> None:
        super().__init__(failure.as_agent_message())
        self.failure = failure


def checked(result: Any) -> Any:
    """Return what a tool returned.

    Raises:
        Reported: it is the tool's word that it has failed.
    """
    if isinstance(result, ToolFailure):
        raise Reported(result)
    return result


def pack(value: Any) -> Any:
    """Return what a tool returned as JSON, and as the agent would have read it where JSON cannot hold it.

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
    """Return what `pack` was given, as far as the tool's `result_schema` tells what that was."""
    schema = None if tool is None else tool.result_schema
    return value if schema is None or not isinstance(value, Mapping) else schema.model_validate(value)


__all__ = ["Reported", "checked", "pack", "unpack"]
