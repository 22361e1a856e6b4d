"""The tools of a stock graph: those its models are offered, and those its nodes have when a call is carried out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple, TypeAlias, cast

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_function
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import INVALID_TOOL_NAME_ERROR_TEMPLATE
from langgraph.pregel import Pregel
from pydantic.errors import PydanticInvalidForJsonSchema

from settlemark.history import Recorder
from settlemark.recording import ANYWHERE, Operation, Place, Plans, Registry, Result, is_mapping, messages_in, signature

Compiled: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
ToolsNow: TypeAlias = Callable[[], Iterable[BaseTool]]

_REFUSAL = INVALID_TOOL_NAME_ERROR_TEMPLATE.partition("{available_tools}")[0]


class _Act(NamedTuple):
    """A tool that runs for a planned call, and the tools that there are meanwhile."""

    call: str
    plan: Operation
    there: Registry

    @property
    def unchanged(self) -> bool:
        tool = self.plan.tool or ""
        return self.plan.registry.get(tool) == self.there.get(tool)


class Planned:
    """Which tools the models of a graph were offered, and which there are when their calls are carried out.

    A model's request tells what it was offered. Where it does not, or no model was asked, it is what the tool nodes of
    the graph had when the calls were issued. A tool node that a node makes for itself shows nobody its tools; that a
    tool is gone from it is known by what it answers, and more only when `now` tells it.

    Args:
        graph: whose models.
        recorder: records.
        now: the tools there are, where they are not those of the graph's tool nodes. Safe for threads.
    """

    def __init__(self, graph: Compiled, recorder: Recorder, now: ToolsNow | None) -> None:
        self._recorder = recorder
        self._plans = Plans.of(recorder)
        self._nodes = {} if now is not None else dict(_tool_nodes(graph))
        self._now = now
        self._lock = threading.Lock()
        self._asked: dict[Hashable, tuple[Hashable, Registry]] = {}
        self._offered: dict[Hashable, dict[str, Registry]] = {}
        self._acting: dict[Hashable, _Act] = {}

    # ---- planned

    def asked(self, run: Hashable, node: Hashable, request: Mapping[str, Any]) -> None:
        """Note that a model is asked in a node's run, with these parameters of its request."""
        offered = _offered_in(request.get("tools"))
        if offered is not None:
            with self._lock:
                self._asked[run] = node, offered

    def answered(self, run: Hashable, answer: LLMResult | None) -> None:
        """Note what a model has answered; None when it has failed."""
        with self._lock:
            node, offered = self._asked.pop(run, (None, None))
            if offered is not None:
                self._offered.setdefault(node, {}).update(dict.fromkeys(_calls_in(answer), offered))

    def node_ended(self, run: Hashable, place: Place, output: Any) -> None:
        """Note what a node has returned, as plain JSON: calls that were issued in it, and answers to such."""
        with self._lock:
            offered = self._offered.pop(run, {})
        messages = list(messages_in(output))
        results = [result for message in messages for result in message.results]
        for result in results:
            self._answered(result, place)
        answered = {result.call for result in results}
        calls = [call for message in messages if message.role == "assistant" for call in message.calls]
        registries = self._everywhere() if any(call.id not in offered for call in calls) else {}
        for call in calls:
            if call.id not in answered:
                known = {ANYWHERE: offered[call.id]} if call.id in offered else registries
                self._plans.made(call.id, place.label, call.tool, known, name=place.thread)

    def forget(self, run: Hashable) -> None:
        """Note that a node's run has come to nothing."""
        with self._lock:
            self._offered.pop(run, None)

    # ---- carried out

    def began(self, run: Hashable, call: str | None, tool: str, place: Place | None) -> None:
        """Note that a tool runs for a call."""
        where = ANYWHERE if place is None else place.label
        plan = None if call is None else self._plans.take(call, tool, where=where)
        if plan is None or call is None:
            return
        there = self._there(where)
        if there is None:
            plan.drop()
            return
        # A tool that runs is there, whoever hands it to the node: of one the node does not list nobody knows more.
        kept = {tool: plan.registry[tool]} if tool in plan.registry else {}
        with self._lock:
            self._acting[run] = _Act(call, plan, {**kept, **there})

    def ended(self, run: Hashable) -> AbstractContextManager[None]:
        """Return what is entered to record what a tool has done."""
        with self._lock:
            act = self._acting.pop(run, None)
        return nullcontext() if act is None else self._recorder.acting(act.plan, act.there)

    def failed(self, run: Hashable, *, interrupted: bool) -> AbstractContextManager[None]:
        """Return what is entered to record that a tool has failed, or was interrupted. It may be run again."""
        with self._lock:
            act = self._acting.pop(run, None)
        if act is None:
            return nullcontext()
        if interrupted or act.unchanged:
            self._plans.give_back(act.call, act.plan)
            return nullcontext()
        return self._recorder.acting(act.plan, act.there)

    def _answered(self, result: Result, place: Place) -> None:
        """Note that a call was answered. No tool has run for it when the plan still waits: it may not be there."""
        if result.call is None or result.tool is None:
            return
        plan = self._plans.take(result.call, result.tool, where=place.label)
        if plan is None:
            return
        there = self._there(place.label)
        refused = str(result.content).startswith(_REFUSAL.format(requested_tool=result.tool))
        if result.failed and (refused or (there is not None and result.tool not in there)):
            left = plan.registry if there is None else there
            with self._recorder.acting(plan, {name: known for name, known in left.items() if name != result.tool}):
                pass
        else:
            plan.drop()

    # ---- the tools there are

    def _there(self, where: str) -> Registry | None:
        """Return the tools that there are in a place now, or None: nobody knows."""
        if self._now is not None:
            return registry_of(self._now())
        node = self._nodes.get(where)
        return None if node is None else registry_of([*node.tools_by_name.values()])

    def _everywhere(self) -> dict[str, Registry]:
        if self._now is not None:
            return {ANYWHERE: registry_of(self._now())}
        return {where: registry_of([*node.tools_by_name.values()]) for where, node in self._nodes.items()}


