"""Rewinding a thread to an earlier checkpoint, in the world as in its state.

LangGraph's time travel changes a thread's state alone; the effects of its nodes stay. `rewind` undoes these effects
first, newest first, after it has told which of them stay; then it forks the thread at the checkpoint. The fork has a
checkpoint of its own, so all names of transactions from there are new, and their effects run anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from settlemark import Rewind, Settlement, UsageError
from settlemark.hosting import Act, Program, host_of, run_async, run_sync
from settlemark.ledger import RecordedTransaction
from settlemark_langgraph._identity import WHOLE_RUN, superstep_name
from settlemark_langgraph._rewind.history import History, Place
from settlemark_langgraph._rewind.trial import copy_of

if TYPE_CHECKING:
    from rich.console import RenderableType

Graph = Pregel[Any, Any, Any, Any]

_BY = "settlemark_langgraph.rewind"


@dataclass(frozen=True, slots=True)
class ThreadRewind:
    """What a rewind of a thread does, or has done: see `rewind`.

    Attributes:
        world: the effects that are undone, and those that stay.
        checkpoints: the thread's checkpoints that the rewind leaves behind, newest first.
        unplaced: transactions of which the stored checkpoints do not tell whether they descend from the checkpoint, as
            `durability="exit"` stores too few. The rewind does not change them.
        config: the config to continue from the fork with; None for a dry run.
    """

    world: Rewind
    checkpoints: tuple[str, ...]
    unplaced: tuple[str, ...]
    config: RunnableConfig | None

    def __str__(self) -> str:
        """Describe the rewind in sentences."""
        lines = [str(self.world)]
        if self.unplaced:
            lines.append(
                "Left as it is, since the thread's checkpoints do not tell whether it came after:"
                f" {', '.join(self.unplaced)}."
            )
        return "\n".join(lines)

    def __rich__(self) -> RenderableType:
        """Return the rewind as a table for a rich console."""
        return self.world.__rich__()

    def to_json(self) -> dict[str, Any]:
        """Return the rewind as JSON values."""
        configurable = None if self.config is None else self.config.get("configurable", {})
        return {
            "world": self.world.to_json(),
            "checkpoints": list(self.checkpoints),
            "unplaced": list(self.unplaced),
            "config": None if configurable is None else {"configurable": {k: str(v) for k, v in configurable.items()}},
        }


def rewind(
    graph: Graph,
    config: RunnableConfig,
    settlement: Settlement,
    *,
    dry_run: bool = True,
    by: str = _BY,
    note: str = "",
    overwrite: Iterable[str] = (),
) -> ThreadRewind:
    """Rewind a thread to an earlier checkpoint: undo the effects after the checkpoint, then fork the thread there.

    By default `rewind` changes nothing, and returns what it would do. The effects after the checkpoint, those of
    subgraphs too, are undone in reverse order. An effect that cannot be undone, or that others built upon, stays and is
    named: see `Settlement.rewind`. Unfinished transactions are aborted. Then the thread continues from the fork, which
    runs its effects anew. A resume from a checkpoint that was left behind raises `Rewound`.

    Do not run the thread meanwhile. Do not continue from the id of a checkpoint that was left behind: LangGraph would
    fork the thread there, and run effects anew on a state that tells of undone ones.

    Args:
        graph: a graph compiled with a checkpointer.
        config: names the thread and the checkpoint; a snapshot of `graph.get_state_history(…)` has it.
        settlement: the settlement of the graph's tools.
        dry_run: only return what the rewind would do.
        by: who rewinds.
        note: why.
        overwrite: keys of effects to undo in spite of a conflict.

    Raises:
        UsageError: `config` names no checkpoint of a thread of this graph, or one amid a transaction that settles as
            one run. DeclarationError: this process does not know an undo. WaitTimeout: another transaction holds a
            scope. After each of these no committed effect was undone.
    """
    found: ThreadRewind = run_sync(
        rewinding(Synchronous(graph), config, settlement, by, note, overwrite, dry_run=dry_run)
    )
    return found


def arewind(
    graph: Graph,
    config: RunnableConfig,
    settlement: Settlement,
    *,
    dry_run: bool = True,
    by: str = _BY,
    note: str = "",
    overwrite: Iterable[str] = (),
) -> Awaitable[ThreadRewind]:
    """Do as `rewind`, in an event loop."""
    return run_async(rewinding(Asynchronous(graph), config, settlement, by, note, overwrite, dry_run=dry_run))


class Synchronous:
    """Reads and forks a thread from synchronous code."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._saver = _saver_of(graph)

    def checkpoints(self, config: RunnableConfig) -> list[CheckpointTuple]:
        return list(self._saver.list(config))

    def state(self, config: RunnableConfig) -> StateSnapshot:
        return self._graph.get_state(config, subgraphs=True)

    def fork(self, config: RunnableConfig) -> RunnableConfig:
        return self._graph.update_state(config, None, as_node="__copy__")

    def update(self, config: RunnableConfig, values: Any, as_node: str) -> RunnableConfig:
        return self._graph.update_state(config, values, as_node=as_node)

    def copied(self, config: RunnableConfig) -> Synchronous:
        """Return the same over a copy of one state, in memory."""
        stored = self._saver.get_tuple(config)
        assert stored is not None, "it has just been read"
        return Synchronous(copy_of(self._graph, self._saver, stored))

    def step(self, given: Any, config: RunnableConfig) -> Any:
        graph: Any = self._graph
        return graph.invoke(given, config, interrupt_after="*")


