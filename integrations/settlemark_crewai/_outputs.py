"""A task's output, as the ledger keeps it for a crew that is begun again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crewai import Task, TaskOutput
from pydantic import BaseModel


def kept_of(output: TaskOutput) -> dict[str, Any]:
    """Return a task's output as JSON; parts of its messages that JSON cannot hold (images) are left out."""
    model, messages = output.pydantic, [plain(message) for message in output.messages]
    rest = output.model_dump(exclude={"messages", "pydantic"}, mode="json")
    return {**rest, "pydantic": None if model is None else model.model_dump(mode="json"), "messages": messages}


def output_of(kept: dict[str, Any], task: Task) -> TaskOutput:
    """Return the output given to `kept_of`; its model is of the class that the task asks for."""
    found: Any = kept["pydantic"]
    asked = task.output_pydantic or task.response_model
    model: BaseModel | None = None if found is None or asked is None else asked.model_validate(found)
    return TaskOutput.model_validate({**kept, "pydantic": None}).model_copy(update={"pydantic": model})


def plain(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parts that JSON can hold.

    >>> plain({"city": "Ada", "when": object()})
    {'city': 'Ada'}
    """
    return {name: value for name, value in (given or {}).items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


__all__ = ["kept_of", "output_of", "plain"]
