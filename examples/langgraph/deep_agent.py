# /// script
# requires-python = ">=3.11"
# dependencies = ["settlemark[langgraph]", "deepagents>=0.7"]
# ///
"""deepagents: what its subagents do settles with the turn that sent them, also when a person is asked in between.

Give the middleware to the deep agent and to each of its subagents, and put it before the one that asks a person. What a
subagent does belongs to the call of `task` that runs the subagent.

Run it with `python examples/langgraph/deep_agent.py`. A subagent books a room, a person is asked before it pays, and
then the next booking fails: the room is cancelled, and nothing was paid.

    asked: pay
    failed: no room left
    the hotel: book Ada, cancel Ada
    the bank: nothing
"""

from __future__ import annotations

from deepagents import create_deep_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from settlemark import Settlement, effect
from settlemark_langgraph import SettlementMiddleware

hotel: list[str] = []
bank: list[str] = []


@tool
@effect("reversible", scope="room:/{name}", undo=lambda name: hotel.append(f"cancel {name}"))
def book(name: str) -> str:
    """Book a room."""
    if name == "Full":
        raise RuntimeError("no room left")
    hotel.append(f"book {name}")
    return f"booked {name}"


@tool
@effect("irreversible", scope="account:/{payee}")
def pay(payee: str) -> str:
    """Pay somebody."""
    bank.append(payee)
    return f"paid {payee}"


class Scripted(GenericFakeChatModel):
    """Stands in for your model: it says what it was told to say, so that nobody needs a key."""

    def bind_tools(self, tools: object, **options: object) -> Scripted:
        return self


def says(who: str, *calls: tuple[str, dict[str, str]]) -> Scripted:
    turns = [
        AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"{who}-{number}"}])
        for number, (name, arguments) in enumerate(calls)
    ]
    return Scripted(messages=iter([*turns, AIMessage("done")]))


def main() -> None:
    with Settlement("memory:") as settlement:
        travel = {
            "name": "travel",
            "description": "Books and pays trips.",
            "system_prompt": "Book the trip.",
            "tools": [book, pay],
            "model": says("travel", ("book", {"name": "Ada"}), ("pay", {"payee": "Ada"}), ("book", {"name": "Full"})),
            "middleware": [
                SettlementMiddleware(settlement),
                HumanInTheLoopMiddleware(interrupt_on={"pay": True}),
            ],
        }
        agent = create_deep_agent(
            says("main", ("task", {"description": "A trip to Ada.", "subagent_type": "travel"})),
            subagents=[travel],
            middleware=[SettlementMiddleware(settlement)],
            checkpointer=InMemorySaver(),
        )
        thread = {"configurable": {"thread_id": "trip-1"}}
        asked = agent.invoke({"messages": [("user", "Book me a trip.")]}, thread)
        print("asked:", *[call["name"] for call in asked["__interrupt__"][0].value["action_requests"]])
        try:
            agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
        except RuntimeError as error:
            print("failed:", error)
        print("the hotel:", ", ".join(hotel))
        print("the bank:", ", ".join(bank) or "nothing")


if __name__ == "__main__":
    main()
