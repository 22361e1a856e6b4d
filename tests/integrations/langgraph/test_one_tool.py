"""Tools that settle whoever runs them: one settled by hand, and those that are taken out of a `SequencedToolNode`."""

from __future__ import annotations

import copy

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as as_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, create_react_agent
from tests.integrations.langgraph.world import THREAD, answers, graph, trip, turn

from settlemark import DeclarationError, Settlement, UsageError, effect
from settlemark_langgraph import SequencedToolNode, settled

TWO = [("mail", {"to": "ada"}), ("book", {"hotel": "Ada"})]


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")


def agent(tools, *named, version="v2"):
    """A stock agent, as a supervisor is one: it wraps the tools that it is given in a node of its own."""
    model = Model(messages=iter([turn(*named), AIMessage("Done.")]))
    return create_react_agent(model, ToolNode(tools, handle_tool_errors=True), version=version)


def taken_out(world, settlement, **broken):
    return list(SequencedToolNode(trip(world, **broken), settlement=settlement).tools_by_name.values())


def settled_each(world, settlement, **broken):
    return [settled(tool, settlement) for tool in trip(world, **broken)]


MAKERS = [taken_out, settled_each]


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("make", MAKERS)
async def test_calls_that_are_tasks_of_their_own_are_one_turn_in_issuance_order(world, settlement, make, awaited):
    made = agent(make(world, settlement), *TWO)

    given = {"messages": [("human", "go")]}
    state = await made.ainvoke(given) if awaited else made.invoke(given)

    assert world.log == ["book Ada", "mail ada"]
    assert answers(state) == [("success", "mail done"), ("success", "book done")]
    assert len(settlement.transactions()) == 1


@pytest.mark.parametrize("make", MAKERS)
def test_a_failed_call_undoes_the_turn_and_what_cannot_be_undone_never_leaves(world, settlement, make):
    made = agent(make(world, settlement, broken=["rent"]), *TWO, ("rent", {"plate": "R7"}))

    state = made.invoke({"messages": [("human", "go")]})

    assert world.log == ["book Ada", "cancel Ada"]
    assert [status for status, _ in answers(state)] == ["error"] * 3


def test_several_calls_of_one_task_are_refused_when_their_tools_were_taken_out_of_a_node(world, settlement):
    node = ToolNode(taken_out(world, settlement), handle_tool_errors=False)

    with pytest.raises(UsageError, match="was taken out of the SequencedToolNode 'tools'"):
        graph(node).invoke({"messages": [turn(*TWO)]})

    assert world.log == []
    assert settlement.transactions() == []


def test_one_call_of_a_task_settles_also_when_its_tool_was_taken_out_of_a_node(world, settlement):
    state = graph(ToolNode(taken_out(world, settlement))).invoke({"messages": [turn(TWO[0])]})

    assert answers(state) == [("success", "mail done")]
    assert [effect.row.tool for recorded in settlement.transactions() for effect in recorded.effects] == ["mail"]


def test_in_its_own_node_a_tool_is_called_once_and_gets_what_langgraph_injects(world, settlement):
    @as_tool
    @effect("idempotent", scope="car:/{plate}")
    def rent(plate: str, runtime: ToolRuntime) -> str:
        """Rent a car."""
        world.act(plate)
        return runtime.tool_call_id

    for node in (
        SequencedToolNode([rent], settlement=settlement),
        ToolNode([settled(rent, settlement)]),
        SequencedToolNode([settled(rent, settlement)], settlement=settlement),
    ):
        state = graph(node).invoke({"messages": [turn(("rent", {"plate": "R7"}))]})
        assert answers(state) == [("success", "call-0")]

    assert world.log == ["R7"] * 3
    assert len(settlement.transactions()) == 3


def by_hand(tools, give, *, then=lambda: None):
    """A graph whose node runs its calls in a loop of its own."""
    named = {tool.name: tool for tool in tools}

    def act(state):
        calls = state["messages"][-1].tool_calls
        found = [give(named[call["name"]], call) for call in calls]
        then()
        return {"messages": [m if isinstance(m, ToolMessage) else ToolMessage(str(m), tool_call_id="x") for m in found]}

    builder = StateGraph(MessagesState).add_node("act", act).add_edge(START, "act")
    return builder.compile(checkpointer=InMemorySaver())


GIVE = {"the call": lambda tool, call: tool.invoke(call), "its arguments": lambda tool, call: tool.invoke(call["args"])}


@pytest.mark.parametrize("give", GIVE)
def test_a_loop_by_hand_that_runs_again_repeats_no_call(world, settlement, give):
    broken = [RuntimeError("killed")]

    def then():
        if broken:
            raise broken.pop()

    loop = by_hand(settled_each(world, settlement), GIVE[give], then=then)
    with pytest.raises(RuntimeError, match="killed"):
        loop.invoke({"messages": [turn(*TWO)]}, THREAD)
    state = loop.invoke(None, THREAD)

    assert world.log == ["mail ada", "book Ada"]
    assert answers(state) == [("success", "mail done"), ("success", "book done")]


def test_arguments_that_no_call_is_known_by_are_refused_where_a_node_may_run_again(world, settlement):
    loop = by_hand(settled_each(world, settlement), lambda tool, call: tool.invoke({**call["args"]}))

    with pytest.raises(UsageError, match=r"give it the model's call, tool\.invoke\(call\)"):
        loop.invoke({"messages": [turn(*TWO)]}, THREAD)

    assert world.log == []
    assert settlement.transactions() == []


@pytest.mark.parametrize("run", ["invoke", "run"])
def test_outside_of_a_graph_each_call_settles_by_itself(world, settlement, run):
    mail = settled_each(world, settlement)[1]

    assert getattr(mail, run)({"to": "ada"}) == "mail done"

    assert [effect.row.tool for recorded in settlement.transactions() for effect in recorded.effects] == ["mail"]


async def test_outside_of_a_graph_an_awaited_call_settles_by_itself(world, settlement):
    mail = settled_each(world, settlement)[1]

    assert [await mail.ainvoke({"to": "ada"}), await mail.arun({"to": "bee"})] == ["mail done"] * 2

    assert len(settlement.transactions()) == 2


def test_a_stand_in_looks_as_its_tool_and_can_be_copied(world, settlement):
    [book, *_] = trip(world)
    stands = settled(book, settlement)

    assert (stands.name, stands.description, stands.args) == (book.name, book.description, book.args)
    assert isinstance(stands, type(book))
    assert copy.deepcopy(stands).invoke({"hotel": "Ada"}) == "book done"
    assert len(settlement.transactions()) == 1


def test_what_is_no_tool_or_no_settlement_is_refused(settlement):
    def mail(to: str) -> str:
        """Mail."""

    with pytest.raises(UsageError, match="is no Settlement"):
        settled(mail, "memory:")
    with pytest.raises(UsageError, match="is no tool"):
        settled(7, settlement)
    with pytest.raises(DeclarationError, match="declared 'reed'"):
        settled(mail, settlement, effect="reed")
    assert Settlement("memory:").transactions() == []
