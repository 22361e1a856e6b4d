"""A thread that goes on without a turn that waits for a person: nothing stays, or leaves, that no plan asks for."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from settlemark import Settlement, effect
from settlemark.hosting import host_of
from settlemark_langgraph import SequencedToolNode, settled_checkpointer

SETTLES = ("call", "node", "superstep", "run")
CONFIG = {"configurable": {"thread_id": "trip-42"}}


def call(name, number, what):
    return {"name": name, "args": {"what": what}, "id": number, "type": "tool_call"}


BOOK, MAIL, PAY = call("book", "1", "Ada"), call("mail", "2", "boss"), call("pay", "3", "x")
EDITS = {
    "a call was removed": ([BOOK, PAY], ["book Ada", "pay x"]),
    "arguments were edited": (
        [BOOK, call("mail", "2", "ada"), call("pay", "3", "y")],
        ["book Ada", "pay y", "mail ada"],
    ),
    "the order was changed": ([PAY, BOOK], ["pay x", "book Ada"]),
    "all calls were removed": ([], []),
}


class Desk:
    """A counterparty with a log of its own, a graph whose tools act there, and a person who says yes."""

    def __init__(self, settle, *, within=False, settled=True):
        self.log, self.settlement = [], Settlement("memory:", wait=2)

        @effect("reversible", scope="room:/{what}", undo=lambda what: self.log.remove(f"book {what}"))
        def book(what: str) -> str:
            """Book a room."""
            self.log.append(f"book {what}")
            return "booked"

        @effect("irreversible", scope="mail:/{what}")
        def mail(what: str) -> str:
            """Send a mail."""
            self.log.append(f"mail {what}")
            return "sent"

        @effect("reversible", scope="pay:/{what}", undo=lambda what: self.log.remove(f"pay {what}"), approve=True)
        def pay(what: str) -> str:
            """Pay."""
            self.log.append(f"pay {what}")
            return "paid"

        self.plans = [[BOOK, MAIL, PAY], [BOOK, PAY]]
        builder = StateGraph(MessagesState)
        builder.add_node("model", self._model)
        builder.add_node("tools", SequencedToolNode([book, mail, pay], settlement=self.settlement, settle=settle))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", self._route, ["tools", END])
        builder.add_edge("tools", "model")
        saver = InMemorySaver()
        saver = settled_checkpointer(saver, self.settlement) if settled or settle == "superstep" else saver
        if within:
            outer = StateGraph(MessagesState)
            outer.add_node("agent", builder.compile())
            outer.add_edge(START, "agent")
            builder = outer
        self.graph = builder.compile(checkpointer=saver)

    def _model(self, state):
        last = state["messages"][-1]
        if isinstance(last, HumanMessage):
            return {"messages": [AIMessage("I act.", id=f"ai-{len(self.plans)}", tool_calls=self.plans.pop(0))]}
        return {"messages": [AIMessage("done")]}

    def _route(self, state):
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    def start(self):
        assert "__interrupt__" in self.graph.invoke({"messages": [HumanMessage("Go.")]}, CONFIG)

    def go_on(self, given=None):
        found = self.graph.invoke(given, CONFIG)
        while "__interrupt__" in found:
            found = self.graph.invoke(Command(resume={"decision": "approve"}), CONFIG)

    def found(self):
        return self.log, self.settlement.residue(), host_of(self.settlement).protocol.live


@pytest.fixture
def begin():
    desks = []

    def start(settle, **options):
        desks.append(Desk(settle, **options))
        desks[-1].start()
        return desks[-1]

    yield start
    for desk in desks:
        desk.settlement.close()


def settled_before(settle):
    """What a turn had settled by itself before it waited: each call alone, where calls settle alone."""
    return ["book Ada", "mail boss"] if settle == "call" else []


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("settle", SETTLES)
def test_a_turn_whose_message_is_edited_while_it_waits_is_undone_and_the_edited_one_runs(begin, settle, edit):
    calls, done = EDITS[edit]
    desk = begin(settle)
    edited = AIMessage("I act.", id="ai-2", tool_calls=calls)
    desk.graph.update_state(CONFIG, {"messages": [edited]}, as_node="model")
    desk.go_on()
    assert sorted(desk.log) == sorted([*settled_before(settle), *done])
    assert desk.found()[1:] == ([], {})


@pytest.mark.parametrize("as_node", ["model", "tools"])
@pytest.mark.parametrize("settle", SETTLES)
def test_a_turn_whose_calls_a_person_answers_in_its_place_is_undone(begin, settle, as_node):
    desk = begin(settle)
    answers = [ToolMessage("not now", tool_call_id=number) for number in "123"]
    desk.graph.update_state(CONFIG, {"messages": answers}, as_node=as_node)
    desk.go_on()
    assert desk.found() == (settled_before(settle), [], {})


@pytest.mark.parametrize("within", [False, True], ids=["alone", "within a graph"])
@pytest.mark.parametrize("settled", [True, False], ids=["settled checkpointer", "any checkpointer"])
@pytest.mark.parametrize("settle", SETTLES)
def test_a_turn_that_other_input_comes_behind_is_undone_before_the_next_acts(begin, settle, settled, within):
    desk = begin(settle, settled=settled, within=within)
    desk.go_on({"messages": [HumanMessage("Something else.")]})
    assert desk.found() == ([*settled_before(settle), "book Ada", "pay x"], [], {})


@pytest.mark.parametrize("within", [False, True], ids=["alone", "within a graph"])
@pytest.mark.parametrize("settle", SETTLES)
def test_a_turn_that_is_answered_goes_on(begin, settle, within):
    """The control."""
    desk = begin(settle, within=within)
    desk.go_on(Command(resume={"decision": "approve"}))
    assert sorted(desk.log) == ["book Ada", "mail boss", "pay x"]
    assert desk.found()[1:] == ([], {})


@pytest.mark.parametrize("settle", SETTLES)
def test_a_turn_that_waits_is_left_alone_by_other_threads(begin, settle):
    desk = begin(settle)
    desk.plans = [[call("book", "1", "Bee")]]
    desk.graph.invoke({"messages": [HumanMessage("Go.")]}, {"configurable": {"thread_id": "trip-43"}})
    desk.go_on(Command(resume={"decision": "approve"}))
    assert sorted(desk.log) == ["book Ada", "book Bee", "mail boss", "pay x"]
    assert desk.found()[1:] == ([], {})


@pytest.mark.parametrize("settle", SETTLES)
def test_a_turn_of_a_thread_that_was_sent_back_behind_its_end_waits_for_its_answer_whoever_looks(begin, settle):
    """Its newest checkpoint says that nothing follows, and what was written to it since says otherwise."""
    desk = begin(settle)
    desk.go_on(Command(resume={"decision": "approve"}))
    desk.log.clear()
    calls = [call("book", "4", "Eve"), call("pay", "5", "z")]
    again = {"messages": [AIMessage("I act once more.", id="again", tool_calls=calls)]}
    assert "__interrupt__" in desk.graph.invoke(Command(goto="tools", update=again), CONFIG)
    desk.graph.get_state(CONFIG)
    assert (desk.log, len(host_of(desk.settlement).protocol.live)) == (["book Eve"], 1)
    desk.go_on(Command(resume={"decision": "approve"}))
    assert desk.found() == (["book Eve", "pay z"], [], {})
