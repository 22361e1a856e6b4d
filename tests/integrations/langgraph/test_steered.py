"""A thread that is steered: what is said becomes a message, and world and checkpoint go back together."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send
from tests.integrations.langgraph import world as outside
from tests.integrations.langgraph.world import THREAD

from settlemark import Paused, UsageError, effect
from settlemark_langgraph import SequencedToolNode, asteered, steered

trip = partial(outside.trip, looked_at="room:/{hotel}")
RUN = THREAD["configurable"]["thread_id"]
GO = {"messages": [HumanMessage("go")]}


class Model:
    """A model that books Ada, Bee and Cid, and mails; that books Dee in the place of Bee when it is told so.

    `at` is called before it is asked, with how many answers it has given in this branch of the thread.
    """

    def __init__(self, at):
        self.at = at
        self.heard = []

    def __call__(self, state):
        said = sum(message.type == "ai" for message in state["messages"])
        self.at(said)
        told = [message.text for message in state["messages"] if message.type == "human"][1:]
        self.heard.append(told)
        second = "Dee" if any("not Bee" in text for text in told) else "Bee"
        turns = [
            ("book", {"hotel": "Ada"}),
            ("book", {"hotel": second}),
            ("mail", {"to": "a"}),
            ("book", {"hotel": "Cid"}),
        ]
        if said >= len(turns):
            return {"messages": [AIMessage("done", id=f"ai-{said}")]}
        name, args = turns[said]
        call = {"name": name, "args": args, "id": f"call-{said}-{second}", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call], id=f"ai-{said}-{second}")]}


class Heeding:
    """A model that says `plan(told)`, turn by turn, by what it has been told; each call has an id of its own.

    `acts` are called before it is asked for the so-and-so-manieth time in all, from 1.
    """

    def __init__(self, plan, acts):
        self.plan = plan
        self.acts = acts
        self.asked = 0

    def __call__(self, state):
        self.asked += 1
        self.acts.get(self.asked, lambda: None)()
        turns = self.plan([message.text for message in state["messages"] if message.type == "human"][1:])
        said = sum(message.type == "ai" for message in state["messages"])
        calls = [
            {"name": name, "args": args, "id": f"call-{self.asked}-{n}", "type": "tool_call"}
            for n, (name, args) in enumerate(turns[said] if said < len(turns) else ())
        ]
        return {"messages": [AIMessage("" if calls else "done", tool_calls=calls)]}


def book(hotel):
    return "book", {"hotel": hotel}


MAIL = ("mail", {"to": "a"})


def agent(tools, settlement, model, **options):
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", SequencedToolNode(tools, settlement=settlement, **options))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


def once(step, act):
    left = [step]

    def at(said):
        if left == [said]:
            left.clear()
            act()

    return at


def humans(graph):
    return [message.text for message in graph.get_state(THREAD).values["messages"] if message.type == "human"]


def play(graph, settlement, how, given=GO):
    if how == "sync":
        return steered(graph, given, THREAD, settlement)
    return asyncio.run(asteered(graph, given, THREAD, settlement))


@pytest.fixture(params=["sync", "async"])
def how(request):
    return request.param


def test_nothing_is_said_and_the_graph_runs_as_it_does(world, settlement, how):
    graph = agent(trip(world), settlement, Model(lambda said: None))
    value = play(graph, settlement, how)
    assert (value["messages"][-1].text, world.log) == ("done", ["book Ada", "book Bee", "mail a", "book Cid"])


def test_an_addition_is_told_at_the_next_call_of_the_model_and_once(world, settlement, how):
    model = Model(once(1, lambda: settlement.steer(RUN, "add", "a window seat", by="eve")))
    graph = agent(trip(world), settlement, model)
    play(graph, settlement, how)
    assert model.heard == [[], [], *[["eve says (add): a window seat"]] * 3]
    assert humans(graph) == ["go", "eve says (add): a window seat"]
    assert world.log == ["book Ada", "book Bee", "mail a", "book Cid"]
    assert [said.state for said in settlement.steering(RUN)] == ["done"]


def test_a_revision_takes_world_and_checkpoint_back_to_where_the_decision_in_conflict_was_made(world, settlement, how):
    model = Model(once(4, lambda: settlement.steer(RUN, "revise", "not Bee", scope="room:/Bee", by="eve")))
    graph = agent(trip(world), settlement, model)
    value = play(graph, settlement, how)
    assert value["messages"][-1].text == "done"
    assert world.log == [
        "book Ada", "book Bee", "mail a", "book Cid", "cancel Cid", "cancel Bee", "book Dee", "book Cid",
    ]  # fmt: skip # a list of acts
    (said,) = settlement.steering(RUN)
    assert (said.state, said.before, humans(graph)) == ("done", None, ["go", said.words()])


def test_what_came_before_the_conflict_stays_and_what_cannot_be_undone_is_told(world, settlement, how):
    model = Model(once(3, lambda: settlement.steer(RUN, "revise", "not Bee", scope="room:/Bee", by="eve")))
    graph = agent(trip(world), settlement, model)
    value = play(graph, settlement, how)
    (said,) = settlement.steering(RUN)
    assert (said.state, [each.scope for each in said.bound]) == ("done", ["mail:/a"])
    assert [each.scope for each in said.undone][-1] == "room:/Bee"
    assert value["messages"][-1].text == "done"
    assert world.log.count("book Ada") == 1
    assert "cancel Bee" in world.log
    assert world.log.index("cancel Bee") < world.log.index("book Dee")
    assert humans(graph) == ["go", said.words()]


def test_what_could_not_be_undone_answers_one_call_that_repeats_it_and_the_next_one_is_new(world, settlement, how):
    revise = partial(settlement.steer, RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    model = Heeding(lambda told: [[book("Dee" if told else "Bee")], [MAIL], *([[MAIL]] if told else [])], {3: revise})
    value = play(agent(trip(world), settlement, model), settlement, how)
    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee", "mail a"]
    assert [text for _, text in outside.answers(value)] == ["book done", "mail done", "mail done"]
    (said,) = settlement.steering(RUN)
    (bound,) = said.bound
    assert [(each.effect, each.call_id, each.answered) for each in said.repeats] == [(bound.key, "call-5-0", True)]


@pytest.mark.parametrize("shape", ["calls", "messages"])
def test_of_two_alike_calls_that_are_sent_to_two_nodes_it_answers_one(world, settlement, how, shape):
    revise = partial(settlement.steer, RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    model = Heeding(lambda told: [[book("Dee")], [MAIL, MAIL]] if told else [[book("Bee")], [MAIL]], {3: revise})
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    for node in ("one", "two"):
        builder.add_node(node, SequencedToolNode(trip(world), settlement=settlement, name=node))
        builder.add_edge(node, "model")

    def send(state):
        sent = [[call] for call in state["messages"][-1].tool_calls]
        given = sent if shape == "calls" else [{"messages": [AIMessage("", tool_calls=calls)]} for calls in sent]
        return [Send(node, each) for node, each in zip(("one", "two"), given, strict=False)] or END

    builder.add_conditional_edges("model", send, ["one", "two", END])
    play(builder.compile(checkpointer=InMemorySaver()), settlement, how)
    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee", "mail a"]
    (said,) = settlement.steering(RUN)
    assert len(said.repeats) == 1


class Trimming(Heeding):
    """A model that says these turns, one after the other, and then leaves only the persons' messages in the state."""

    def __init__(self, turns, acts):
        super().__init__(lambda told: [], acts)
        self.turns = iter(turns)

    def __call__(self, state):
        turn, said = next(self.turns), sum(message.type == "ai" for message in state["messages"])
        self.plan = lambda told: [*[[]] * said, turn]
        trimmed = [message for message in state["messages"] if message.type != "human"]
        said = super().__call__(state)["messages"]
        return {"messages": [*(RemoveMessage(message.id) for message in trimmed), *said]}


