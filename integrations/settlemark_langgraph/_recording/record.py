"""Records a history of a stock graph: its nodes' inputs and outputs, and the order in which its tools acted."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp, GraphRecursionError, ParentCommand
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from settlemark import UsageError
from settlemark.history import Recorder
from settlemark.hosting import message_of
from settlemark.recording import NODE_TAG, Graphs, Place, Said, Tools, plain
from settlemark_langgraph._recording.planned import Compiled, Planned, ToolsNow


def record(
    graph: Compiled, recorder: Recorder, *, effects: Mapping[str, Said] | None = None, tools: ToolsNow | None = None
) -> Compiled:
    """Return a graph that runs like this one, and records a history of what its nodes and tools do.

    Recording settles and changes nothing: use it to find anomalies before you adopt settlemark. Each run of a node is
    an operation: it reads the channels that the node gets, writes the channels that the node returns, and commits at
    the end of its superstep, in the order in which nodes ended. Nothing of a failed superstep commits. The calls that a
    model issues are operations of the node that asked the model: reads flow into the node's next write. The history has
    the order in which a turn's calls were issued, and the order in which they ended. It has the tools that the model
    was offered, and those that existed when the calls ran, in this graph or in another one with the same recorder.

    Args:
        graph: the result of `compile()`, `create_agent` or `create_react_agent`.
        recorder: keeps the history; several graphs may share one.
        effects: what tools do, as in `{"audit": "read", "wire": {"kind": "write", "scope": "account:/{to}"}}`. Other
            tools do what `@effect` declares, else what their names suggest.
        tools: returns the present tools, if they are not those of the graph's tool nodes. Called when a model has
            issued calls and when a call runs, from any thread.

    Raises:
        UsageError: `graph` is no compiled graph.

    >>> from typing import TypedDict
    >>> from langgraph.graph import START, StateGraph
    >>> class Trip(TypedDict):
    ...     date: str
    ...     flight: str
    >>> builder = StateGraph(Trip)
    >>> _ = builder.add_node("plan", lambda trip: {"date": "21 June"})
    >>> _ = builder.add_node("book", lambda trip: {"flight": trip["date"]})
    >>> _ = builder.add_edge(START, "plan").add_edge(START, "book")
    >>> recorder = Recorder()
    >>> _ = record(builder.compile(), recorder).invoke({"date": "14 June"})
    >>> from settlemark.history import analyze
    >>> analyze(recorder.records)["A1-semantic"].witnesses[0].cell
    'date'
    """
    if not isinstance(cast("object", graph), CompiledStateGraph):  # callers are not typed
        kind = type(graph).__name__
        raise UsageError(f"record() takes what a graph's compile() returns, not a {kind}", graph=graph)
    from settlemark.hosting import declared_as

    planned = Planned(graph, recorder, tools)
    return graph.with_config(callbacks=[_Recording(graph, Graphs(recorder, Tools(effects, declared_as)), planned)])


class _Recording(BaseCallbackHandler):
    """Callbacks of LangGraph for a run. LangChain logs an exception of a callback; the graph does not see it."""

    run_inline = True  # in the order of the events, not in other threads

    def __init__(self, graph: Compiled, graphs: Graphs, planned: Planned) -> None:
        self._graph = graph
        self._graphs = graphs
        self._planned = planned
        self._lock = threading.Lock()
        self._roots: dict[UUID, UUID] = {}
        self._parents: dict[UUID, UUID | None] = {}
        self._nodes: dict[UUID, Place] = {}

    # ---- nodes, and graphs

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,  # noqa: ARG002 - LangChain passes it by name
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Record that a node began."""
        root = self._enter(run_id, parent_run_id)
        place = Place.of(metadata or {})
        if place is None or parent_run_id is None or not any(tag.startswith(NODE_TAG) for tag in tags or ()):
            return
        self._nodes[run_id] = place
        given = () if place.namespace or place.node not in self._graph.nodes else self._graph.nodes[place.node].channels
        self._graphs.node_began(
            run_id,
            place,
            plain(inputs),
            graph=parent_run_id,
            root=root,
            channels=[channel for channel in given if not channel.startswith(("__", "branch:"))],
        )

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Record that a node, or a graph, ended."""
        if run_id in self._nodes:
            self._returned(run_id, plain(outputs))
        elif self._is_root(run_id):
            self._graphs.over(run_id, plain(outputs))
        else:
            self._graphs.over(run_id)
        self._leave(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record that a node, or a graph, failed, was interrupted, or sent a command to its parent."""
        if run_id not in self._nodes:
            self._graphs.over(run_id, applied=isinstance(error, GraphRecursionError | GraphBubbleUp))
        elif isinstance(error, ParentCommand):
            command = cast("Any", error).args[0]
            # A command for the parent graph is no output of the inner node.
            mine = command.graph != Command.PARENT
            self._returned(run_id, plain(command.update) if mine else None)
        else:
            self._graphs.node_failed(run_id)
            self._planned.forget(run_id)
        self._leave(run_id)

    def _returned(self, run: UUID, output: Any) -> None:
        self._graphs.node_ended(run, output)
        self._planned.node_ended(run, self._nodes[run], output)

    # ---- models

    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,  # noqa: ARG002 - LangChain passes it by name
        messages: list[list[BaseMessage]],  # noqa: ARG002 - as above
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        invocation_params: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Record which tools a model is offered."""
        self._enter(run_id, parent_run_id)
        node = next((run for run in self._above(run_id) if run in self._nodes), None)
        self._planned.asked(run_id, node, invocation_params or {})

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Record the calls in a model's answer."""
        self._planned.answered(run_id, response)
        self._leave(run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002 - passed by name
        """Record that a model failed."""
        self._planned.answered(run_id, None)
        self._leave(run_id)

    # ---- tools

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        name: str | None = None,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        """Record that a tool began."""
        self._enter(run_id, parent_run_id)
        tool = name or str((serialized or {}).get("name") or "tool")
        self._graphs.tool_began(
            run_id,
            tool,
            plain(input_str if inputs is None else inputs),
            place=Place.of(metadata or {}),
            within=self._above(run_id),
            call=tool_call_id,
        )
        self._planned.began(run_id, tool_call_id, tool, Place.of(metadata or {}))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Record that a tool ended."""
        with self._planned.ended(run_id):
            self._graphs.tool_ended(run_id, plain(output))
        self._leave(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, tool_call_id: str | None = None, **_: Any) -> None:
        """Record that a tool failed."""
        with self._planned.failed(run_id, interrupted=isinstance(error, GraphBubbleUp)):
            self._graphs.tool_ended(run_id, message_of(error), call=tool_call_id, failed=True)
        self._leave(run_id)

    # ---- which run is inside which

    def _enter(self, run: UUID, parent: UUID | None) -> UUID:
        with self._lock:
            self._parents[run] = parent
            root = self._roots[run] = run if parent is None else self._roots.get(parent, parent)
            return root

    def _above(self, run: UUID) -> list[Hashable]:
        found: list[Hashable] = []
        with self._lock:
            at = self._parents.get(run)
            while at is not None:
                found.append(at)
                at = self._parents.get(at)
        return found

    def _is_root(self, run: UUID) -> bool:
        return self._parents.get(run) is None

    def _leave(self, run: UUID) -> None:
        with self._lock:
            self._nodes.pop(run, None)
            self._parents.pop(run, None)
            self._roots.pop(run, None)


__all__ = ["record"]
