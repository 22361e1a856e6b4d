"""All questions of a turn are asked at once, each with an id of its own: of several tasks, and of one tool node."""

from __future__ import annotations

import itertools
import threading

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Command, interrupt
from tests.integrations.langgraph.test_shared_turns import Model
from tests.integrations.langgraph.world import THREAD, answers, turn

from settlemark import Settlement, State, effect
from settlemark.agents import OpenTurn
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, edit, reject


def tools(world, *, asks=True, kind="irreversible"):
    undo = {} if kind == "irreversible" else {"undo": lambda to: world.act(f"unpay {to}")}

    @effect(kind, scope="pay:/{to}", approve=asks, **undo)
    def pay(to: str) -> str:
        """Pay."""
        world.act(f"pay {to}")
        return f"paid {to}"

    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"))
    def book(hotel: str) -> str:
        """Book a room."""
        world.act(f"book {hotel}")
        return f"booked {hotel}"

    @effect("opaque")
    def ask(question: str) -> str:
        """Ask a person."""
        answer = interrupt(question)
        world.act(f"ask {question} {answer}")
        return answer

    def both(function):
        async def coroutine(**arguments):
            return function(**arguments)

        return StructuredTool.from_function(function, coroutine=coroutine, name=function.__name__)

    return [both(function) for function in (pay, book, ask)]


@pytest.fixture
def saver():
    return InMemorySaver()


@pytest.fixture(params=["agent", "node"])
def agent(world, settlement, saver, request):
    """An agent, each of whose calls is a task, or a graph with one tool node for all of them."""

    def agent(*calls, before=(), kind="irreversible", asks=True, **options):
        said = iter([turn(*calls), AIMessage("done", id="ai-done")])
        if request.param == "node":
            if before:
                pytest.skip("a middleware is an agent's")
            node = SequencedToolNode(tools(world, kind=kind, asks=asks), settlement=settlement, **options)
            return in_a_node(said, node, saver)
        middleware = [*before, SettlementMiddleware(settlement, **options)]
        return create_agent(
            Model(messages=said, told=[]), tools(world, kind=kind, asks=asks), middleware=middleware, checkpointer=saver
        )

    return agent


def in_a_node(said, node, saver):
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda _state: {"messages": [next(said)]})
    builder.add_node("tools", node)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


def asked(said):
    """Return what is asked, by the ids of the questions."""
    found = said.get("__interrupt__", ())
    assert len({one.id for one in found}) == len(found)
    return {_about(one.value): one.id for one in found}


def _about(value):
    if isinstance(value, str):
        return value
    arguments = value["arguments"] if "arguments" in value else value["args"]
    return next(iter(arguments.values()))


GO = {"messages": [HumanMessage("go")]}
PAYS = [("pay", {"to": to}) for to in "abc"]


@pytest.mark.parametrize("park", ["keep", "split"])
@pytest.mark.parametrize("kind", ["irreversible", "reversible"])
@pytest.mark.parametrize("order", ["turn", "scopes", "issued"])
def test_every_call_of_a_turn_that_needs_a_yes_is_asked_about_at_once_with_an_id_of_its_own(
    agent, invoke, world, kind, order, park
):
    built = agent(*PAYS, kind=kind, order=order, park=park)

    ids = asked(invoke(built, GO, THREAD))

    assert set(ids) == {"a", "b", "c"}
    assert len(set(ids.values())) == 3
    assert {one.id for one in built.get_state(THREAD).interrupts} == set(ids.values())
    said = invoke(built, Command(resume=dict.fromkeys(ids.values(), "approve")), THREAD)
    assert world.log == ["pay a", "pay b", "pay c"]
    assert [text for _, text in answers(said)] == ["paid a", "paid b", "paid c"]


@pytest.mark.parametrize("kind", ["irreversible", "reversible"])
@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_they_are_answered_in_any_order_and_what_is_still_open_is_told(agent, invoke, world, settlement, order, kind):
    built = agent(*PAYS, kind=kind)
    ids = asked(invoke(built, GO, THREAD))

    for number, name in enumerate(order):
        said = invoke(built, Command(resume={ids[name]: "approve"}), THREAD)
        still_open = {other: ids[other] for other in order[number + 1 :]}
        assert asked(said) == still_open
        assert {one.id for one in built.get_state(THREAD).interrupts} == set(still_open.values())

    assert world.log == ["pay a", "pay b", "pay c"]
    assert [state for _, state in _settled(settlement)] == [State.COMMITTED]


def test_who_waits_for_a_question_asks_it_no_second_time_however_soon_it_hears_of_it(
    world, settlement, saver, monkeypatch
):
    told = threading.Event()
    leave = OpenTurn.leave

    def leaves(self, call, **ends):
        if call.arguments == {"to": "b"}:
            told.set()
        return leave(self, call, **ends)

    class Slow(AgentMiddleware):
        """Holds back the question of the first call until the second, which waits for it, is on its way out."""

        def wrap_tool_call(self, request, handler):
            try:
                return handler(request)
            except GraphInterrupt:
                if request.tool_call["args"] == {"to": "a"} and holds:
                    assert told.wait(60)
                raise

    said = iter([turn(*PAYS), AIMessage("done", id="ai-done")])
    built = create_agent(
        Model(messages=said, told=[]),
        tools(world, kind="reversible"),
        checkpointer=saver,
        middleware=[SettlementMiddleware(settlement), Slow()],
    )
    holds = False
    ids = asked(built.invoke(GO, THREAD))
    monkeypatch.setattr(OpenTurn, "leave", leaves)
    holds = True

    assert asked(built.invoke(Command(resume={ids["b"]: "approve"}), THREAD)) == {"a": ids["a"], "c": ids["c"]}

    assert world.log == []


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_what_is_split_at_them_is_answered_in_any_order_and_what_came_before_has_settled(
    agent, invoke, world, settlement, order
):
    built = agent(("book", {"hotel": "Ada"}), *PAYS, ("book", {"hotel": "Bee"}), park="split")
    ids = asked(invoke(built, GO, THREAD))
    assert set(ids) == {"a", "b", "c"}
    assert (world.log[0], settlement.transactions()[0].state) == ("book Ada", State.COMMITTED)

    for name in order:
        invoke(built, Command(resume={ids[name]: "approve"}), THREAD)

    assert sorted(world.log) == ["book Ada", "book Bee", "pay a", "pay b", "pay c"]
    assert [entry for entry in world.log if entry.startswith("pay")] == ["pay a", "pay b", "pay c"]
    assert {state for _, state in _settled(settlement)} == {State.COMMITTED}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", ["irreversible", "reversible"])
