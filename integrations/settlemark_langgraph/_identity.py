"""Who a node's invocation is: a name that survives retry, resume and replay, and differs after a fork.

LangGraph keeps `checkpoint_id` and `task_id` through all three and makes new ones for a fork or new
input, while the model's call ids stay the same after a fork: so the task names the transaction.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from settlemark_langgraph._private import CHECKPOINTER

ROOT = "root"
WHOLE_RUN = "/run"
"""Ends the name of a transaction that all of a run shares."""
_PLACED = re.compile(r"[^:|/]+:([0-9a-f-]+)[:|/]")


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
        agent: the name of the agent, as it was given to `create_agent`; None: it has none.
    """

    run: str
    name: str | None
    namespace: str
    superstep: str
    step: int
    ordinal: str
    resumable: bool
    agent: str | None = None

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
    told = _inside(config, "metadata")
    step, agent = told.get("langgraph_step"), told.get("lc_agent_name")
    return Identity(
        run=run,
        name=f"{superstep}:{task}" if checkpoint and task else None,
        namespace=namespace,
        superstep=superstep,
        step=step if isinstance(step, int) else 0,
        ordinal=path_text(_inside(config, "metadata").get("langgraph_path")),
        resumable=thread is not None and _inside(config, "configurable").get(CHECKPOINTER) is not None,
        agent=agent if isinstance(agent, str) and agent else None,
    )


def superstep_name(run: str, namespace: str, checkpoint: str | None) -> str:
    """Return what the tasks that run on one checkpoint have in common.

    >>> superstep_name("trip-42", "", "1f0")
    'trip-42/root:1f0'
    """
    return f"{run}/{namespace or ROOT}:{checkpoint}"


def is_left_behind(name: str, identity: Identity, root: str, tasks: Collection[str]) -> bool:
    """Whether a turn of this name is of none of the tasks by which a thread goes on.

    `root` is the checkpoint that the outermost graph runs on, and `tasks` are the ids of its tasks.

    >>> here = Identity("trip-42", None, "root", "trip-42/root:1f0", 1, "", resumable=True)
    >>> [is_left_behind(f"trip-42/{name}", here, "1f0", {"7a1"}) for name in ("root:1f0:5b2", "sub:7a1:1f3:5b3")]
    [False, False]
    >>> [is_left_behind(f"trip-42/{name}", here, "1f0", {"7a1"}) for name in ("root:1ef:5b1", "sub:7a0:1f2:5b3", "own")]
    [True, True, False]
    """
    if name.startswith(f"{identity.run}/{identity.namespace}:"):
        return not name.startswith(identity.superstep)
    found = _PLACED.match(name.removeprefix(f"{identity.run}/"))
    return found is not None and found[1] != root and found[1] not in tasks


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