class Asynchronous:
    """Reads and forks a thread in an event loop."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._saver = _saver_of(graph)

    async def checkpoints(self, config: RunnableConfig) -> list[CheckpointTuple]:
        return [found async for found in self._saver.alist(config)]

    async def state(self, config: RunnableConfig) -> StateSnapshot:
        return await self._graph.aget_state(config, subgraphs=True)

    async def fork(self, config: RunnableConfig) -> RunnableConfig:
        return await self._graph.aupdate_state(config, None, as_node="__copy__")

    async def update(self, config: RunnableConfig, values: Any, as_node: str) -> RunnableConfig:
        return await self._graph.aupdate_state(config, values, as_node=as_node)

    async def copied(self, config: RunnableConfig) -> Asynchronous:
        """Return the same over a copy of one state, in memory."""
        stored = await self._saver.aget_tuple(config)
        assert stored is not None, "it has just been read"
        return Asynchronous(copy_of(self._graph, self._saver, stored))

    async def step(self, given: Any, config: RunnableConfig) -> Any:
        graph: Any = self._graph
        return await graph.ainvoke(given, config, interrupt_after="*")


Asked = Synchronous | Asynchronous
"""A graph whose thread is read, forked and run, from synchronous code or in an event loop."""


def rewinding(
    asked: Asked,
    config: RunnableConfig,
    settlement: Settlement,
    by: str,
    note: str,
    overwrite: Iterable[str],
    *,
    dry_run: bool,
) -> Program[ThreadRewind]:
    """Undo the effects after a checkpoint, then fork the thread there: see `rewind`."""
    found: Thread = yield from read(asked, config, settlement)
    return (yield from found.back(found.after, by=by, note=note, dry_run=dry_run, overwrite=overwrite))


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread and its record, as seen from one of its checkpoints.

    Attributes:
        places: where each of its transactions is, by name.
        unfinished: the names of those that have not ended.
    """

    asked: Asked
    settlement: Settlement
    history: History
    places: dict[str, Place]
    unfinished: frozenset[str]

    @property
    def after(self) -> list[str]:
        """The names of the transactions that began after the checkpoint."""
        return [name for name, place in self.places.items() if place is Place.AFTER]

    def back(
        self, names: list[str], *, by: str, note: str, dry_run: bool, overwrite: Iterable[str] = ()
    ) -> Program[ThreadRewind]:
        """Undo what these transactions have done, then fork the thread at the checkpoint."""
        history, barred = self.history, dict[str, str]()
        for leaf in () if dry_run else history.ends:
            state: StateSnapshot = yield from ask(self.asked.state, history.config(leaf))
            barred.update(dict.fromkeys(_to_come(history.thread, state), history.thread))
        world: Rewind = yield from host_of(self.settlement).rewinding(
            names, by=by, note=note, dry_run=dry_run, overwrite=overwrite, barred=barred
        )
        fork: RunnableConfig | None = None
        if not dry_run:
            fork = yield from ask(self.asked.fork, history.config(history.target))
        unplaced = (name for name, place in self.places.items() if place is Place.UNKNOWN and name not in names)
        return ThreadRewind(world, history.gone, tuple(unplaced), fork)