@pytest.mark.parametrize("edits", ["a", "b", "c", "bc"])
@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_what_is_split_at_them_leaves_as_a_person_edits_it_in_any_order(
    agent, invoke, world, settlement, order, edits, kind
):
    built = agent(("book", {"hotel": "Ada"}), *PAYS, ("book", {"hotel": "Bee"}), park="split", kind=kind)
    ids = asked(invoke(built, GO, THREAD))

    for number, name in enumerate(order):
        said = invoke(
            built, Command(resume={ids[name]: edit({"to": f"{name}2"}) if name in edits else "approve"}), THREAD
        )
        assert set(asked(said)) == {*order[number + 1 :]}

    paid = [f"{name}2" if name in edits else name for name in "abc"]
    assert sorted(world.log) == sorted(["book Ada", "book Bee", *(f"pay {to}" for to in paid)])
    assert [entry for entry in world.log if entry.startswith("pay")] == [f"pay {to}" for to in paid]
    assert [text for _, text in answers(said)] == ["booked Ada", *(f"paid {to}" for to in paid), "booked Bee"]
    assert {state for _, state in _settled(settlement)} == {State.COMMITTED}
    assert (settlement.residue(), settlement.approvals()) == ([], [])


@pytest.mark.parametrize("no", "abc")
def test_a_no_to_one_ends_the_turn_and_the_others_are_told(agent, invoke, world, settlement, no):
    built = agent(("book", {"hotel": "Ada"}), *PAYS)
    ids = asked(invoke(built, GO, THREAD))
    assert world.log == ["book Ada"]

    said = invoke(built, Command(resume={ids[one]: reject() if one == no else "approve" for one in ids}), THREAD)

    assert asked(said) == {}
    assert world.log == ["book Ada", "cancel Ada"]
    assert [status for status, _ in answers(said)] == ["error"] * 4
    assert settlement.approvals() == []


def test_a_call_between_them_waits_for_what_is_asked_before_it_and_keeps_back_no_question(agent, invoke, world):
    built = agent(PAYS[0], ("ask", {"question": "why?"}), ("book", {"hotel": "Ada"}), PAYS[1], kind="reversible")
    ids = asked(invoke(built, GO, THREAD))

    assert set(ids) == {"a", "b"}
    assert world.log == []
    first = asked(invoke(built, Command(resume={ids["a"]: "approve"}), THREAD))
    assert set(first) == {"why?", "b"}
    assert world.log == ["pay a"]
    invoke(built, Command(resume={first["why?"]: "because", first["b"]: "approve"}), THREAD)
    assert world.log == ["pay a", "ask why? because", "book Ada", "pay b"]


def test_questions_and_answers_may_be_of_processes_of_their_own(world, saver, tmp_path, invoke):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"

    def process(given):
        with Settlement(url) as settlement:
            said = iter([turn(*PAYS), AIMessage("done", id="ai-done")] if given is GO else [AIMessage("done", id="d")])
            model = Model(messages=said, told=[])
            return invoke(
                create_agent(model, tools(world), middleware=[SettlementMiddleware(settlement)], checkpointer=saver),
                given,
                THREAD,
            )

    ids = asked(process(GO))
    for name in "cab":
        process(Command(resume={ids[name]: "approve"}))

    assert world.log == ["pay a", "pay b", "pay c"]


# ---- LangChain's own approvals, one question for each call


HITL = {"interrupt_mode": "per_call", "interrupt_on": {"pay": {"allowed_decisions": ["approve", "edit", "reject"]}}}


@pytest.mark.parametrize("where", ["before", "behind"])
def test_langchains_own_questions_stand_beside_each_other_and_undo_nothing(agent, invoke, world, settlement, where):
    hitl = HumanInTheLoopMiddleware(**HITL)
    built = agent(("book", {"hotel": "Ada"}), *PAYS[:2], before=[hitl], asks=False)
    if where == "behind":
        said = iter([turn(("book", {"hotel": "Ada"}), *PAYS[:2]), AIMessage("done", id="ai-done")])
        built = create_agent(
            Model(messages=said, told=[]),
            tools(world, asks=False, kind="reversible"),
            middleware=[SettlementMiddleware(settlement), hitl],
            checkpointer=InMemorySaver(),
        )

    ids = asked(invoke(built, GO, THREAD))
    assert "cancel Ada" not in world.log
    while ids:
        one = next(iter(ids.values()))
        ids = asked(invoke(built, Command(resume={one: {"type": "approve"}}), THREAD))

    assert world.log == ["book Ada", "pay a", "pay b"]
    assert [state for _, state in _settled(settlement)] == [State.COMMITTED]


def _settled(settlement):
    return [(found.row.name, found.state) for found in settlement.transactions()]
