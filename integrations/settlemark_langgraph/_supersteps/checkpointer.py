"""A checkpointer that commits a superstep's transaction before it stores the superstep's checkpoint."""

# The stock classes leave type parameters open.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from settlemark import Settlement, State, UsageError
from settlemark.hosting import Program, host_of, in_thread, run_async, run_sync
from settlemark.ledger import Book
from settlemark_langgraph._identity import superstep_name
from settlemark_langgraph._private import CHECKPOINTER
from settlemark_langgraph._supersteps.boundaries import boundaries_of

_TRIGGER = "branch:to:"
_COLLECTS = ("join:", "__pregel_tasks", "__start__")


def settled_checkpointer(saver: BaseCheckpointSaver[Any], settlement: Settlement) -> BaseCheckpointSaver[Any]:
    """Return a checkpointer that stores in `saver`, and settles supersteps.

    The effects of a node with `settle="superstep"` settle just before LangGraph stores the checkpoint behind their
    superstep: the commit decision is durable first, then the checkpoint, so a crash in between repeats neither. If a
    process died and its superstep was undone since, the checkpointer withholds the results that LangGraph had stored of
    that superstep: its tasks run again. The checkpointer has the methods that `saver` has.

    Args:
        saver: any checkpointer of LangGraph.
        settlement: the settlement of the graph's nodes, or of its middleware.

    Raises:
        UsageError: `saver` is no checkpointer, or `settlement` no `Settlement`.

    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> settled_checkpointer(InMemorySaver(), Settlement("memory:")).inner
    <langgraph.checkpoint.memory.InMemorySaver object at ...>
    """
    if not isinstance(cast("object", saver), BaseCheckpointSaver):
        raise UsageError(f"{saver!r} is no checkpointer: pass settled_checkpointer(InMemorySaver(), settlement)")
    if not isinstance(cast("object", settlement), Settlement):
        raise UsageError(f"settlement={settlement!r} is no Settlement: pass settled_checkpointer(saver, settlement)")
    if isinstance(saver, SettledCheckpointer):
        saver = saver.inner
    return _class_like(type(saver))(saver, settlement)


def refuse_without_checkpoints(config: Mapping[str, Any], settlement: Settlement) -> None:
    """Return if the graph of this config was compiled with a settled checkpointer of this settlement.

    Raises:
        UsageError: the graph has another checkpointer, or none; nothing was begun.
    """
    saver = config.get("configurable", {}).get(CHECKPOINTER)
    if not isinstance(saver, SettledCheckpointer) or saver.settlement is not settlement:
        raise UsageError(
            'settle="superstep" settles when the checkpoint behind the superstep is stored, and this graph does not'
            " tell of its checkpoints: compile(checkpointer=settled_checkpointer(saver, settlement)) with the same"
            " settlement, and give the thread an id"
        )


class SettledCheckpointer(BaseCheckpointSaver[Any]):
    """The base of the classes that `settled_checkpointer` makes: one for each class of inner checkpointer.

    Attributes:
        inner: stores the checkpoints.
        settlement: settles the supersteps.
    """

    def __init__(self, inner: BaseCheckpointSaver[Any], settlement: Settlement) -> None:
        self.inner = inner
        self.settlement = settlement
        self._boundaries = boundaries_of(settlement)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)  # a copy in the making has no `inner` yet
        return getattr(self.inner, name)

    @property
    def serde(self) -> Any:  # type: ignore[override] # the inner checkpointer's
        """The serializer of the inner checkpointer."""
        return self.inner.serde

    @property
    def config_specs(self) -> list[Any]:
        """The config fields of the inner checkpointer."""
        return self.inner.config_specs

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> BaseCheckpointSaver[Any]:
        """Return a settled checkpointer around the inner one with this allowlist."""
        inner = self.inner.with_allowlist(extra_allowlist)
        return self if inner is self.inner else type(self)(inner, self.settlement)


