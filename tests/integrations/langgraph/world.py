"""What the tests of the LangGraph shim share: a world that tools act on, and graphs of one tool node."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph

from settlemark import current_call, effect

THREAD = {"configurable": {"thread_id": "trip-42"}}


class World:
    """The outside: what happened there, in order, and under which keys."""

    def __init__(self):
        self.log = []
        self.keys = []
        self._lock = threading.Lock()

    def act(self, entry):
        with self._lock:
            self.log.append(entry)
            call = current_call()
            self.keys.append(None if call is None else call.key)


def turn(*named, text="I act.", ids=None):
    """The model's message: one call for each (name, arguments)."""
    calls = [
        {"name": name, "args": args, "id": ids[n] if ids else f"call-{n}", "type": "tool_call"}
        for n, (name, args) in enumerate(named)
    ]
    return AIMessage(text, tool_calls=calls, id="ai-1")


def graph(node, *, checkpointer=None, retry=None, store=None):
    builder = StateGraph(MessagesState)
    builder.add_node("tools", node, retry_policy=retry)
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    return builder.compile(checkpointer=checkpointer, store=store)


def answers(state):
    """The tool messages of a state: (status, text) each."""
    return [(m.status, m.text) for m in state["messages"] if m.type == "tool"]


def trip(world, *, broken=(), looked_at=None):
    """Tools that book, pay, send and look: one of each class; those in `broken` raise instead.

    Without a scope (`looked_at`) a look runs beside the other calls of its turn, and may come before or behind them.
    """

    def happen(name, detail):
        if name in broken:
            raise ValueError(f"{name} is down")
        world.act(f"{name} {detail}")
        return f"{name} done"

    def cancel_room(hotel: str):
        world.act(f"cancel {hotel}")

    @effect("reversible", scope="room:/{hotel}", undo=cancel_room)
    def book(hotel: str) -> str:
        """Book a room."""
        return happen("book", hotel)

    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        return happen("mail", to)

    @effect("read", scope=looked_at)
    def look(hotel: str) -> str:
        """Look a room up."""
        return happen("look", hotel)

    @effect("idempotent", scope="car:/{plate}")
    def rent(plate: str) -> str:
        """Rent a car."""
        return happen("rent", plate)

    functions = {"book": book, "mail": mail, "look": look, "rent": rent}
    return [_both(function, name) for name, function in functions.items()]


def _both(function, name):
    async def coroutine(**arguments):
        return function(**arguments)

    return StructuredTool.from_function(function, coroutine=coroutine, name=name)