def test_a_call_behind_the_answer_is_new_also_where_no_message_of_that_is_left(world, settlement, how):
    revise = partial(settlement.steer, RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    model = Trimming([[book("Bee")], [MAIL], [], [book("Dee")], [MAIL], [MAIL], []], {3: revise})
    play(agent(trip(world), settlement, model), settlement, how)
    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee", "mail a"]
    (said,) = settlement.steering(RUN)
    assert [each.call_id for each in said.repeats] == ["call-5-0"]


def test_and_also_where_the_thread_has_gone_back_to_a_place_behind_the_answer(world, settlement, how):
    def say(what):
        return partial(settlement.steer, RUN, "revise", f"not {what}", scope=f"room:/{what}", by="eve")

    turns = [[book("Bee")], [MAIL], [], [book("Dee")], [MAIL], [book("Eve")], [], [MAIL], []]
    model = Trimming(turns, {3: say("Bee"), 7: say("Eve")})
    play(agent(trip(world), settlement, model), settlement, how)
    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee", "book Eve", "cancel Eve", "mail a"]


SENT = {
    "a list": lambda call, _state: [call],
    "a message of its own": lambda call, _state: {"messages": [AIMessage("", tool_calls=[call])]},
    "a call with its state": lambda call, state: {
        "__type": "tool_call_with_context", "tool_call": call, "state": {"messages": state["messages"]},
    },
    "a call with another state": lambda call, _state: {
        "__type": "tool_call_with_context", "tool_call": call, "state": {"messages": []},
    },
}  # fmt: skip # a table


@pytest.mark.parametrize("given", SENT.values(), ids=SENT)
def test_two_alike_calls_that_are_sent_to_two_nodes_are_answered_once_and_the_other_is_new(
    world, settlement, how, given
):
    revise = partial(settlement.steer, RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    model = Heeding(lambda told: [[book("Dee")], [MAIL, MAIL]] if told else [[book("Bee")], [MAIL]], {3: revise})
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    for node in ("here", "there"):
        builder.add_node(node, SequencedToolNode(trip(world), settlement=settlement))
        builder.add_edge(node, "model")

    def sent(state):
        calls = state["messages"][-1].tool_calls
        return [Send(node, given(call, state)) for node, call in zip(("here", "there"), calls, strict=False)] or END

    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", sent, ["here", "there", END])
    value = play(builder.compile(checkpointer=InMemorySaver()), settlement, how)
    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee", "mail a"]
    assert [text for _, text in outside.answers(value)] == ["book done", "mail done", "mail done"]
    (said,) = settlement.steering(RUN)
    assert [each.answered for each in said.repeats] == [True]


def forgetting(model, at):
    """Return the model, which forgets all of its messages but a person's before it is asked for that time."""

    def node(state):
        gone = [each for each in state["messages"] if each.type != "human"] if model.asked == at - 1 else []
        said = model({"messages": [each for each in state["messages"] if each not in gone]})
        return {"messages": [*(RemoveMessage(each.id) for each in gone), *said["messages"]]}

    return node


def test_what_has_answered_a_call_answers_no_later_one_also_when_the_thread_has_forgotten_that(world, settlement, how):
    revise = partial(settlement.steer, RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    plan = [[book("Bee")], [MAIL]], [[book("Dee")], [MAIL]]
    model = Heeding(lambda told: plan[1] if told else plan[0], {3: revise, 6: lambda: plan[1].__setitem__(0, [MAIL])})
    value = play(agent(trip(world), settlement, forgetting(model, 6)), settlement, how)
    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee", "mail a", "mail a"]
    assert model.asked == 8
    assert [text for _, text in outside.answers(value)] == ["mail done", "mail done"]


def test_a_model_that_is_asked_anew_before_its_answer_was_kept_is_answered_so_again(world, settlement, how):
    """The process that was answered has ended, and its thread is not known to have come through that."""
    revise = partial(settlement.steer, RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    model = Heeding(lambda told: [[book("Dee" if told else "Bee")], [MAIL]], {3: revise})
    graph = agent(trip(world), settlement, forgetting(model, 0))
    play(graph, settlement, how)
    before = next(
        each for each in graph.get_state_history(THREAD)
        if each.values["messages"][-1].type == "tool" and each.next == ("model",)
        and each.values["messages"][-1].name == "book"
    )  # fmt: skip # a choice among states

    async def anew():
        return await graph.ainvoke(None, before.config)

    value = graph.invoke(None, before.config) if how == "sync" else asyncio.run(anew())

    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee"]
    assert [text for _, text in outside.answers(value)] == ["book done", "mail done"]


def test_a_thread_that_goes_back_behind_the_answer_is_answered_so_again(world, settlement, how):
    def say(what):
        return partial(settlement.steer, RUN, "revise", f"not {what}", scope=f"room:/{what}", by="eve")

    model = Heeding(lambda told: [[book(("Bee", "Dee", "Eve")[len(told)])], [MAIL]], {3: say("Bee"), 6: say("Dee")})
    play(agent(trip(world), settlement, model), settlement, how)
    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee", "cancel Dee", "book Eve"]
    first, second = settlement.steering(RUN)
    assert ([each.call_id for each in first.repeats], second.bound) == (["call-5-0", "call-8-0"], ())


def test_what_is_like_it_is_refused_once_and_run_when_the_model_asks_for_it_again(world, settlement, how):
    other = ("mail", {"to": "a", "text": "sorry"})

    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str, text: str = "hello") -> str:
        """Send a mail."""
        world.act(f"mail {to} {text}")
        return "sent"

    tools = [each for each in trip(world) if each.name != "mail"]
    revise = partial(settlement.steer, RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    model = Heeding(lambda told: [[book("Dee")], [other], [other]] if told else [[book("Bee")], [MAIL]], {3: revise})
    value = play(agent([*tools, mail], settlement, model), settlement, how)
    assert world.log == ["book Bee", "mail a hello", "cancel Bee", "book Dee", "mail a sorry"]
    _, (_, refused), last = outside.answers(value)
    assert ("was done before in this job" in refused, last) == (True, ("success", "sent"))


def test_what_is_not_in_conflict_stays_and_answers_the_call_that_the_model_issues_again(world, settlement, how):
    revise = partial(settlement.steer, RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    model = Heeding(lambda told: [[book("Ada"), book("Dee" if told else "Bee"), book("Cid")]], {2: revise})
    value = play(agent(trip(world), settlement, model, settle="call"), settlement, how)
    assert world.log == ["book Ada", "book Bee", "book Cid", "cancel Cid", "cancel Bee", "book Dee", "book Cid"]
    assert [text for _, text in outside.answers(value)] == ["book done"] * 3
    (said,) = settlement.steering(RUN)
    assert ([each.scope for each in said.kept], [each.scope for each in said.undone], said.bound) == (
        ["room:/Ada"], ["room:/Cid", "room:/Bee"], (),
    )  # fmt: skip # a table of what stays
    assert "stands, and is answered with what it returned where it is called again: book on room:/Ada" in said.words()


def test_what_was_said_before_a_thread_is_given_more_is_heard_before_that_and_nothing_given_is_lost(
    world, settlement, how
):
    model = Heeding(lambda told: [[book("Bee" if "eve" not in str(told) else "Dee")], [MAIL]], {})
    graph = agent(trip(world), settlement, model)
    play(graph, settlement, how)
    settlement.steer(RUN, "revise", "not Bee", scope="room:/Bee", by="eve")
    play(graph, settlement, how, {"messages": [HumanMessage("and be quick")]})
    (said,) = settlement.steering(RUN)
    assert humans(graph) == ["go", said.words(), "and be quick"]
    assert world.log == ["book Bee", "mail a", "cancel Bee", "book Dee"]


def test_a_message_is_put_into_the_state_in_one_update_whichever_node_leads_on_from_there(world, settlement, how):
    """Where the process dies, the newest state of the thread is one from which it goes on as it would have."""
    settlement.steer(RUN, "add", "a window seat", by="eve")
    heard = []
    builder = StateGraph(MessagesState)
    builder.add_node("aside", lambda state: {})
    builder.add_node("before", lambda state: {})
    builder.add_node("model", lambda state: heard.append([each.text for each in state["messages"]]))
    builder.add_edge(START, "aside")
    builder.add_edge(START, "before")
    builder.add_edge("before", "model")
    graph = builder.compile(checkpointer=InMemorySaver())

    play(graph, settlement, how)

    assert heard == [["go", settlement.steering(RUN)[0].words()]]
    newest_first = [(each.metadata["source"], each.next) for each in graph.get_state_history(THREAD)]
    assert newest_first == [
        ("loop", ()),
        ("update", ("model",)),
        ("loop", ("model",)),
        ("loop", ("aside", "before")),
        ("input", ("__start__",)),
    ]


def test_a_message_that_would_lead_elsewhere_from_every_node_is_not_put_there_and_nothing_changed(
    world, settlement, how
):
    settlement.steer(RUN, "add", "a window seat", by="eve")
    builder = StateGraph(MessagesState)
    builder.add_node("before", lambda state: {})
    builder.add_node("model", lambda state: {})
    builder.add_edge(START, "before")
    told = "eve says"
    builder.add_conditional_edges("before", lambda state: END if told in state["messages"][-1].text else "model")
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(UsageError, match="could not be put into its state so that model comes next"):
        play(graph, settlement, how)

    newest = graph.get_state(THREAD)
    assert (newest.metadata["source"], newest.next) == ("loop", ("model",))
    assert humans(graph) == ["go"]


def test_a_paused_thread_stops_between_two_supersteps_and_goes_on_there(world, settlement, how):
    model = Model(once(1, lambda: settlement.pause(RUN, by="eve", because="no budget")))
    graph = agent(trip(world), settlement, model)
    with pytest.raises(Paused):
        play(graph, settlement, how)
    assert world.log == ["book Ada"]
    assert settlement.paused()[0].before == "tools"
    settlement.go_on(RUN, by="eve")
    play(graph, settlement, how, None)
    assert world.log == ["book Ada", "book Bee", "mail a", "book Cid"]


def test_a_config_without_a_thread_is_refused(settlement, world):
    graph = agent(trip(world), settlement, Model(lambda said: None))
    with pytest.raises(UsageError, match="config names no thread"):
        steered(graph, GO, {}, settlement)
    assert world.log == []
