"""A graph over a copy of one state of a thread, in memory: what an update leads to is tried there first.

Tried in the thread itself, an update that leads elsewhere would be the newest state until the next one: a process that
died in between would leave the thread to go on from there.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel


def copy_of(
    graph: Pregel[Any, Any, Any, Any], saver: BaseCheckpointSaver[Any], stored: CheckpointTuple
) -> Pregel[Any, Any, Any, Any]:
    """Return the graph over a copy of what its checkpointer has stored under one checkpoint, and of nothing before."""
    memory = InMemorySaver(serde=saver.serde)
    found: dict[str, Any] = stored.config.get("configurable", {})
    thread: Any = {"thread_id": found["thread_id"], "checkpoint_ns": found.get("checkpoint_ns", "")}
    versions = stored.checkpoint["channel_versions"]
    config = memory.put({"configurable": thread}, stored.checkpoint, stored.metadata, versions)
    for task, writes in groupby(stored.pending_writes or (), key=lambda write: write[0]):
        memory.put_writes(config, [(channel, value) for _, channel, value in writes], task)
    return graph.copy({"checkpointer": memory})


__all__ = ["copy_of"]