def _put(
    self: SettledCheckpointer,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> RunnableConfig:
    name = _settled_by(config, metadata)
    if name is not None:
        run_sync(self._boundaries.settle(name))
        run_sync(_finish_left(self, config, config, done=_is_done(checkpoint)))
    return self.inner.put(config, checkpoint, metadata, new_versions)


async def _aput(
    self: SettledCheckpointer,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> RunnableConfig:
    name = _settled_by(config, metadata)
    if name is not None:
        await run_async(self._boundaries.settle(name))
        await run_async(_finish_left(self, config, config, done=_is_done(checkpoint)))
    return await self.inner.aput(config, checkpoint, metadata, new_versions)


def _finish_left(
    self: SettledCheckpointer, config: RunnableConfig, stored: RunnableConfig | None, *, done: bool
) -> Program[None]:
    run, namespace = _thread(config)
    return self._boundaries.finish_left(run, namespace, saver=self.inner, config=stored, done=done)


def _get_tuple(self: SettledCheckpointer, config: RunnableConfig) -> CheckpointTuple | None:
    found = self.inner.get_tuple(config)
    run_sync(_finish_left(self, config, found and found.config, done=_is_over(config, found)))
    return _without_undone(self, found)


async def _aget_tuple(self: SettledCheckpointer, config: RunnableConfig) -> CheckpointTuple | None:
    found = await self.inner.aget_tuple(config)
    await run_async(_finish_left(self, config, found and found.config, done=_is_over(config, found)))
    if found is None or not found.pending_writes:
        return found
    # In a thread: the ledger may not answer for a while, and would block the event loop.
    return await in_thread(_without_undone, self, found)


def _is_over(config: RunnableConfig, found: CheckpointTuple | None) -> bool:
    """Whether `found` is the newest checkpoint of its thread, and says that the graph is done."""
    if found is None or found.pending_writes or found.metadata.get("source") not in ("loop", "update"):
        return False
    return not config.get("configurable", {}).get("checkpoint_id") and _is_done(found.checkpoint)


def _is_done(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint says that no task follows; False where a checkpoint does not tell.

    Each node of a `StateGraph` has a channel that triggers the node, and that is empty once the node has run.
    """
    is_known = any(name.startswith(_TRIGGER) for name in checkpoint["channel_versions"])
    waits = (
        name.startswith(_TRIGGER) or (value and name.startswith(_COLLECTS))
        for name, value in checkpoint["channel_values"].items()
    )
    return is_known and not any(waits)


def _thread(config: RunnableConfig) -> tuple[str | None, str]:
    found: Mapping[str, Any] = config.get("configurable", {})
    thread = found.get("thread_id")
    return None if thread is None else str(thread), found.get("checkpoint_ns") or ""


def _settled_by(config: RunnableConfig, metadata: CheckpointMetadata) -> str | None:
    """Return the name of the superstep that wrote a checkpoint; None for one of an input, an edit, or a fork."""
    if metadata.get("source") != "loop":
        return None
    return _superstep(config)


def _superstep(config: RunnableConfig) -> str | None:
    found: Mapping[str, Any] = config.get("configurable", {})
    thread, checkpoint = found.get("thread_id"), found.get("checkpoint_id")
    if thread is None or not checkpoint:
        return None
    return superstep_name(str(thread), found.get("checkpoint_ns") or "", checkpoint)


def _without_undone(self: SettledCheckpointer, found: CheckpointTuple | None) -> CheckpointTuple | None:
    """Return the checkpoint without the stored results of its tasks if their effects were undone since."""
    if found is None or not found.pending_writes:
        return found
    name = _superstep(found.config)
    if name is None or not host_of(self.settlement).ledger.read(lambda book: _is_undone(book, name)):
        return found
    kept = [write for write in found.pending_writes if write[1] in WRITES_IDX_MAP]
    return found._replace(pending_writes=kept)


def _is_undone(book: Book, name: str) -> bool:
    recorded = book.load(name)
    return recorded is not None and recorded.state is State.ABORTED


_SETTLING: dict[str, Any] = {"put": _put, "aput": _aput, "get_tuple": _get_tuple, "aget_tuple": _aget_tuple}
_FORWARDED = (
    "list", "alist", "delete_thread", "adelete_thread", "delete_for_runs",
    "adelete_for_runs", "copy_thread", "acopy_thread", "prune", "aprune", "get", "aget", "get_next_version",
    "get_delta_channel_history", "aget_delta_channel_history",
)  # fmt: skip # a list of names
_classes: dict[type, type[SettledCheckpointer]] = {}


def _class_like(kind: type[BaseCheckpointSaver[Any]]) -> type[SettledCheckpointer]:
    """Return a class with the methods that `kind` overrides: LangGraph asks a checkpointer's class what it can do."""
    made = _classes.get(kind)
    if made is None:
        names = [*_SETTLING, *_RECORDED_FIRST, *(name for name in _FORWARDED if hasattr(BaseCheckpointSaver, name))]
        own = [name for name in names if getattr(kind, name) is not getattr(BaseCheckpointSaver, name)]
        makers = {name: _RECORDED_FIRST.get(name, _forwarded) for name in own}
        methods = {name: _SETTLING.get(name) or makers[name](kind, name) for name in own}
        made = _classes[kind] = type(f"Settled{kind.__name__}", (SettledCheckpointer,), methods)
    return made


def _recorded_first(kind: type[BaseCheckpointSaver[Any]], name: str) -> Any:
    def keep(self: SettledCheckpointer, config: RunnableConfig, *given: Any, **named: Any) -> Any:
        run_sync(self._boundaries.record(_run(config)))
        return getattr(self.inner, name)(config, *given, **named)

    return _like(keep, kind, name)


def _arecorded_first(kind: type[BaseCheckpointSaver[Any]], name: str) -> Any:
    async def keep(self: SettledCheckpointer, config: RunnableConfig, *given: Any, **named: Any) -> Any:
        await run_async(self._boundaries.record(_run(config)))
        return await getattr(self.inner, name)(config, *given, **named)

    return _like(keep, kind, name)


_RECORDED_FIRST = {"put_writes": _recorded_first, "aput_writes": _arecorded_first}


def _run(config: RunnableConfig) -> str:
    return str(config.get("configurable", {}).get("thread_id"))


def _forwarded(kind: type[BaseCheckpointSaver[Any]], name: str) -> Any:
    def forward(self: SettledCheckpointer, *given: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(*given, **named)

    return _like(forward, kind, name)


def _like(method: Any, kind: type[BaseCheckpointSaver[Any]], name: str) -> Any:
    method.__name__ = name
    # LangGraph reads a method's signature to see which arguments the method takes.
    method.__signature__ = inspect.signature(getattr(kind, name))
    return method


__all__ = ["SettledCheckpointer", "settled_checkpointer"]
