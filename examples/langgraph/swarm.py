# /// script
# requires-python = ">=3.11"
# dependencies = ["settlemark[langgraph]", "langgraph-swarm>=0.1"]
# ///
"""A swarm: a turn that acts and hands over to another agent settles as one, and what fails hands nothing over.

Give the middleware to each agent, and declare each handoff a `"read"`: it changes nothing in the world.

Run it with `python examples/langgraph/swarm.py`. Alice books a room, mails and hands over to Bob in one turn. The first
time the mail's address is refused, so the room is cancelled; the second time all of it happens.

    trip-1: book Ada, cancel Ada; active: alice
    trip-2: book Bee, mail bee@example.com; active: bob
"""

from __future__ import annotations

from contextlib import suppress

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool, create_swarm

from settlemark import Settlement, effect
from settlemark_langgraph import SettlementMiddleware

world: list[str] = []


@tool
@effect("reversible", scope="room:/{name}", undo=lambda name: world.append(f"cancel {name}"))
def book(name: str) -> str:
    """Book a room."""
    world.append(f"book {name}")
    return f"booked {name}"


@tool
@effect("read", scope="mailbox:/{to}")
def check_address(to: str) -> str:
    """Have the mail server check an address."""
    if "@" not in to:
        raise ValueError(f"{to} is no address")
    return "good"


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


def says(*calls: tuple[str, dict[str, str]]) -> Scripted:
    """Return a model that makes all of these calls in one turn, and then is done."""
    turn = [{"name": name, "args": arguments, "id": str(number)} for number, (name, arguments) in enumerate(calls)]
    return Scripted(messages=iter([AIMessage("", tool_calls=turn), AIMessage("done")]))


def main() -> None:
    with Settlement("memory:") as settlement:
        for trip, hotel, address in (("trip-1", "Ada", "nowhere"), ("trip-2", "Bee", "bee@example.com")):
            turn = [
                ("mail", {"to": address}),
                ("book", {"name": hotel}),
                ("check_address", {"to": address}),
                ("transfer_to_bob", {}),
            ]
            # A handoff has its agent's name, and changes nothing in the world.
            effects = {"transfer_to_bob": "read"}  # settlemark: ignore[SM401]
            settled = [SettlementMiddleware(settlement, effects=effects)]
            to_bob = create_handoff_tool(agent_name="bob")
            alice = create_agent(says(*turn), [book, check_address, mail, to_bob], name="alice", middleware=settled)
            bob = create_agent(Scripted(messages=iter([AIMessage("done")])), [mail], name="bob", middleware=settled)
            swarm = create_swarm([alice, bob], default_active_agent="alice").compile(checkpointer=InMemorySaver())
            thread = {"configurable": {"thread_id": trip}}
            world.clear()
            with suppress(ValueError):  # LangChain's agents let a tool's error through, without middleware for errors
                swarm.invoke({"messages": [("user", "Book it, and let Bob go on.")]}, thread)
            active = swarm.get_state(thread).values.get("active_agent", "alice")
            print(f"{trip}: {', '.join(world)}; active: {active}")


if __name__ == "__main__":
    main()
