"""The primer of a thread that is taken up again, put behind the system message of an agent's model."""

# The stock classes leave the type parameters of `ModelRequest` open.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import SystemMessage

from settlemark import Settlement
from settlemark.agents import Primers
from settlemark.hosting import Program
from settlemark_langgraph._identity import identify
from settlemark_langgraph._supersteps.superstep import Superstep


class Primed:
    """What the models of one settlement's threads are told, once for each invocation of a graph."""

    def __init__(self, settlement: Settlement) -> None:
        self._settlement = settlement
        self._invocations: weakref.WeakKeyDictionary[object, Primers] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def text(self, runtime: object, config: Mapping[str, Any]) -> Program[str | None]:
        """Return what the model is told in this invocation; None: its thread is new, or it has none."""
        identity = identify(runtime, config)
        superstep = Superstep.of(config)
        if not identity.resumable or superstep is None:
            return None
        with self._lock:
            primers = self._invocations.get(superstep.invocation)
            if primers is None:
                primers = self._invocations[superstep.invocation] = Primers(self._settlement, identity.run)
        return (yield from primers.text(identity.namespace, 0))


def with_primer(request: ModelRequest[Any], text: str | None) -> ModelRequest[Any]:
    """Return a request with a primer behind its system message; the messages of the state stay as they are."""
    if text is None:
        return request
    said = request.system_message
    if said is None:
        return request.override(system_message=SystemMessage(text))
    blocks: list[Any] = [said.content] if isinstance(said.content, str) else list(said.content)
    content = f"{blocks[0]}\n\n{text}" if isinstance(said.content, str) else [*blocks, {"type": "text", "text": text}]
    return request.override(system_message=said.model_copy(update={"content": content}))


__all__ = ["Primed", "with_primer"]