def registry_of(tools: Iterable[BaseTool]) -> dict[str, str]:
    """Return tools by their names with their signatures.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def send(to: str) -> str:
    ...     "Send."
    >>> list(registry_of([send])) == ["send"] and registry_of([send]) == _offered_in([convert_to_openai_function(send)])
    True
    """
    found: dict[str, str] = {}
    for tool in tools:
        with suppress(PydanticInvalidForJsonSchema):  # what no model can be offered, nobody has planned to call
            found[tool.name] = _signature(convert_to_openai_function(tool))
    return found


def _signature(function: Mapping[str, Any]) -> str:
    return signature(function["name"], function.get("parameters"))


def _offered_in(tools: Any) -> dict[str, str] | None:
    """Return the tools of a model's request, in whichever provider's form; None when there are none to be read.

    >>> _offered_in([{"type": "web_search"}]), _offered_in(None)
    (None, None)
    """
    found: dict[str, str] = {}
    offered: Iterable[Any] = cast("Any", tools) if isinstance(tools, list | tuple) else ()
    for each in offered:
        function = _function(each)
        if function is not None:
            found[function["name"]] = _signature(function)
    return found or None


def _function(offered: Any) -> dict[str, Any] | None:
    """Return a tool that a model was offered as a function with a JSON schema, or None: it is no such."""
    inner = offered.get("function", offered) if is_mapping(offered) else None
    try:
        function = convert_to_openai_function(inner) if is_mapping(inner) else {}
    except (ValueError, KeyError):  # what the provider carries out itself
        return None
    parameters = function.get("parameters", {})
    # Of a schema in another notation nobody could say that it is the same.
    return function if "name" in function and parameters.get("type", "object") == "object" else None


def _calls_in(answer: LLMResult | None) -> list[str]:
    """Return the ids of the calls in a model's answer."""
    generations = [each for row in answer.generations for each in row] if answer is not None else []
    messages = [each.message for each in generations if isinstance(each, ChatGeneration)]
    calls = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return [call["id"] for call in calls if call["id"] is not None]


def _tool_nodes(graph: Compiled) -> Iterator[tuple[str, ToolNode]]:
    """Yield the tool nodes of a graph and of those within it, each with where it runs, as `Place.label` has it."""
    within: Iterable[tuple[str, Any]] = cast("Any", graph).get_subgraphs(recurse=True)
    for where, each in [("", graph), *within]:
        prefix = f"{where.replace('|', ':')}:" if where else ""
        for name, node in each.nodes.items() if isinstance(each, Pregel) else ():
            if isinstance(node.bound, ToolNode):
                yield f"{prefix}{name}", node.bound


__all__ = ["Planned", "ToolsNow", "registry_of"]
