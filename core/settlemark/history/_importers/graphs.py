"""LangGraph's graphs, as LangGraph reports them: nodes with their channels, and the calls that models issue.

The reports come from callbacks, or from a file of the same events; nothing of LangGraph's is imported here.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from settlemark.history._importers.messages import (
    Message,
    ToolCall,
    arguments,
    is_list,
    is_mapping,
    messages_in,
    unserialized,
)
from settlemark.history._importers.supersteps import Supersteps
from settlemark.history._importers.turns import Turns
from settlemark.history._recording.recorder import Recorder
from settlemark.history._recording.touches import Tools

NODE_TAG = "graph:step:"
_COMMAND = frozenset({"update", "goto"})
_REMEMBERED = 10_000  # messages that an agent may have passed on
_PUSHED = "__pregel_push"


@dataclass(frozen=True)
class Place:
    """Where a node runs.

    Attributes:
        label: the node's name, after those of the nodes around its graph.
        node: its name.
        namespace: its graph's.
        step: the superstep's number.
        thread: the thread's id, or None.
        pushed: it was started by a Send whose argument is no state.
    """

    label: str
    node: str
    namespace: str
    step: int
    thread: str | None
    pushed: bool

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Place | None:
        """Return the place that LangGraph's metadata describe, or None.

        >>> Place.of({"langgraph_node": "b", "langgraph_step": 2, "langgraph_checkpoint_ns": "a:7|b:8"}).label
        'a:b'
        """
        node, step = metadata.get("langgraph_node"), metadata.get("langgraph_step")
        if not isinstance(node, str) or not isinstance(step, int):
            return None
        namespace = str(metadata.get("langgraph_checkpoint_ns") or "").rpartition("|")[0]
        outer = [part.partition(":")[0] for part in namespace.split("|") if part and not part.isdecimal()]
        path, thread = metadata.get("langgraph_path"), metadata.get("thread_id")
        pushed = str(path).startswith((f"['{_PUSHED}'", f"('{_PUSHED}'"))  # a list if it was JSON, else a tuple
        return cls(":".join([*outer, node]), node, namespace, step, None if thread is None else str(thread), pushed)


@dataclass(eq=False)
class _Node:
    place: Place
    given: Any
    claimed: set[str] = field(default_factory=set[str])


@dataclass(eq=False)
class _Tool:
    node: Hashable
    place: Place | None
    tool: str
    arguments: Mapping[str, Any]
    since: int
    issued: bool = field(default=False)


class Graphs:
    """Records the nodes and the tool calls of graphs. Safe for threads."""

    def __init__(self, recorder: Recorder, tools: Tools) -> None:
        self.steps = Supersteps(recorder)
        self.turns = Turns(recorder, tools)
        self._lock = threading.RLock()
        self._runs: dict[Hashable, str] = {}
        self._number = count(1)
        self._nodes: dict[Hashable, _Node] = {}
        self._tools: dict[Hashable, _Tool] = {}
        self._issued: dict[str, Hashable] = {}
        self._said: dict[str, None] = {}

    # ---- nodes

    def node_began(
        self,
        run: Hashable,
        place: Place,
        given: Any,
        *,
        graph: Hashable,
        root: Hashable,
        channels: Iterable[str] = (),
    ) -> None:
        """Record that a node began.

        Args:
            run: identifies this run of the node.
            place: where it runs.
            given: its input, as plain JSON.
            graph: the run of its graph.
            root: the run of the outermost graph.
            channels: its input channels: one that is not in `given` is empty.
        """
        with self._lock:
            self._nodes[run] = _Node(place, given)
            prefix = f"{place.thread}/" if place.thread is not None else self._prefix(root)
            state: dict[str, Any] | None = None
            if not place.pushed and is_mapping(given):
                state = {**dict.fromkeys(channels), **channels_of(given)}
            self.steps.began(
                run,
                graph=(place.thread or root, place.namespace),
                run=graph,
                node=place.label,
                step=place.step,
                given=state,
                prefix=prefix + (f"{place.namespace}/" if place.namespace else ""),
                name=place.thread,
                keeps_state=place.thread is not None and not place.namespace,
            )

    def _prefix(self, root: Hashable) -> str:
        """Return a prefix for the channels of runs without a thread: they share nothing."""
        if root not in self._runs:
            number = next(self._number)
            self._runs[root] = "" if number == 1 else f"run-{number}/"
        return self._runs[root]

    def node_ended(self, run: Hashable, output: Any) -> bool:
        """Record that a node ended, and its output as plain JSON; return whether that can be read."""
        with self._lock:
            known = self._nodes.pop(run, None)
            writes = writes_of(output)
            self.steps.ended(run, writes)
            self.turns.over(run)
            if known is not None:
                self._issue(known.place.label, messages_in(output), known.place.thread)
            return writes is not None

    def node_failed(self, run: Hashable) -> None:
        """Record that a node failed, or was interrupted."""
        with self._lock:
            self._nodes.pop(run, None)
            self.steps.failed(run)
            self.turns.over(run)

    def returned(self, graph: Hashable, chunk: Any) -> None:
        """Record nodes' outputs that a graph's stream reports."""
        for node, update in chunk.items() if is_mapping(chunk) else ():
            writes = writes_of(update)
            if writes is not None and self.steps.returned(graph, node, writes):
                with self._lock:
                    self._issue(node, messages_in(update), None)

    def over(self, graph: Hashable, final: Any = None, *, applied: bool = True) -> None:
        """Record that a graph's run is over: see `Supersteps.over`."""
        with self._lock:
            self._runs.pop(graph, None)
            self.steps.over(graph, channels_of(final) if is_mapping(final) else None, applied=applied)

    # ---- calls

    def _issue(self, agent: str, messages: Iterable[Message], name: str | None) -> None:
        for each in messages:
            if each.role != "assistant" or (each.id is not None and each.id in self._said):
                continue
            if each.id is not None:
                self._said[each.id] = None  # the same message is passed on from state to state
                if len(self._said) > _REMEMBERED:
                    del self._said[next(iter(self._said))]
            if not each.calls:
                self.turns.answered(agent, name=name)
                continue
            before = self._issued.pop(agent, None)
            if before is not None:
                self.turns.over(before)
            turn = self._issued[agent] = object()
            self.turns.issued(agent, each.calls, turn=turn, name=name)

    def tool_began(
        self,
        run: Hashable,
        tool: str,
        given: Any,
        *,
        place: Place | None,
        within: Iterable[Hashable],
        call: str | None = None,
    ) -> None:
        """Record that a tool began: in which node's run, and for which call, where known."""
        with self._lock:
            node = next((each for each in within if each in self._nodes), None)
            began = self._tools[run] = _Tool(node, place, tool, arguments(given), self.turns.moment)
            call = call or self._claimed(began)
            if call is None or not self._known(began, call):
                agent = place.label if place is not None else "graph"
                own = ToolCall(self._own(run), tool, began.arguments)
                self.turns.issued(agent, [own], turn=node, name=None if place is None else place.thread)
                began.issued = True

    def tool_ended(self, run: Hashable, output: Any, *, call: str | None = None, failed: bool = False) -> bool:
        """Record that a tool ended, and its answer as plain JSON; return whether its begin was seen."""
        with self._lock:
            began = self._tools.pop(run, None)
            if began is None:
                return False
            result = next((r for m in messages_in(output) for r in m.results), None)
            call = call or (None if result is None else result.call)
            said = output if result is None else result.content
            failed = failed or (result is not None and result.failed)
            if call is not None and self._known(began, call):
                if began.issued:
                    self.turns.ended(self._own(run), None, failed=True)
            else:
                call = self._own(run)
            return self.turns.ended(call, said, failed=failed, since=began.since, at=self.turns.now())

    def _claimed(self, began: _Tool) -> str | None:
        """Return the call of a node that a tool was begun for, found by name and arguments."""
        known = self._nodes.get(began.node)
        if known is None:
            return None
        left = [call for call in given_calls(known.given) if call.tool == began.tool and call.id not in known.claimed]
        same = [call for call in left if call.arguments == began.arguments]
        for found in same or left:
            known.claimed.add(found.id)
            return found.id
        return None

    def _own(self, run: Hashable) -> str:
        return f"run {run}"

    def _known(self, began: _Tool, call: str) -> bool:
        """Whether a call was issued; if nobody saw its model, the node's input tells."""
        if self.turns.knows(call):
            return True
        known = self._nodes.get(began.node)
        if known is None:
            return False
        calls = given_calls(known.given, call)
        if calls:
            self.turns.issued(known.place.label, calls, turn=(began.node, "given"), name=known.place.thread)
        return bool(calls)

    def close(self) -> None:
        """Record that nothing more will happen."""
        with self._lock:
            self.steps.close()
            self.turns.close()


