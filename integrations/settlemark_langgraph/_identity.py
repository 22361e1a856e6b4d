"""Who a node's invocation is: a name that survives retry, resume and replay, and differs after a fork.

LangGraph keeps `checkpoint_id` and `task_id` through all three and makes new ones for a fork or new
input, while the model's call ids stay the same after a fork: so the task names the transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

_CHECKPOINTER = "__pregel_checkpointer"


@dataclass(frozen=True, slots=True)
class Identity:
    """What one invocation of a node is called.

    Attributes:
        run: the thread, else the invocation.
        name: the transaction's name; None outside of a graph, where nothing can come back.
        superstep: what the siblings of one superstep have in common.
        ordinal: sorts them as LangGraph does.
        resumable: a checkpointer can bring it back in another invocation.
    """

    run: str
    name: str | None
    superstep: str
    ordinal: str
    resumable: bool


def identify(runtime: object, config: Mapping[str, Any]) -> Identity:
    """Return who this invocation is, from what LangGraph tells its nodes.

    >>> identify(None, {}).name is None
    True
    """
    info = getattr(runtime, "execution_info", None)
    thread, checkpoint, task = (_text(info, name) for name in ("thread_id", "checkpoint_id", "task_id"))
    namespace = (_text(info, "checkpoint_ns") or "").rpartition("|")[0] or "root"
    run = thread or _text(info, "run_id") or checkpoint or uuid.uuid4().hex
    superstep = f"{run}/{namespace}:{checkpoint}"
    return Identity(
        run=run,
        name=f"{superstep}:{task}" if checkpoint and task else None,
        superstep=superstep,
        ordinal=path_text(_inside(config, "metadata").get("langgraph_path")),
        resumable=thread is not None and _inside(config, "configurable").get(_CHECKPOINTER) is not None,
    )


def _text(info: object, name: str) -> str | None:
    value = getattr(info, name, None)
    return value if isinstance(value, str) and value else None


def _inside(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def path_text(path: object) -> str:
    """Return a task's path as text that sorts as LangGraph sorts the writes of a superstep.

    >>> path_text(("__pregel_push", 2, False)) < path_text(("__pregel_push", 10, False))
    True
    """
    if isinstance(path, list | tuple):
        return f"~{', '.join(path_text(part) for part in cast('list[object]', path))}"
    return f"{path:010d}" if isinstance(path, int) else "" if path is None else str(path)