def read(asked: Asked, config: RunnableConfig, settlement: Settlement) -> Program[Thread]:
    """Return a thread and its record, as seen from the checkpoint that a config names.

    Raises:
        UsageError: it names none, or one amid a transaction that settles as one run.
    """
    thread, target = _named(config)
    stored = yield from ask(asked.checkpoints, {"configurable": {"thread_id": thread}})
    history = History.of(thread, stored, target)
    recorded: list[RecordedTransaction]
    recorded, unfinished = yield from host_of(settlement).of_run(thread)
    names = dict.fromkeys((*(one.row.name for one in recorded), *unfinished))
    places = {name: history.place(name) for name in names}
    for name, place in places.items():
        if place is Place.BEFORE:
            history.refuse_a_run_that_spans_it(name, recorded)
    return Thread(asked, settlement, history, places, frozenset(unfinished))


def ask(function: Callable[[RunnableConfig], Any], config: RunnableConfig) -> Program[Any]:
    """Ask a graph about a config."""
    return (yield Act(function, {"config": config}, None))


def _named(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread and the checkpoint that a config names."""
    configurable = config.get("configurable", {})
    thread, checkpoint = configurable.get("thread_id"), configurable.get("checkpoint_id")
    if not thread or not checkpoint:
        raise UsageError(
            "config names no checkpoint to go back to: nothing was undone; pass the config of one of"
            " graph.get_state_history({'configurable': {'thread_id': …}})"
        )
    if configurable.get("checkpoint_ns"):
        raise UsageError(
            f"{checkpoint} is a checkpoint of the subgraph {configurable['checkpoint_ns']}: nothing was undone; go back"
            " to one of the whole graph"
        )
    return str(thread), str(checkpoint)


def _saver_of(graph: Graph) -> BaseCheckpointSaver[Any]:
    saver: Any = getattr(graph, "checkpointer", None)
    if not isinstance(cast("object", saver), BaseCheckpointSaver):
        raise UsageError(
            "this graph has no checkpointer of its own, so there is nothing to go back to: compile(checkpointer=…)"
        )
    found: BaseCheckpointSaver[Any] = saver
    return found


def _to_come(thread: str, state: StateSnapshot | None) -> Iterable[str]:
    """Yield the names of the transactions that a resume from this state would begin, in subgraphs too."""
    if state is None or not state.tasks:
        return
    configurable = state.config.get("configurable", {})
    superstep = superstep_name(thread, configurable.get("checkpoint_ns", ""), configurable.get("checkpoint_id"))
    yield superstep
    yield f"{superstep}{WHOLE_RUN}"
    for task in state.tasks:
        yield f"{superstep}:{task.id}"
        yield f"{superstep}:{task.name}"
        if isinstance(task.state, StateSnapshot):
            yield from _to_come(thread, task.state)


__all__ = [
    "Asked",
    "Asynchronous",
    "Graph",
    "Synchronous",
    "Thread",
    "ThreadRewind",
    "arewind",
    "ask",
    "read",
    "rewind",
    "rewinding",
]
