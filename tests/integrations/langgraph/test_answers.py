"""A gate takes LangChain's own answers, a mistyped `effects=` is refused, and nodes and agents can be copied."""

from __future__ import annotations

import copy

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from tests.integrations.langgraph.world import THREAD, answers, graph, trip, turn

from settlemark import DeclarationError, effect
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def gated(world):
    @tool
    @effect("irreversible", scope="mail:/{to}", approve=True)
    def mail(to: str) -> str:
        """Send a mail."""
        world.act(f"mail {to}")
        return "sent"

    return mail


def agent(tools, settlement, *named, **options):
    model = Model(messages=iter([turn(*named), AIMessage("Done.")]))
    middleware = [SettlementMiddleware(settlement, **options)]
    return create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())


EDITED = {"name": "mail", "args": {"to": "bee"}}
YES = [
    {"type": "approve"},
    {"decisions": [{"type": "approve"}]},
    [{"type": "accept", "args": None}],
]
NO = [
    ({"type": "reject", "message": "too late"}, "too late"),
    ({"decisions": [{"type": "reject", "message": "too late"}]}, "too late"),
    ({"type": "respond", "message": "I have mailed"}, "I have mailed"),
    ([{"type": "response", "args": "I have mailed"}], "I have mailed"),
    ([{"type": "ignore", "args": None}], "rejected by a human"),
]
EDIT = [
    {"type": "edit", "edited_action": EDITED},
    {"decisions": [{"type": "edit", "edited_action": EDITED}]},
    [{"type": "edit", "args": {"action": "mail", "args": {"to": "bee"}}}],
]
UNREAD = [
    {"type": "perhaps"},
    {"decisions": []},
    {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    {"type": "approve", "message": "but only if it rains"},
    {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "bee"}}},
    {"type": "edit"},
    {"type": "approve", "unless": "it rains"},
]


def asked(world, settlement, answer):
    made = agent([gated(world)], settlement, ("mail", {"to": "ada"}))
    made.invoke({"messages": [("human", "go")]}, THREAD)
    return made.invoke(Command(resume=answer), THREAD)


@pytest.mark.parametrize("answer", YES, ids=str)
def test_a_yes_in_a_form_of_langchains_lets_the_call_run(world, settlement, answer):
    assert answers(asked(world, settlement, answer)) == [("success", "sent")]
    assert world.log == ["mail ada"]


@pytest.mark.parametrize(("answer", "said"), NO, ids=str)
def test_a_no_or_a_response_stops_it_and_the_model_is_told_what_the_person_wrote(world, settlement, answer, said):
    [(status, text)] = answers(asked(world, settlement, answer))

    assert status == "error"
    assert said in text
    assert world.log == []


@pytest.mark.parametrize("answer", EDIT, ids=str)
def test_an_edit_runs_the_call_with_the_persons_arguments(world, settlement, answer):
    assert answers(asked(world, settlement, answer)) == [("success", "sent")]
    assert world.log == ["mail bee"]


@pytest.mark.parametrize(
    "answer", [{"decisions": [{"type": "aprove"}]}, [{"type": "aprove", "args": None}], {"type": "aprove"}], ids=str
)
def test_a_misspelt_type_is_named_and_nothing_runs(world, settlement, answer):
    [question] = asked(world, settlement, answer)["__interrupt__"]

    assert question.value["error"].startswith("'aprove' is not a decision: answer \"approve\"")
    assert world.log == []


@pytest.mark.parametrize("answer", UNREAD, ids=str)
def test_what_no_form_reads_is_asked_again_with_the_forms_and_nothing_runs(world, settlement, answer):
    state = asked(world, settlement, answer)

    assert "nothing was run" in state["__interrupt__"][0].value["error"]
    assert world.log == []


def test_a_name_in_effects_that_is_almost_a_tools_is_refused_before_the_first_effect(world, settlement):
    made = agent(trip(world), settlement, ("book", {"hotel": "Ada"}), effects={"books": "read"})

    with pytest.raises(DeclarationError, match="'books', which is no tool of this agent: is 'book' meant"):
        made.invoke({"messages": [("human", "go")]}, THREAD)

    assert world.log == []
    assert settlement.transactions() == []


def test_a_name_in_effects_of_another_agents_tool_is_told_once(world, settlement, caplog):
    for thread in ("one", "two"):
        made = agent(trip(world), settlement, ("book", {"hotel": "Ada"}), effects={"transfer_to_clerk": "read"})
        made.invoke({"messages": [("human", "go")]}, {"configurable": {"thread_id": thread}})

    assert world.log == ["book Ada", "book Ada"]
    assert len([r for r in caplog.records if "'transfer_to_clerk', which is no tool of this agent" in r.message]) == 1


def test_a_copy_of_a_node_or_of_a_middleware_settles_in_the_same_settlement(world, settlement):
    node = copy.deepcopy(SequencedToolNode(trip(world), settlement=settlement))
    graph(node).invoke({"messages": [turn(("book", {"hotel": "Ada"}))]})
    model = Model(messages=iter([turn(("book", {"hotel": "Bee"})), AIMessage("Done.")]))
    middleware = copy.deepcopy(SettlementMiddleware(settlement))
    create_agent(model, trip(world), middleware=[middleware]).invoke({"messages": [("human", "go")]})

    assert copy.deepcopy(settlement) is settlement
    assert world.log == ["book Ada", "book Bee"]
    assert len(settlement.transactions()) == 2
