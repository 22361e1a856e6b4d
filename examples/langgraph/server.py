# /// script
# requires-python = ">=3.11"
# dependencies = ["settlemark[langgraph]", "langgraph-checkpoint-sqlite>=3"]
# ///
"""A graph for a server that supplies the checkpointer itself, as LangGraph's own server does.

Such a graph is compiled without a checkpointer; the server makes a copy with its own, one for each request. Nothing of
the settlement depends on which: a turn is known by its thread and its task. Keep the settlement beside the graph, in
the module that the server loads, and give it a store that all workers of the server share. (`settle="superstep"` is
the one setting that needs `settled_checkpointer` around the server's checkpointer.)

Run it with `python examples/langgraph/server.py`. It serves three requests, each by another copy of the graph: a trip
that needs a yes, the yes, and the same yes again.

    asked: pay
    booked Ada; paid Ada
    booked Ada; paid Ada
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from settlemark import Settlement, effect
from settlemark_langgraph import SequencedToolNode, approve

FOLDER = Path(tempfile.mkdtemp())
world: list[str] = []
settlement = Settlement(f"sqlite:///{FOLDER / 'settlement.db'}")


@tool
@effect("reversible", scope="room:/{name}", undo=lambda name: world.remove(f"booked {name}"))
def book(name: str) -> str:
    """Book a room."""
    world.append(f"booked {name}")
    return f"booked {name}"


@tool
@effect("irreversible", scope="account:/{payee}", approve=True)
def pay(payee: str) -> str:
    """Pay somebody."""
    world.append(f"paid {payee}")
    return f"paid {payee}"


def model(state: MessagesState) -> dict[str, Any]:  # in the place of your model
    calls = [{"name": "book", "args": {"name": "Ada"}, "id": "1"}, {"name": "pay", "args": {"payee": "Ada"}, "id": "2"}]
    return {"messages": [AIMessage("", tool_calls=calls)]}


builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_node("tools", SequencedToolNode([book, pay], settlement=settlement))
builder.add_edge(START, "model")
builder.add_edge("model", "tools")
graph = builder.compile()  # what the server is told of: "graphs": {"trip": "server.py:graph"}


def serve(given: Any, thread: str) -> dict[str, Any]:
    """Do what the server does with a request."""
    with SqliteSaver.from_conn_string(str(FOLDER / "threads.db")) as saver:
        served = graph.copy(update={"checkpointer": saver})
        return served.invoke(given, {"configurable": {"thread_id": thread}})


def main() -> None:
    asked = serve({"messages": [("user", "Book me a trip.")]}, "trip-1")
    print("asked:", *[question.value["tool"] for question in asked["__interrupt__"]])
    for _ in range(2):
        serve(Command(resume=approve()), "trip-1")
        print("; ".join(world))
    settlement.close()


if __name__ == "__main__":
    main()
