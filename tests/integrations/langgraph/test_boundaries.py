"""What settles together: each call, a turn, a superstep at its checkpoint, or a whole run."""

from __future__ import annotations

from typing import Annotated

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.types import Command, interrupt
from tests.integrations.langgraph.world import THREAD, answers, graph, trip, turn

from settlemark import Refused, State, UsageError, current_call
from settlemark.hosting import host_of
from settlemark_langgraph import SequencedToolNode, corrections, frontier, settled_checkpointer

GO = {"messages": [HumanMessage("go")]}


def states(settlement):
    return [t.state for t in settlement.transactions()]


def called(name, n, **arguments):
    return {"name": name, "args": arguments, "id": f"call-{n}", "type": "tool_call"}


def says(*calls, n=1):
    return lambda state: {"messages": [AIMessage("", tool_calls=list(calls), id=f"ai-{n}")]}


def two_steps(first, second, first_node, second_node, checkpointer, between=None):
    """A graph of two turns, each said by a node and run by another."""
    builder = StateGraph(MessagesState)
    builder.add_node("say1", first)
    builder.add_node("do1", first_node)
    builder.add_node("say2", between or second)
    builder.add_node("do2", second_node)
    for start, end in [(START, "say1"), ("say1", "do1"), ("do1", "say2"), ("say2", "do2"), ("do2", END)]:
        builder.add_edge(start, end)
    return builder.compile(checkpointer=checkpointer)


class Two(MessagesState):
    other: Annotated[list, add_messages]


def beside(one, two, says_one, says_two, checkpointer=None, *, third=None):
    """A graph of which two nodes run in one superstep, each with calls of its own."""
    builder = StateGraph(Two)
    builder.add_node("say", lambda state: {**says_one(state), "other": says_two(state)["messages"]})
    builder.add_node("one", one)
    builder.add_node("two", two)
    builder.add_edge(START, "say")
    for name in ("one", "two"):
        builder.add_edge("say", name)
    if third is not None:
        builder.add_node("third", third)
        builder.add_edge("say", "third")
    return builder.compile(checkpointer=checkpointer)


# ---- each call


