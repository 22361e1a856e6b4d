"""Who a node's invocation is: a name that survives retry, resume and replay, and differs after a fork.

LangGraph keeps `checkpoint_id` and `task_id` through all three and makes new ones for a fork or new
input, while the model's call ids stay the same after a fork: so the task names the transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

CHECKPOINTER = "__pregel_checkpointer"
ROOT = "root"


@dataclass(frozen=True, slots=True)
class Identity:
    """What one invocation of a node is called.

    Attributes:
        run: the thread, else the invocation.
        name: the transaction's name; None outside of a graph, where nothing can come back.
        namespace: of the graph within the thread.
        superstep: what the siblings of one superstep have in common.
        step: the number of the superstep.
        ordinal: sorts them as LangGraph does.
        resumable: a checkpointer can bring it back in another invocation.
    """

    run: str
    name: str | None
    namespace: str
    superstep: str
    step: int
    ordinal: str
    resumable: bool

    def shared_by(self, node: str) -> str:
        """Return the name of the transaction that a node's tasks of this superstep share."""
        return f"{self.superstep}:{node}"


def identify(runtime: object, config: Mapping[str, Any]) -> Identity:
    """Return who this invocation is, from what LangGraph tells its nodes.

    >>> identify(None, {}).name is None
    True
    """
    info = getattr(runtime, "execution_info", None)
    thread, checkpoint, task = (_text(info, name) for name in ("thread_id", "checkpoint_id", "task_id"))
    namespace = (_text(info, "checkpoint_ns") or "").rpartition("|")[0] or ROOT
    run = thread or _text(info, "run_id") or checkpoint or uuid.uuid4().hex
    superstep = superstep_name(run, namespace, checkpoint)
    step = _inside(config, "metadata").get("langgraph_step")
    return Identity(
        run=run,
        name=f"{superstep}:{task}" if checkpoint and task else None,
        namespace=namespace,
        superstep=superstep,
        step=step if isinstance(step, int) else 0,
        ordinal=path_text(_inside(config, "metadata").get("langgraph_path")),
        resumable=thread is not None and _inside(config, "configurable").get(CHECKPOINTER) is not None,
    )


def superstep_name(run: str, namespace: str, checkpoint: str | None) -> str:
    """Return what the tasks that run on one checkpoint have in common.

    >>> superstep_name("trip-42", "", "1f0")
    'trip-42/root:1f0'
    """
    return f"{run}/{namespace or ROOT}:{checkpoint}"


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
