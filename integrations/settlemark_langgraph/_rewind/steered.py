"""A thread that can be steered: its graph and its world go back together.

The graph is run a superstep at a time. Between two, where its checkpoint is stored, what was said to the thread is
taken: a message that is in conflict with nothing is put into the state, for the next call of the model. For one that
is, the thread is forked at the checkpoint from which the earliest decision in conflict was made, all effects after it
are undone, and the message is put into the fork.

What is in the state is known by its id. So a message that was acknowledged by a process that ended before its graph was
told is put there at the next boundary, and no message is there twice.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command, StateSnapshot

from settlemark import Settlement, Steering, UsageError
from settlemark.hosting import Act, Program, hear, host_of, run_async, run_sync
from settlemark_langgraph._rewind.history import History, Place
from settlemark_langgraph._rewind.rewind import Asked, Asynchronous, Graph, Synchronous, Thread, ask, read

_MOST_PARENTS = 10_000


def steered(
    graph: Graph,
    input: Any,  # noqa: A002 - as `invoke` has it
    config: RunnableConfig,
    settlement: Settlement,
    *,
    messages: str = "messages",
) -> Any:
    """Run a thread as `graph.invoke(input, config)` does, and hear what is said to it: see `Settlement.steer`.

    Between two supersteps what was said to the thread (its id is the run) is taken. It becomes a `HumanMessage` in the
    state, for the next call of the model. For a revision or a retraction that is in conflict with a decision, world and
    checkpoint go back together first: the thread is forked where the model was asked for the earliest decision in
    conflict, and what was done from there on is undone, the newest first. What could not be undone is told with it.

    A thread that is paused (`Settlement.pause`) raises `Paused` between two supersteps; called again with `None` as its
    input, once somebody has gone on with it, it goes on there. It returns, as `invoke` does, where a node asks a
    person, and then hears nothing until it is gone on with.

    Args:
        graph: compiled with a checkpointer; its state has a list of messages with the reducer `add_messages`.
        input: as for `graph.invoke`.
        config: names the thread.
        settlement: the settlement of the graph's tools; not with `settle="run"`, which settles as one.
        messages: the key of the messages in the state.

    Raises:
        UsageError: the graph has no checkpointer, or `config` names no thread; nothing was run.
        Paused: the thread is paused. DeclarationError, WaitTimeout: what is to be undone cannot be undone now; it is
            taken at the next boundary.
    """
    return run_sync(_program(Synchronous(graph), input, config, settlement, messages))


def asteered(
    graph: Graph,
    input: Any,  # noqa: A002 - as `invoke` has it
    config: RunnableConfig,
    settlement: Settlement,
    *,
    messages: str = "messages",
) -> Awaitable[Any]:
    """Do as `steered`, in an event loop."""
    return run_async(_program(Asynchronous(graph), input, config, settlement, messages))


@dataclass
class _Thread:
    """A thread as it is run, and which messages its state has."""

    asked: Asked
    settlement: Settlement
    config: RunnableConfig
    run: str
    messages: str
    told: set[int] = field(default_factory=set[int])

    def boundary(self) -> Program[None]:
        """Take what was said, and put into the state what the next call of the model is to be told."""
        snapshot: StateSnapshot = yield from ask(self.asked.state, self.config)
        where = ", ".join(snapshot.next) or None
        listens = bool(snapshot.next) and _asks_next(self._said_in(snapshot))
        host = host_of(self.settlement)
        done: list[Steering] = yield from hear(host, self.run, where, listens=listens, undo=self._go_back)
        yield from self.tell(done)

    def tell(self, done: list[Steering]) -> Program[None]:
        """Put into the state what was acknowledged, and is not there."""
        if {each.number for each in done} <= self.told:
            return
        snapshot: StateSnapshot = yield from ask(self.asked.state, self.config)
        there = self._said_in(snapshot)
        if not snapshot.next or not _asks_next(there):
            return
        ids = {message.id for message in there}
        new = [HumanMessage(each.words(), id=_id(each)) for each in done if _id(each) not in ids]
        if new:
            yield from self._put(snapshot, new)
        self.told = {each.number for each in done}

    def _put(self, snapshot: StateSnapshot, new: list[HumanMessage]) -> Program[None]:
        """Put messages into the state so that the same nodes come next."""
        before: StateSnapshot | None = snapshot
        for _ in range(_MOST_PARENTS):  # an update, or a fork of one, has what comes next from before it
            if before is None or set(before.next) != set(snapshot.next):
                break
            parent: RunnableConfig | None = before.parent_config
            before = None if parent is None else (yield from ask(self.asked.state, parent))
        trial: Asked = yield from ask(self.asked.copied, snapshot.config)
        for node in (*(() if before is None else before.next), "__start__"):
            if not (yield from self._leads_on(trial, snapshot, new, node)):
                continue
            if (yield from self._leads_on(self.asked, snapshot, new, node)):
                return
            yield from ask(self.asked.fork, snapshot.config)  # a channel of differences has more than one state tells
        raise UsageError(
            f"what was said to {self.run} could not be put into its state so that {', '.join(snapshot.next)} comes"
            " next: put it there with graph.update_state"
        )

    def _leads_on(self, there: Asked, snapshot: StateSnapshot, new: list[HumanMessage], node: str) -> Program[bool]:
        """Put messages into the state as a node would, and return whether the same nodes come next."""
        update = {"config": snapshot.config, "values": {self.messages: new}, "as_node": node}
        config: RunnableConfig = yield Act(there.update, update, None)
        after: StateSnapshot = yield from ask(there.state, config)
        return set(after.next) == set(snapshot.next)

    def _go_back(self, taken: Steering) -> Program[list[str]]:
        """Fork the thread where the model was asked for the decision in conflict, and undo what was done from that on.

        Returns the names of the transactions that the state knows nothing of there, and that stay, or had not ended.
        """
        assert taken.conflict is not None
        stored: list[CheckpointTuple] = yield from ask(self.asked.checkpoints, _thread(self.run))
        root = History.root_of(self.run, stored, taken.conflict.transaction)
        if root is None:
            raise UsageError(
                f"the checkpoint that {taken.conflict.transaction} began from is not stored: nothing was undone; go"
                " back with settlemark_langgraph.rewind, to one that is"
            )
        snapshot: StateSnapshot = yield from ask(self.asked.state, _thread(self.run, root))
        for _ in range(_MOST_PARENTS):
            if _asks_next(self._said_in(snapshot)) or snapshot.parent_config is None:
                break
            snapshot = yield from ask(self.asked.state, snapshot.parent_config)
        note = f"steering {taken.number} of {taken.run}"
        found: Thread = yield from read(self.asked, snapshot.config, self.settlement)
        rewound = [name for name in taken.rewound if found.places.get(name, Place.FOREIGN) is not Place.FOREIGN]
        others = [name for name in found.after if name not in rewound]
        unfinished = [name for name in others if name in found.unfinished]
        yield from found.back([*rewound, *unfinished], by=taken.by, note=note, dry_run=False)
        self.told = set()
        return others

    def _said_in(self, snapshot: StateSnapshot) -> list[AnyMessage]:
        found: list[AnyMessage] = list(snapshot.values.get(self.messages, ())) if snapshot.values else []
        return found


def _asks_next(messages: list[AnyMessage]) -> bool:
    """Whether the next word is the model's: no call that it has issued waits for its answer."""
    answered = {getattr(message, "tool_call_id", None) for message in messages}
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    return last is None or all(call["id"] in answered for call in last.tool_calls)


