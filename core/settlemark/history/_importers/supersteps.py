"""Nodes of a graph that runs in supersteps, as operations with their inputs and outputs.

Nodes of one superstep see the state that the superstep before has left, and none sees another's output. Outputs become
visible at the superstep's end, all at once, or not at all: when a node fails, or two write a channel that takes one
write, the run ends there (fail-stop). So operations commit at the end of their superstep, in the order in which their
nodes ended; both clocks are logged, that of commits and that of supersteps.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from settlemark.history._recording.recorder import Operation, Recorder
from settlemark.history._recording.values import compact

_MISSING: Any = object()
OUTSIDE = "input"
"""The writer of what no node writes: the graph's input, and edits of its state."""


@dataclass(eq=False)
class _Task:
    node: str
    operation: Operation
    writes: dict[str, Any] | None = None
    ended: bool = False
    failed: bool = False


@dataclass(eq=False)
class _Graph:
    """One thread of a graph, or one run if it has no thread."""

    prefix: str
    run: Hashable
    name: str | None
    keeps_state: bool
    step: int = -1
    since: int = 0
    tasks: dict[Hashable, _Task] = field(default_factory=dict[Hashable, "_Task"])
    order: list[Hashable] = field(default_factory=list[Hashable])
    stands: dict[str, Any] = field(default_factory=dict[str, Any])
    writers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def cell(self, channel: str) -> str:
        return f"{self.prefix}{channel}"

    @property
    def complete(self) -> bool:
        return all(known.ended for known in self.tasks.values())

    def forget_a_failed(self, node: str) -> None:
        for task, known in self.tasks.items():
            if known.failed and known.node == node:
                self.forget(task)
                return

    def forget(self, task: Hashable) -> None:
        known = self.tasks.pop(task, None)
        if known is not None:
            known.operation.drop()
            self.order[:] = [other for other in self.order if other != task]


