"""The graph of both sides: a chat model, scripted or live, a tool node, and the loop between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from settlemark import Retries, Settlement
from settlemark_demo._limits import USUAL, Limits

STOCK = "stock ToolNode"
SETTLED = "SequencedToolNode"
STOCK_GIVEN = (
    "ToolNode(handle_tool_errors=True), each call tried up to 3 times with the same pauses; "
    "it has no idempotency keys to send, and no undo"
)
SETTLED_GIVEN = (
    'SequencedToolNode(handle_tool_errors=True, settlement=Settlement(url, on_failure="retry")), '
    "each call tried up to 3 times"
)
_RETRIES = Retries()

MakeNode = Callable[[Sequence[BaseTool]], ToolNode]
Ask = Callable[[Sequence[BaseMessage]], BaseMessage]
"""Asks a model for its next turn."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a conversation, and their times.

    Args:
        messages: all of them, in order.
        moments: when each turn of the model came.
    """

    messages: list[BaseMessage]
    moments: list[float]


class ScriptedModel(BaseChatModel):
    """A chat model that returns given turns one after the other, without a network."""

    turns: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        del stop, run_manager, kwargs
        said = sum(isinstance(message, AIMessage) for message in messages)
        # Copied: the graph gives a message its id, and both sides get the same turns.
        return ChatResult(generations=[ChatGeneration(message=self.turns[said].model_copy())])


def turn(because: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[AIMessage]:
    """Return a model's turns: one that batches all calls, and one that ends the conversation."""
    batch: list[Any] = [
        {"name": name, "args": arguments, "id": f"call_{number}", "type": "tool_call"}
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    return [AIMessage(because, tool_calls=batch), AIMessage("That is all.")]


def stock_node(tools: Sequence[BaseTool]) -> ToolNode:
    """Return LangGraph's own node, with the usual retry around each call."""
    return ToolNode(tools, handle_tool_errors=True, wrap_tool_call=_try_again)


def settled_node(settlement: Settlement) -> MakeNode:
    """Return a maker of the node that settles what its tools do."""
    from settlemark_langgraph import SequencedToolNode

    return lambda tools: SequencedToolNode(tools, handle_tool_errors=True, settlement=settlement)


def _try_again(
    request: ToolCallRequest, execute: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
) -> ToolMessage | Command[Any]:
    failures = 0
    while True:
        answer = execute(request)
        failures += 1
        failed = isinstance(answer, ToolMessage) and answer.status == "error"
        if not failed or failures >= _RETRIES.tries:
            return answer
        time.sleep(_RETRIES.pause(failures))


def converse(
    ask: Ask, node: ToolNode, *, thread: str, prompt: str = "Please see to it.", limits: Limits = USUAL
) -> Conversation:
    """Run the graph: the model, its tools, and the model again until it calls none, or a limit is reached."""
    moments: list[float] = []

    def agent(state: MessagesState) -> dict[str, list[BaseMessage]]:
        said = ask(state["messages"])
        moments.append(time.time())
        return {"messages": [said]}

    def after_agent(state: MessagesState) -> str:
        calls = [len(message.tool_calls) for message in state["messages"] if isinstance(message, AIMessage)]
        return "tools" if calls[-1] and sum(calls) <= limits.calls else END

    def after_tools(state: MessagesState) -> str:
        said = sum(isinstance(message, AIMessage) for message in state["messages"])
        return "agent" if said < limits.turns else END

    # Any: the library's own signatures are generic in what this graph does not use.
    builder: Any = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_node("tools", node)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", after_agent, ["tools", END])
    builder.add_conditional_edges("tools", after_tools, ["agent", END])
    graph = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 2 * limits.turns + 1}
    state = graph.invoke({"messages": [HumanMessage(prompt)]}, config)
    return Conversation(state["messages"], moments)
