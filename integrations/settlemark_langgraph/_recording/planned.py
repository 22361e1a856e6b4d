"""The tools of a stock graph: those offered to its models, and those of its tool nodes when a call runs."""

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
    """A tool that runs for a planned call, and the tools that exist meanwhile."""

    call: str
    plan: Operation
    present: Registry

    @property
    def unchanged(self) -> bool:
        tool = self.plan.tool or ""
        return self.plan.registry.get(tool) == self.present.get(tool)


class Planned:
    """Records which tools a graph's models were offered, and which tools exist when their calls run.

    The request to a model names the offered tools. Without such a request the offered tools are those of the graph's
    tool nodes when the calls were issued. A tool node that is made inside another node does not show its tools: unless
    `now` returns the tools, only an answer of the node says that a tool is missing.

    Args:
        graph: the graph of the models.
        recorder: keeps the history.
        now: returns the present tools, if they are not those of the graph's tool nodes. Safe for threads.
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
        """Note that a node asks a model, with these parameters of the request."""
        offered = _offered_in(request.get("tools"))
        if offered is not None:
            with self._lock:
                self._asked[run] = node, offered

    def answered(self, run: Hashable, answer: LLMResult | None) -> None:
        """Note a model's answer; None for a model that failed."""
        with self._lock:
            node, offered = self._asked.pop(run, (None, None))
            if offered is not None:
                self._offered.setdefault(node, {}).update(dict.fromkeys(_calls_in(answer), offered))

    def node_ended(self, run: Hashable, place: Place, output: Any) -> None:
        """Note a node's output, as plain JSON: the calls that its model issued, and answers to calls."""
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
        """Forget a run of a node that failed."""
        with self._lock:
            self._offered.pop(run, None)

    # ---- run

    def began(self, run: Hashable, call: str | None, tool: str, place: Place | None) -> None:
        """Note that a tool runs for a call."""
        where = ANYWHERE if place is None else place.label
        plan = None if call is None else self._plans.take(call, tool, where=where)
        if plan is None or call is None:
            return
        present = self._present(where)
        if present is None:
            plan.drop()
            return
        # A tool that runs exists, even if no node lists it: its planned signature is all that is known of it.
        kept = {tool: plan.registry[tool]} if tool in plan.registry else {}
        with self._lock:
            self._acting[run] = _Act(call, plan, {**kept, **present})

    def ended(self, run: Hashable) -> AbstractContextManager[None]:
        """Return the context in which to record a tool's result."""
        with self._lock:
            act = self._acting.pop(run, None)
        return nullcontext() if act is None else self._recorder.acting(act.plan, act.present)

    def failed(self, run: Hashable, *, interrupted: bool) -> AbstractContextManager[None]:
        """Return the context in which to record a tool's failure, or interrupt; the call may run again."""
        with self._lock:
            act = self._acting.pop(run, None)
        if act is None:
            return nullcontext()
        if interrupted or act.unchanged:
            self._plans.give_back(act.call, act.plan)
            return nullcontext()
        return self._recorder.acting(act.plan, act.present)

    def _answered(self, result: Result, place: Place) -> None:
        """Note a call's answer. If its plan is still there, no tool ran for the call: the tool may be missing."""
        if result.call is None or result.tool is None:
            return
        plan = self._plans.take(result.call, result.tool, where=place.label)
        if plan is None:
            return
        present = self._present(place.label)
        refused = str(result.content).startswith(_REFUSAL.format(requested_tool=result.tool))
        if result.failed and (refused or (present is not None and result.tool not in present)):
            left = plan.registry if present is None else present
            with self._recorder.acting(plan, {name: known for name, known in left.items() if name != result.tool}):
                pass
        else:
            plan.drop()

    # ---- present tools

    def _present(self, where: str) -> Registry | None:
        """Return the present tools of a node; None if the node does not show them."""
        if self._now is not None:
            return registry_of(self._now())
        node = self._nodes.get(where)
        return None if node is None else registry_of([*node.tools_by_name.values()])

    def _everywhere(self) -> dict[str, Registry]:
        if self._now is not None:
            return {ANYWHERE: registry_of(self._now())}
        return {where: registry_of([*node.tools_by_name.values()]) for where, node in self._nodes.items()}


def registry_of(tools: Iterable[BaseTool]) -> dict[str, str]:
    """Return the signatures of tools, by their names.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def send(to: str) -> str:
    ...     "Send."
    >>> list(registry_of([send])) == ["send"] and registry_of([send]) == _offered_in([convert_to_openai_function(send)])
    True
    """
    found: dict[str, str] = {}
    for tool in tools:
        with suppress(PydanticInvalidForJsonSchema):  # no model can be offered such a tool, so none has planned a call
            found[tool.name] = _signature(convert_to_openai_function(tool))
    return found


def _signature(function: Mapping[str, Any]) -> str:
    return signature(function["name"], function.get("parameters"))


def _offered_in(tools: Any) -> dict[str, str] | None:
    """Return the tools of a request to a model, in any provider's form; None without readable ones.

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
    """Return an offered tool as a function with a JSON schema; None for any other kind of tool."""
    inner = offered.get("function", offered) if is_mapping(offered) else None
    try:
        function = convert_to_openai_function(inner) if is_mapping(inner) else {}
    except (ValueError, KeyError):  # a tool that the provider runs itself
        return None
    parameters = function.get("parameters", {})
    # Schemas in other notations cannot be compared.
    return function if "name" in function and parameters.get("type", "object") == "object" else None


def _calls_in(answer: LLMResult | None) -> list[str]:
    """Return the ids of the calls in a model's answer."""
    generations = [each for row in answer.generations for each in row] if answer is not None else []
    messages = [each.message for each in generations if isinstance(each, ChatGeneration)]
    calls = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return [call["id"] for call in calls if call["id"] is not None]


def _tool_nodes(graph: Compiled) -> Iterator[tuple[str, ToolNode]]:
    """Yield the tool nodes of a graph and of its subgraphs, each with its `Place.label`."""
    within: Iterable[tuple[str, Any]] = cast("Any", graph).get_subgraphs(recurse=True)
    for where, each in [("", graph), *within]:
        prefix = f"{where.replace('|', ':')}:" if where else ""
        for name, node in each.nodes.items() if isinstance(each, Pregel) else ():
            if isinstance(node.bound, ToolNode):
                yield f"{prefix}{name}", node.bound


__all__ = ["Planned", "ToolsNow", "registry_of"]