def test_each_call_settles_by_itself_in_issuance_order_and_a_failure_undoes_no_other(world, settlement, invoke):
    node = SequencedToolNode(
        trip(world, broken=("rent",)), settlement=settlement, settle="call", handle_tool_errors=True
    )
    message = turn(("mail", {"to": "a"}), ("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "b"}))

    state = invoke(graph(node), {"messages": [message]}, THREAD)

    assert world.log == ["mail a", "book Ada", "mail b"]
    assert [status for status, _ in answers(state)] == ["success", "success", "error", "success"]
    assert states(settlement) == [State.COMMITTED, State.COMMITTED, State.ABORTED, State.COMMITTED]
    assert settlement.residue() == []


# ---- a superstep


def superstep_node(world, settlement, *, settle="superstep", key="messages", **options):
    return SequencedToolNode(
        trip(world, **options), settlement=settlement, settle=settle, handle_tool_errors=True, messages_key=key
    )


def test_what_a_superstep_holds_leaves_when_its_checkpoint_is_stored(world, settlement, invoke):
    seen = []
    saver = settled_checkpointer(InMemorySaver(), settlement)

    def second(state):
        seen.append((list(world.log), answers({"messages": corrections(state["messages"], settlement)})))
        return says(called("book", 2, hotel="Bee"), n=2)(state)

    nodes = [superstep_node(world, settlement) for _ in range(2)]
    first = says(called("mail", 0, to="a"), called("look", 1, hotel="Ada"))
    built = two_steps(first, None, *nodes, saver, between=second)

    state = invoke(built, GO, {**THREAD, "recursion_limit": 10}, durability="sync")

    assert seen == [(["look Ada", "mail a"], [("success", "mail done")])]
    assert world.log == ["look Ada", "mail a", "book Bee"]
    assert answers(state)[0] == ("success", "queued: will run when this step settles")
    assert states(settlement) == [State.COMMITTED, State.COMMITTED]


def test_nodes_of_one_superstep_settle_together(world, settlement, invoke):
    saver = settled_checkpointer(InMemorySaver(), settlement)
    built = beside(
        superstep_node(world, settlement),
        superstep_node(world, settlement, key="other"),
        says(called("book", 0, hotel="Ada"), called("mail", 1, to="a")),
        says(called("mail", 2, to="b")),
        saver,
    )

    invoke(built, GO, THREAD)

    assert states(settlement) == [State.COMMITTED]
    told = world.log, [effect.row.key.rpartition("#")[2] for effect in settlement.transactions()[0].effects]
    assert told in (  # the nodes are in threads: the first to come is placed before the other
        (["book Ada", "mail a", "mail b"], ["1/0.0:call-0", "1/0.1:call-1", "1/1.0:call-2"]),
        (["book Ada", "mail b", "mail a"], ["1/0.0:call-2", "1/1.0:call-0", "1/1.1:call-1"]),
    )


def test_a_failure_in_one_node_undoes_the_whole_superstep_and_the_model_is_told(world, settlement, invoke):
    saver = settled_checkpointer(InMemorySaver(), settlement)
    built = beside(
        superstep_node(world, settlement),
        superstep_node(world, settlement, key="other", broken=("rent",)),
        says(called("book", 0, hotel="Ada"), called("mail", 1, to="a")),
        says(called("rent", 2, plate="X")),
        saver,
    )

    state = invoke(built, GO, THREAD)

    assert world.log in (["book Ada", "cancel Ada"], [])
    assert states(settlement) == [State.ABORTED]
    assert settlement.residue() == []
    told = answers({"messages": corrections(state["messages"], settlement)}) or answers(state)
    assert {status for status, _ in told} == {"error"}


def test_where_the_graph_does_not_tell_of_its_checkpoints_that_is_refused_and_nothing_runs(world, settlement, invoke):
    built = beside(
        superstep_node(world, settlement),
        superstep_node(world, settlement, key="other"),
        says(called("book", 0, hotel="Ada")),
        says(called("mail", 2, to="b")),
        InMemorySaver(),
    )

    with pytest.raises(UsageError, match="compile.checkpointer=settled_checkpointer.saver, settlement"):
        invoke(built, GO, THREAD)

    assert world.log == []
    assert states(settlement) == []


def test_effects_of_a_superstep_that_dies_before_its_checkpoint_are_not_repeated_when_it_runs_again(
    world, settlement, invoke
):
    """Its writes could not be applied: two nodes wrote a channel that takes one value."""
    clash = {"twice": True}

    class Clash(Two):
        plain: int

    saver = settled_checkpointer(InMemorySaver(), settlement)
    builder = StateGraph(Clash)
    builder.add_node("say", says(called("book", 0, hotel="Ada"), called("mail", 1, to="a")))
    builder.add_node("do", superstep_node(world, settlement))
    builder.add_node("p", lambda state: {"plain": 1})
    builder.add_node("q", lambda state: {"plain": 2} if clash["twice"] else {})
    builder.add_edge(START, "say")
    for name in ("do", "p", "q"):
        builder.add_edge("say", name)
    built = builder.compile(checkpointer=saver)

    with pytest.raises(InvalidUpdateError):
        invoke(built, GO, THREAD)
    assert world.log == ["book Ada"]
    assert states(settlement) == [State.OPEN]
    clash["twice"] = False
    with pytest.raises(InvalidUpdateError):
        invoke(built, None, THREAD)  # LangGraph has kept what both wrote

    assert world.log == ["book Ada"]


# ---- a run


def run_node(world, settlement, **options):
    return superstep_node(world, settlement, settle="run", **options)


def test_what_a_run_holds_leaves_at_its_end_and_all_of_it_is_one_transaction(world, settlement, invoke):
    seen = []

    def second(state):
        seen.append(list(world.log))
        return says(called("book", 2, hotel="Bee"), n=2)(state)

    first = says(called("book", 0, hotel="Ada"), called("mail", 1, to="a"))
    nodes = [run_node(world, settlement) for _ in range(2)]

    invoke(two_steps(first, None, *nodes, None, between=second), GO)

    assert seen == [["book Ada"]]
    assert world.log == ["book Ada", "book Bee", "mail a"]
    assert states(settlement) == [State.COMMITTED]


def test_a_run_that_is_interrupted_stays_open_and_settles_with_its_resume(world, settlement, invoke):
    def ask(state):
        interrupt("go on?")
        return says(called("book", 2, hotel="Bee"), n=2)(state)

    first = says(called("book", 0, hotel="Ada"), called("mail", 1, to="a"))
    nodes = [run_node(world, settlement) for _ in range(2)]
    built = two_steps(first, None, *nodes, InMemorySaver(), between=ask)

    invoke(built, GO, THREAD)
    assert (world.log, states(settlement)) == (["book Ada"], [State.OPEN])
    invoke(built, Command(resume="yes"), THREAD)

    assert world.log == ["book Ada", "book Bee", "mail a"]
    assert states(settlement) == [State.COMMITTED]


@pytest.mark.parametrize("saved", [True, False])
def test_a_run_that_fails_is_undone_unless_its_thread_can_be_resumed(world, settlement, invoke, saved):
    broken = [True]

    def fails(state):
        if broken:
            raise ValueError("no")
        return says(called("book", 2, hotel="Bee"), n=2)(state)

    first = says(called("book", 0, hotel="Ada"), called("mail", 1, to="a"))
    nodes = [run_node(world, settlement) for _ in range(2)]
    built = two_steps(first, None, *nodes, InMemorySaver() if saved else None, between=fails)

    with pytest.raises(ValueError, match="no"):
        invoke(built, GO, THREAD)
    if not saved:
        assert (world.log, states(settlement)) == (["book Ada", "cancel Ada"], [State.ABORTED])
        return
    assert (world.log, states(settlement)) == (["book Ada"], [State.OPEN])
    broken.clear()
    invoke(built, None, THREAD)

    assert world.log == ["book Ada", "book Bee", "mail a"]
    assert states(settlement) == [State.COMMITTED]


def test_a_boundary_that_does_not_exist_or_has_nothing_to_settle_is_refused(world, settlement):
    with pytest.raises(UsageError, match="settle='step': choose one of 'call', 'node', 'superstep', 'run'"):
        SequencedToolNode(trip(world), settlement=settlement, settle="step")
    with pytest.raises(UsageError, match="settle='run' settles with a settlement only"):
        SequencedToolNode(trip(world), settle="run")


@pytest.mark.parametrize("saved", [True, False])
def test_a_run_that_comes_to_its_recursion_limit_has_failed_and_nothing_of_it_leaves(world, settlement, invoke, saved):
    first = says(called("book", 0, hotel="Ada"), called("mail", 1, to="a"))
    nodes = [run_node(world, settlement) for _ in range(2)]
    built = two_steps(first, says(n=2), *nodes, InMemorySaver() if saved else None)

    with pytest.raises(GraphRecursionError):
        invoke(built, GO, {**THREAD, "recursion_limit": 3})

    assert world.log == (["book Ada"] if saved else ["book Ada", "cancel Ada"])
    assert states(settlement) == [State.OPEN if saved else State.ABORTED]


def test_a_run_that_is_refused_at_its_end_raises_that_because_no_turn_follows_that_could_be_told(
    world, settlement, invoke
):
    first = says(called("book", 0, hotel="Ada"), called("mail", 1, to="a"))
    nodes = [run_node(world, settlement, broken=("mail",)), run_node(world, settlement)]
    built = two_steps(first, says(called("look", 2, hotel="Ada"), n=2), *nodes, None)

    with pytest.raises(Refused, match="mail"):
        invoke(built, GO)

    assert world.log == ["book Ada", "look Ada", "cancel Ada"]
    assert states(settlement) == [State.ABORTED]


def test_after_a_failed_call_the_next_superstep_of_a_run_begins_it_anew(world, settlement, invoke):
    first = says(called("book", 0, hotel="Ada"), called("rent", 1, plate="X"))
    nodes = [run_node(world, settlement, broken=("rent",)), run_node(world, settlement)]

    invoke(two_steps(first, says(called("book", 2, hotel="Bee"), n=2), *nodes, None), GO)

    assert world.log == ["book Ada", "cancel Ada", "book Bee"]
    assert states(settlement) == [State.ABORTED, State.COMMITTED]


def test_a_superstep_settles_when_the_next_begins_where_no_checkpoint_is_stored_between_them(world, settlement, invoke):
    nodes = [superstep_node(world, settlement) for _ in range(2)]
    first, second = says(called("book", 0, hotel="Ada")), says(called("book", 1, hotel="Ada"), n=2)
    built = two_steps(first, second, *nodes, settled_checkpointer(InMemorySaver(), settlement))

    invoke(built, GO, THREAD, durability="exit")

    assert world.log == ["book Ada", "book Ada"]
    assert states(settlement) == [State.COMMITTED, State.COMMITTED]


# ---- what others see of it


@pytest.mark.parametrize("asked", [True, False])
def test_what_became_of_each_effect_goes_to_the_custom_stream_where_that_is_asked_for(world, settlement, asked):
    node = SequencedToolNode(
        trip(world, broken=("rent",)), settlement=settlement, handle_tool_errors=True, stream_outcomes=asked
    )
    message = turn(("book", {"hotel": "Ada"}), ("look", {"hotel": "Ada"}), ("rent", {"plate": "X"}))

    told = [event["settlemark"] for event in graph(node).stream({"messages": [message]}, THREAD, stream_mode="custom")]

    assert [(event["tool"], event["scope"], event["call_id"], event["outcome"]) for event in told] == [
        *([("book", "room:/Ada", "call-0", "undone"), ("rent", "car:/X", "call-2", "failed")] if asked else []),
    ]
    assert {event["transaction"] for event in told} <= {settlement.transactions()[0].row.name}


def test_a_tool_reads_through_its_runtime_how_far_a_scope_is_settled(settlement, invoke):
    seen = []

    def look(hotel: str, runtime: ToolRuntime) -> str:
        """Look."""
        seen.append((frontier(runtime, f"room:/{hotel}"), current_call().epoch))
        return hotel

    node = SequencedToolNode(
        [look], settlement=settlement, effects={"look": {"kind": "idempotent", "scope": "room:/{hotel}"}}
    )
    for n in range(2):
        invoke(graph(node), {"messages": [turn(("look", {"hotel": "Ada"}))]}, {"configurable": {"thread_id": f"t{n}"}})

    (first, first_epoch), (second, second_epoch) = seen
    assert (first, second) == (first_epoch, second_epoch)
    assert first < second == settlement.frontier("room:/Ada") - 1


def test_a_tool_that_nobody_settles_has_no_frontier_to_read(invoke):
    def look(hotel: str, runtime: ToolRuntime) -> str:
        """Look."""
        return str(frontier(runtime, f"room:/{hotel}"))

    with pytest.raises(UsageError, match="this one was called by neither"):
        invoke(graph(ToolNode([look], handle_tool_errors=False)), {"messages": [turn(("look", {"hotel": "Ada"}))]})


def test_what_a_node_may_touch_is_held_before_its_first_call_runs(settlement, invoke):
    held = []

    def book(hotel: str) -> str:
        """Book."""
        held.append(
            {hold.scope.text for txn in host_of(settlement).protocol.live.values() for hold in txn.holds.values()}
        )
        return hotel

    node = SequencedToolNode(
        [book],
        settlement=settlement,
        may_touch="room:/**",
        effects={"book": {"kind": "idempotent", "scope": "room:/{hotel}"}},
    )

    invoke(graph(node), {"messages": [turn(("book", {"hotel": "Ada"}))]}, THREAD)

    assert held == [{"room:/", "room:/Ada"}]
