"""LangChain asks a person about each call as it starts: the turn goes on as the answers say."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from tests.integrations.langgraph.world import THREAD, trip, turn

from settlemark import State
from settlemark_langgraph import SettlementMiddleware

DECISIONS = {
    "approve": ({"type": "approve"}, ["book Ada", "mail a"]),
    "edit": ({"type": "edit", "edited_action": {"name": "mail", "args": {"to": "b"}}}, ["book Ada", "mail b"]),
    "reject": ({"type": "reject", "message": "no"}, ["book Ada"]),
    "respond": ({"type": "respond", "message": "done by me"}, ["book Ada"]),
}


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request):
    async def run(agent, given):
        return agent.invoke(given, THREAD) if request.param == "invoke" else await agent.ainvoke(given, THREAD)

    return run


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize(
    ("place", "asked"), [("behind", ["mail"]), ("behind", ["book", "mail"]), ("before", ["book", "mail"])]
)
async def test_a_turn_goes_on_as_a_person_says_of_each_call(world, settlement, run, place, asked, decision):
    allowed = {"allowed_decisions": list(DECISIONS)}
    asks = HumanInTheLoopMiddleware(interrupt_on=dict.fromkeys(asked, allowed), interrupt_mode="per_call")
    settles = SettlementMiddleware(settlement)
    model = Model(messages=iter([turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"})), AIMessage("Done.")]))
    middleware = [asks, settles] if place == "before" else [settles, asks]
    agent = create_agent(model, trip(world), middleware=middleware, checkpointer=InMemorySaver())
    answer, happened = DECISIONS[decision]

    state = await run(agent, {"messages": [("human", "go")]})
    assert "mail a" not in world.log
    for _ in asked:
        if "__interrupt__" not in state:
            break
        answers = {
            each.id: answer if each.value["name"] == "mail" else {"type": "approve"} for each in state["__interrupt__"]
        }
        state = await run(agent, Command(resume=answers))

    assert world.log == happened
    assert [recorded.state for recorded in settlement.transactions()] == [State.COMMITTED]
    assert settlement.residue() == []