def channels_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without LangGraph's own channels."""
    return {key: value for key, value in state.items() if not key.startswith(("__", "branch:"))}


def writes_of(output: Any) -> dict[str, Any] | None:  # noqa: PLR0911 - the first shape that fits decides
    """Return what a node's return value writes, by channel; None when that cannot be told.

    >>> writes_of({"x": 1}), writes_of([{"update": {"x": 1}, "goto": []}, {"y": 2}]), writes_of("Command(…)")
    ({'x': 1}, {'x': 1, 'y': 2}, None)
    """
    if output is None:
        return {}
    if is_list(output):
        if output and all(is_list(pair) and len(pair) == 2 and isinstance(pair[0], str) for pair in output):  # noqa: PLR2004 - pairs
            return channels_of(dict(output))
        merged: dict[str, Any] = {}
        for each in output:
            found = writes_of(each)
            if found is None:
                return None
            for key, value in found.items():
                both = is_list(merged.get(key)) and is_list(value)
                merged[key] = [*merged[key], *value] if both else value
        return merged
    if not is_mapping(output) or unserialized(output) is not output or output.get("lc") == 1:
        return None
    if output.keys() >= _COMMAND and output.keys() <= {"graph", "update", "resume", "goto"}:
        return writes_of(output["update"])
    return channels_of(output)


def given_calls(given: Any, call: str | None = None) -> list[ToolCall]:
    """Return the calls in the input of a tools node; those issued together with one, where it is named."""
    if is_mapping(given) and is_mapping(given.get("tool_call")):
        given = given.get("state") or [given["tool_call"]]
    if is_list(given) and given and all(is_mapping(each) and "args" in each and "name" in each for each in given):
        given = {"role": "assistant", "tool_calls": given}
    issued = [each.calls for each in messages_in(given) if each.calls]
    found = [calls for calls in issued if call is None or any(known.id == call for known in calls)]
    return list(found[-1]) if found else []


__all__ = ["NODE_TAG", "Graphs", "Place", "channels_of", "given_calls", "writes_of"]
