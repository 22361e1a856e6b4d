"""An agent that a tool runs, and that LangGraph resumes in its middle: it settles as if nobody had stopped it."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool as tool_of
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from tests.integrations.langgraph.test_shared_turns import Model
from tests.integrations.langgraph.world import THREAD, answers

from settlemark import effect
from settlemark.hosting import host_of
from settlemark_langgraph import SettlementMiddleware

TURNS = (("book", "Ada"), ("mail", "ada"), ("book", "Bee"), ("mail", "bee"))
"""What the inner agent does, a turn each."""
WHOLE = ["book Ada", "book Bee", "mail ada", "mail bee"]


@pytest.fixture
def tools(world):
    @effect("reversible", scope="room:/{at}", undo=lambda at: world.act(f"cancel {at}"))
    def book(at: str) -> str:
        """Book a room."""
        world.act(f"book {at}")
        return f"booked {at}"

    @effect("irreversible", scope="mail:/{at}")
    def mail(at: str) -> str:
        """Send a mail."""
        world.act(f"mail {at}")
        return "sent"

    return [tool_of(book), tool_of(mail)]


def says(*turns, who):
    calls = [
        AIMessage(
            "I act.",
            id=f"{who}-{number}",
            tool_calls=[{"name": name, "args": args, "id": f"{who}-call-{number}", "type": "tool_call"}],
        )
        for number, (name, args) in enumerate(turns)
    ]
    return Model(messages=iter([*calls, AIMessage(f"{who} is done", id=f"{who}-done")]), told=[])


def delegating(tools, settlement, asks, **options):
    """Return an agent whose only call runs another one, in which a person is asked before these tools."""
    inner = create_agent(
        says(*[(name, {"at": at}) for name, at in TURNS], who="inner"),
        tools,
        middleware=[
            SettlementMiddleware(settlement, **options),
            HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(asks, True)),
        ],
    )

    @tool_of
    async def task(what: str) -> str:
        """Have it done."""
        found = await inner.ainvoke({"messages": [HumanMessage(what)]})
        return found["messages"][-1].text

    @tool_of
    def task_now(what: str) -> str:
        """Have it done."""
        return inner.invoke({"messages": [HumanMessage(what)]})["messages"][-1].text

    def outer(*, is_async):
        name, tool = ("task", task) if is_async else ("task_now", task_now)
        return create_agent(
            says((name, {"what": "the trip"}), who="outer"),
            [tool],
            middleware=[SettlementMiddleware(settlement, **options)],
            checkpointer=InMemorySaver(),
        )

    return outer


@pytest.mark.parametrize("settle", ["node", "call", "run"])
@pytest.mark.parametrize("asks", [["book"], ["mail"], ["book", "mail"]], ids="+".join)
async def test_an_agent_that_asks_a_person_in_its_middle_goes_on_with_all_it_did(
    world, settlement, tools, asks, settle
):
    agent = delegating(tools, settlement, asks, settle=settle)(is_async=True)
    found = await agent.ainvoke({"messages": [HumanMessage("go")]}, THREAD)
    asked = 0
    while "__interrupt__" in found:
        asked += 1
        found = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert asked == 2 * len(asks)
    assert (world.log, answers(found)) == (WHOLE, [("success", "inner is done")])
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.parametrize("settle", ["node", "call", "run"])
def test_a_sync_agent_that_asks_a_person_in_its_middle_goes_on_with_all_it_did(world, settlement, tools, settle):
    agent = delegating(tools, settlement, ["mail"], settle=settle)(is_async=False)
    found = agent.invoke({"messages": [HumanMessage("go")]}, THREAD)
    for _ in range(2):
        found = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert (world.log, answers(found)) == (WHOLE, [("success", "inner is done")])
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_what_a_person_rejects_never_leaves_and_the_rest_of_the_agent_stays(world, settlement, tools):
    agent = delegating(tools, settlement, ["mail"])(is_async=False)
    agent.invoke({"messages": [HumanMessage("go")]}, THREAD)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    found = agent.invoke(Command(resume={"decisions": [{"type": "reject", "message": "no"}]}), THREAD)
    assert (world.log, answers(found)) == (WHOLE[:3], [("success", "inner is done")])
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})
