"""The AutoGen configurations of this shim: everything but the settlement, of which each process has its own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from autogen_core import ComponentModel
from autogen_core.tools._static_workbench import StaticWorkbenchConfig
from pydantic import BaseModel, Field

from settlemark import PayloadError, Settlement
from settlemark.hosting import json_text

_lock = threading.Lock()
_opened: list[Settlement] = []


class WorkbenchConfig(StaticWorkbenchConfig):
    """A `SettledWorkbench` without its settlement."""

    workbench: ComponentModel
    run: str | None = None
    agent: str | None = None
    effects: dict[str, Any] = Field(default_factory=dict[str, Any])
    approver: str | None = None
    order: str = "turn"
    park: str = "keep"
    may_touch: list[str] = Field(default_factory=list[str])
    unsettled: str = "refuse"


class ClientConfig(BaseModel):
    """A `SettledChatCompletionClient` without its settlement."""

    client: ComponentModel
    run: str | None = None
    agent: str | None = None
    effects: dict[str, Any] = Field(default_factory=dict[str, Any])
    unsettled: str = "refuse"
    primer: bool = False


def settlement_of_process() -> Settlement:
    """Return the settlement of everything loaded from a configuration: one `Settlement()`, at `$SETTLEMARK_URL`."""
    with _lock:
        if not _opened:
            _opened.append(Settlement())
        return _opened[0]


def plain_effects(effects: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return declarations as a configuration holds them.

    Raises:
        NotImplementedError: they contain functions, which a configuration cannot hold.

    >>> plain_effects({"search": "read"})
    {'search': 'read'}
    """
    found = dict(effects or {})
    try:
        json_text.check(found)
    except PayloadError as error:
        raise NotImplementedError(
            f"effects= has no configuration ({error}): give such tools to settlement.declare(…), and leave them out"
        ) from error
    return found


__all__ = ["ClientConfig", "WorkbenchConfig", "plain_effects", "settlement_of_process"]
