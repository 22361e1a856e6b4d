# /// script
# requires-python = ">=3.11"
# dependencies = ["settlemark[langgraph]", "langgraph-supervisor>=0.0.31"]
# ///
"""A supervisor: its own tools and those of its workers settle, each agent's turn as one.

Give `create_supervisor` a `SequencedToolNode`, as it takes a `ToolNode`: it takes the tools out and adds its handoffs,
and the tools keep settling together. A worker made with `create_agent` has the middleware.

Run it with `python examples/langgraph/supervisor.py`. The supervisor books a room and, in the same turn, a car that
nobody has: the room is cancelled. It then hands over to a worker, which mails.

    the world: book Ada, cancel Ada, mail ada@example.com
"""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_supervisor import create_supervisor

from settlemark import Settlement, effect
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware

world: list[str] = []


@tool
@effect("reversible", scope="room:/{name}", undo=lambda name: world.append(f"cancel {name}"))
def book(name: str) -> str:
    """Book a room."""
    world.append(f"book {name}")
    return f"booked {name}"


@tool
@effect("reversible", scope="car:/{plate}", undo=lambda plate: world.append(f"return {plate}"))
def rent(plate: str) -> str:
    """Rent a car."""
    raise RuntimeError(f"{plate} is taken")


@tool
@effect("irreversible", scope="mail:/{to}")
def mail(to: str) -> str:
    """Send the confirmation."""
    world.append(f"mail {to}")
    return "sent"


class Scripted(GenericFakeChatModel):
    """Stands in for your model: it says what it was told to say, so that nobody needs a key."""

    def bind_tools(self, tools: object, **options: object) -> Scripted:
        return self


def says(*turns: list[tuple[str, dict[str, str]]], who: str) -> Scripted:
    """Return a model that makes the calls of each turn together, and then is done."""
    messages = [
        AIMessage(
            "",
            tool_calls=[
                {"name": name, "args": arguments, "id": f"{who}-{turn}-{number}"}
                for number, (name, arguments) in enumerate(calls)
            ],
        )
        for turn, calls in enumerate(turns)
    ]
    return Scripted(messages=iter([*messages, AIMessage("done")]))


def main() -> None:
    with Settlement("memory:") as settlement:
        clerk = create_agent(
            says([("mail", {"to": "ada@example.com"})], who="clerk"),
            [mail],
            name="clerk",
            middleware=[SettlementMiddleware(settlement)],
        )
        own = SequencedToolNode([book, rent], settlement=settlement, handle_tool_errors=True)
        model = says(
            [("book", {"name": "Ada"}), ("rent", {"plate": "M-1"})],
            [("transfer_to_clerk", {})],
            who="supervisor",
        )
        app = create_supervisor([clerk], model=model, tools=own).compile(checkpointer=InMemorySaver())
        app.invoke({"messages": [("user", "A trip, and tell Ada.")]}, {"configurable": {"thread_id": "trip-1"}})
        print("the world:", ", ".join(world))


if __name__ == "__main__":
    main()