class Supersteps:
    """Records the nodes of graphs as they begin and end. Safe for threads.

    A channel's value after a superstep is read from the next superstep's input: a reducer combines the writes.

    >>> recorder = Recorder()
    >>> steps = Supersteps(recorder)
    >>> for node in ("plan", "book"):
    ...     steps.began(node, graph="g", run="r", node=node, step=1, given={"date": "14 June"})
    >>> steps.ended("plan", {"date": "21 June"})
    >>> steps.ended("book", {"flight": "14 June"})
    >>> steps.over("r")
    >>> [(record.agent, record.read_time, record.write_time, record.write_barrier) for record in recorder.records]
    [('input', 0, 1, None), ('plan', 1, 2, 1), ('book', 1, 3, 1)]
    >>> from settlemark.history import analyze
    >>> analyze(recorder.records)["A1"].witnesses[0].sentence
    "book read date = '14 June' at 1 and committed at 3; in between, at 2, plan wrote '21 June'"
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lock = threading.RLock()
        self._graphs: dict[Hashable, _Graph] = {}
        self._of: dict[Hashable, _Graph] = {}
        self._of_run: dict[Hashable, dict[Hashable, _Graph]] = {}
        self.lost = 0

    def began(
        self,
        task: Hashable,
        *,
        graph: Hashable,
        run: Hashable,
        node: str,
        step: int,
        given: Mapping[str, Any] | None,
        prefix: str = "",
        name: str | None = None,
        keeps_state: bool = False,
    ) -> None:
        """Record that a node began; after a failure in this superstep, its next try.

        Args:
            task: identifies this run of the node.
            graph: the thread, or the run if there is no thread.
            run: the run of the graph: a thread has several.
            node: its name.
            step: the superstep's number.
            given: its input state, by channel; None if the input is no state.
            prefix: goes before the names of the channels.
            name: of the whole, for people.
            keeps_state: the graph keeps its state when its run is over.
        """
        with self._lock:
            found = self._graphs.get(graph)
            if found is None:
                found = self._graphs[graph] = _Graph(prefix, run, name, keeps_state)
            if step != found.step:
                self._flush(found, given, applied=found.run == run or found.complete)
                found.since = -1
            found.step, found.run = step, run
            self._of_run.setdefault(run, {})[graph] = found
            found.forget(task)
            found.forget_a_failed(node)
            reads = {} if given is None else {key: compact(value) for key, value in given.items()}
            news = {
                key: value
                for key, value in reads.items()
                if value is not None and found.stands.get(key, _MISSING) != value
            }
            found.stands |= reads
            if news:
                seeded = self._recorder.seed({found.cell(key): value for key, value in news.items()}, agent=OUTSIDE)
                found.writers |= {key: [seeded.id] for key in news if seeded is not None}
            operation = self._recorder.begin(
                node,
                {found.cell(key): value for key, value in reads.items()},
                barrier=max(step - 1, 0),
                name=found.name,
            )
            if news or found.since < 0:
                found.since = operation.began
            operation.began = found.since  # all nodes of a superstep see the state that the one before has left
            operation.preds = list(dict.fromkeys(pred for key in reads for pred in found.writers.get(key, ())))
            found.tasks[task] = _Task(node, operation)
            self._of[task] = found

    def ended(self, task: Hashable, writes: Mapping[str, Any] | None) -> None:
        """Record that a node ended, and its output; None if that is not known (yet: see `returned`)."""
        with self._lock:
            found = self._of.pop(task, None)
            if found is not None:
                known = found.tasks[task]
                known.ended, known.writes = True, None if writes is None else dict(writes)
                found.order.append(task)

    def returned(self, run: Hashable, node: str, writes: Mapping[str, Any]) -> bool:
        """Record a node's output that its end did not report; return whether that was so."""
        with self._lock:
            for graph in self._of_run.get(run, {}).values():
                for task in graph.order:
                    known = graph.tasks[task]
                    if known.node == node and known.writes is None:
                        known.writes = dict(writes)
                        return True
        return False

    def failed(self, task: Hashable) -> None:
        """Record that a node failed, or was interrupted. It may begin again, as another task."""
        with self._lock:
            found = self._of.pop(task, None)
            if found is not None:
                found.tasks[task].failed = True

    def over(self, run: Hashable, final: Mapping[str, Any] | None = None, *, applied: bool = True) -> None:
        """Record that a run is over.

        Args:
            run: the run.
            final: its final state, if known.
            applied: its last superstep's outputs became visible.
        """
        with self._lock:
            for key, graph in self._of_run.pop(run, {}).items():
                if graph.run != run:
                    continue
                # The outputs beside a failed or interrupted node wait for that node to be run again.
                if graph.complete or not graph.keeps_state:
                    self._flush(graph, final, applied=applied and graph.complete)
                if not graph.keeps_state:
                    del self._graphs[key]

    def close(self) -> None:
        """Record that nothing more will happen: outputs waiting for their superstep's end did not become visible."""
        with self._lock:
            for graph in self._graphs.values():
                self._flush(graph, None, applied=False)

    def _flush(self, graph: _Graph, after: Mapping[str, Any] | None, *, applied: bool) -> None:
        """End a superstep: all of its operations commit, or none does."""
        writers: dict[str, list[_Task]] = {}
        done = [graph.tasks[task] for task in graph.order]
        for known in done if applied else ():
            for key in known.writes or {}:
                writers.setdefault(key, []).append(known)
        seen = {} if after is None else {key: compact(value) for key, value in after.items()}
        fresh: dict[str, list[str]] = {}
        for known in done if applied else ():
            writes = {key: compact(value) for key, value in (known.writes or {}).items()}
            for key in writes:
                if writers[key][-1] is known and key in seen:  # the reducer's combined value
                    writes[key] = seen[key]
            graph.stands |= writes
            cells = {graph.cell(key): value for key, value in writes.items()}
            record = known.operation.commit(cells, barrier=max(graph.step, 1))
            for key in writes:
                fresh.setdefault(key, []).append(record.id)
        graph.writers |= fresh
        if not applied:
            self.lost += len(done)
        for task, known in graph.tasks.items():
            if not (known.ended and applied):
                known.operation.drop()
            self._of.pop(task, None)
        graph.tasks.clear()
        graph.order.clear()


__all__ = ["OUTSIDE", "Supersteps"]