def _id(said: Steering) -> str:
    return f"steering-{said.run}-{said.number}"


def _thread(run: str, checkpoint: str | None = None) -> RunnableConfig:
    named = {} if checkpoint is None else {"checkpoint_id": checkpoint, "checkpoint_ns": ""}
    return {"configurable": {"thread_id": run, **named}}


def _program(
    asked: Asked,
    given: Any,
    config: RunnableConfig,
    settlement: Settlement,
    messages: str,
) -> Program[Any]:
    run = config.get("configurable", {}).get("thread_id")
    if not run:
        raise UsageError("config names no thread: nothing was run; pass {'configurable': {'thread_id': …}}")
    thread = _Thread(asked, settlement, config, str(run), messages)
    first, value = True, None
    while True:
        snapshot: StateSnapshot = yield from ask(asked.state, config)
        # What was said before a thread is given more is heard before that: it would be lost where the thread goes back.
        if not first or given is None or (snapshot.metadata is not None and not isinstance(given, Command)):
            yield from thread.boundary()
            snapshot = yield from ask(asked.state, config)
            if not first and not snapshot.next:
                return value
        value = yield Act(asked.step, {"given": given if first else None, "config": config}, None)
        first = False
        snapshot = yield from ask(asked.state, config)
        if any(task.interrupts for task in snapshot.tasks):
            return value


__all__ = ["asteered", "steered"]
