"""Going back to a checkpoint undoes what was done after it, tells first what stays, and forks the thread there."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from functools import partial

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from tests.integrations.langgraph import world as outside
from tests.integrations.langgraph.world import THREAD

from settlemark import Rewound, State, UsageError
from settlemark.hosting import host_of
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, arewind, rewind, settled_checkpointer

trip = partial(outside.trip, looked_at="room:/{hotel}")  # a look comes behind the booking issued before it
GO = {"messages": [HumanMessage("go")]}
TURNS = (
    (("book", {"hotel": "Ada"}), ("look", {"hotel": "Ada"})),
    (("book", {"hotel": "Bee"}), ("mail", {"to": "a"})),
    (("book", {"hotel": "Cid"}),),
)


def say(state, turns):
    """What a model says that makes these turns of calls, one after the other."""
    said = sum(message.type == "ai" for message in state["messages"])
    if said >= len(turns):
        return {"messages": [AIMessage("done", id=f"ai-{said}")]}
    calls = [
        {"name": name, "args": args, "id": f"call-{said}-{n}", "type": "tool_call"}
        for n, (name, args) in enumerate(turns[said])
    ]
    return {"messages": [AIMessage(f"turn {said}", tool_calls=calls, id=f"ai-{said}")]}


def agent(tools, settlement, *, turns=TURNS, checkpointer=None, **options):
    """A model and its tools, in a loop."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: say(state, turns))
    node = ToolNode(tools) if settlement is None else SequencedToolNode(tools, settlement=settlement, **options)
    builder.add_node("tools", node)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=checkpointer)


def before_turn(graph, number, config=THREAD):
    """The checkpoint from which the tools of a turn ran."""
    for snapshot in reversed(list(graph.get_state_history(config))):
        said = sum(message.type == "ai" for message in snapshot.values.get("messages", ()))
        if set(snapshot.next) == {"tools"} and said == number:
            return snapshot.config
    raise LookupError(number)


def everything(settlement):
    return [(t.row.name, t.row.attempt, t.state, t.because) for t in settlement.transactions()]


def named(affected):
    return [f"{one.tool} {next(iter(one.arguments.values()))}" for one in affected]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request):
    if request.param == "memory":
        yield InMemorySaver()
        return
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


DONE = ["book Ada", "look Ada", "book Bee", "mail a", "book Cid"]


def test_with_stock_time_travel_the_bookings_stand_and_are_made_once_more(world):
    graph = agent(trip(world), None, checkpointer=InMemorySaver())
    one_by_one = {"max_concurrency": 1}  # stock runs the calls of a turn beside each other, in any order
    graph.invoke(GO, {**THREAD, **one_by_one})

    graph.invoke(None, {**before_turn(graph, 2), **one_by_one})

    assert world.log == [*DONE, "book Bee", "mail a", "book Cid"]


def test_a_dry_run_tells_what_would_be_undone_and_what_stays_and_changes_nothing(world, settlement, saver):
    graph = agent(trip(world), settlement, checkpointer=saver)
    graph.invoke(GO, THREAD)
    before, history = everything(settlement), list(graph.get_state_history(THREAD))

    plan = rewind(graph, before_turn(graph, 2), settlement)

    assert (named(plan.world.undo), named(plan.world.residue)) == (["book Cid", "book Bee"], ["mail a"])
    assert (plan.world.done, plan.config, plan.unplaced) == (False, None, ())
    assert plan.checkpoints == tuple(s.config["configurable"]["checkpoint_id"] for s in history[:4])
    assert "Stays, since it cannot be undone" in str(plan)
    assert json.loads(json.dumps(plan.to_json()))["config"] is None
    assert (world.log, everything(settlement)) == (DONE, before)
    assert list(graph.get_state_history(THREAD)) == history


def test_what_was_done_after_a_checkpoint_is_undone_in_reverse_and_the_fork_runs_it_anew_exactly_once(
    world, settlement, saver
):
    graph = agent(trip(world), settlement, checkpointer=saver)
    graph.invoke(GO, THREAD)

    found = rewind(graph, before_turn(graph, 2), settlement, dry_run=False, by="ada", note="wrong week")

    assert world.log == [*DONE, "cancel Cid", "cancel Bee"]
    assert (named(found.world.undo), named(found.world.residue)) == (["book Cid", "book Bee"], ["mail a"])
    assert [(one.tool, one.tag.value) for one in settlement.residue()] == [("mail", "leaked")]
    assert graph.get_state(THREAD).config["configurable"] == found.config["configurable"]
    assert json.loads(json.dumps(found.to_json()))["config"] == {"configurable": found.config["configurable"]}
    assert graph.get_state(THREAD).next == ("tools",)

    state = graph.invoke(None, found.config)

    assert world.log[len(DONE) + 2 :] == ["book Bee", "mail a", "book Cid"]
    keys = [key for entry, key in zip(world.log, world.keys, strict=True) if entry.startswith(("book", "mail"))]
    assert len(set(keys)) == len(keys)
    assert state["messages"][-1].text == "done"
    graph.invoke(None, THREAD)
    assert world.log[len(DONE) + 2 :] == ["book Bee", "mail a", "book Cid"]


def test_to_the_beginning_undoes_all_and_to_the_end_only_forks(world, settlement, saver):
    graph = agent(trip(world), settlement, checkpointer=saver)
    graph.invoke(GO, THREAD)
    history = list(graph.get_state_history(THREAD))
    before = everything(settlement)

    head = rewind(graph, history[0].config, settlement, dry_run=False)
    assert (head.world.undo, head.world.residue, head.checkpoints) == ((), (), ())
    assert (world.log, everything(settlement)) == (DONE, before)
    assert graph.get_state(THREAD).config["configurable"] == head.config["configurable"]

    found = rewind(graph, history[-1].config, settlement, dry_run=False)
    assert world.log[len(DONE) :] == ["cancel Cid", "cancel Bee", "cancel Ada"]
    assert len(found.checkpoints) == len(history)  # the fork of the end is among them
    graph.invoke(None, found.config)
    assert world.log[len(DONE) + 3 :] == DONE


def test_another_branch_of_the_thread_is_left_as_it_is(world, settlement, saver):
    graph = agent(trip(world), settlement, checkpointer=saver)
    graph.invoke(GO, THREAD)
    old = before_turn(graph, 3)
    fork = rewind(graph, before_turn(graph, 2), settlement, dry_run=False)
    graph.invoke(None, fork.config)
    log = list(world.log)

    again = rewind(graph, old, settlement, dry_run=False)

    assert (again.world.undo, world.log) == ((), log)
    both = rewind(graph, before_turn(graph, 1), settlement)
    assert named(both.world.undo) == ["book Cid", "book Bee", "book Ada"]


# ---- subgraphs


@pytest.mark.parametrize("persistent", [None, True], ids=["of one call", "of its own"])
def test_what_a_subgraph_did_after_the_checkpoint_is_undone_too(world, settlement, saver, persistent):
    builder = StateGraph(MessagesState)
    builder.add_node("child", agent(trip(world), settlement, checkpointer=persistent))
    builder.add_node("last", agent(trip(world), settlement, turns=TURNS[:0]))
    builder.add_edge(START, "child")
    builder.add_edge("child", "last")
    graph = builder.compile(checkpointer=saver)
    graph.invoke(GO, THREAD)
    history = list(graph.get_state_history(THREAD))
    last, child = (next(s.config for s in history if s.next == (node,)) for node in ("last", "child"))

    assert named(rewind(graph, last, settlement).world.undo) == []
    found = rewind(graph, child, settlement, dry_run=False)

    assert world.log == [*DONE, "cancel Cid", "cancel Bee", "cancel Ada"]
    assert named(found.world.residue) == ["mail a"]
    assert found.unplaced == ()


# ---- what has not ended


def asking_tools(world):
    def ask(question: str) -> str:
        """Ask."""
        answer = interrupt(question)
        world.act(f"ask {answer}")
        return answer

    return [*trip(world), ask]


ASKS = ((("book", {"hotel": "Ada"}),), (("book", {"hotel": "Bee"}), ("ask", {"question": "really?"})))


def test_a_turn_that_waits_for_an_answer_is_aborted_first(world, settlement, saver):
    graph = agent(asking_tools(world), settlement, turns=ASKS, checkpointer=saver)
    graph.invoke(GO, THREAD)
    assert world.log == ["book Ada", "book Bee"]

    plan = rewind(graph, before_turn(graph, 1), settlement)
    found = rewind(graph, before_turn(graph, 1), settlement, dry_run=False)

    assert named(plan.world.undo) == named(found.world.undo) == ["book Bee", "book Ada"]
    assert len(found.world.unfinished) == 1
    assert world.log[2:] == ["cancel Bee", "cancel Ada"]
    assert host_of(settlement).protocol.live == {}
    graph.invoke(None, found.config)
    graph.invoke(Command(resume="yes"), THREAD)
    assert world.log[4:] == ["book Ada", "book Bee", "ask yes"]


def test_who_resumes_the_branch_that_was_gone_back_over_is_told_so_and_nothing_acts(world, settlement, saver):
    graph = agent(asking_tools(world), settlement, turns=(ASKS[0], (("ask", {"question": "?"}),)), checkpointer=saver)
    graph.invoke(GO, THREAD)

    def die(*_, **__):
        raise KeyboardInterrupt

    graph.update_state = die  # between the undo and the fork
    with pytest.raises(KeyboardInterrupt):
        rewind(graph, before_turn(graph, 1), settlement, dry_run=False)
    del graph.update_state
    assert world.log == ["book Ada", "cancel Ada"]

    with pytest.raises(Rewound, match="its work was rewound"):
        graph.invoke(Command(resume="yes"), THREAD)

    assert world.log == ["book Ada", "cancel Ada"]
    found = rewind(graph, before_turn(graph, 1), settlement, dry_run=False)
    assert (found.world.undo, world.log) == ((), ["book Ada", "cancel Ada"])
    graph.invoke(None, found.config)
    assert world.log == ["book Ada", "cancel Ada", "book Ada"]


def test_who_resumes_a_branch_whose_next_turn_had_not_begun_is_told_so_too(world, settlement, saver):
    graph = agent(trip(world), settlement, checkpointer=saver)
    config = {**THREAD, "recursion_limit": 100}
    graph.invoke(GO, config, interrupt_before=["tools"])
    graph.invoke(None, config, interrupt_before=["tools"])
    assert world.log == DONE[:2]

    def die(*_, **__):
        raise KeyboardInterrupt

    graph.update_state = die
    with pytest.raises(KeyboardInterrupt):
        rewind(graph, before_turn(graph, 1), settlement, dry_run=False)
    del graph.update_state

    with pytest.raises(Rewound):
        graph.invoke(None, config)
    assert world.log == [*DONE[:2], "cancel Ada"]


# ---- what the thread does not store


def test_effects_of_checkpoints_that_were_not_stored_are_placed_by_their_time(world, settlement, saver):
    graph = agent(trip(world), settlement, turns=TURNS[:1], checkpointer=saver)
    graph.invoke(GO, THREAD, durability="exit")
    first = graph.get_state(THREAD).config
    graph = agent(trip(world), settlement, turns=(*TURNS[:1], (), *TURNS[1:]), checkpointer=saver)
    graph.invoke(GO, THREAD, durability="exit")
    assert world.log == DONE
    assert len(list(graph.get_state_history(THREAD))) == 2

    found = rewind(graph, first, settlement, dry_run=False)

    assert world.log[len(DONE) :] == ["cancel Cid", "cancel Bee"]
    assert found.unplaced == ()


def test_effects_that_may_have_come_from_either_of_two_branches_are_named_and_left(world, settlement, saver):
    graph = agent(trip(world), settlement, turns=TURNS[:1], checkpointer=saver)
    graph.invoke(GO, THREAD)
    fork = rewind(graph, before_turn(graph, 1), settlement, dry_run=False)
    graph.invoke(None, fork.config)
    long = agent(
        trip(world, broken=("mail",)), settlement, turns=(*TURNS[:1], (), TURNS[2], TURNS[1]), checkpointer=saver
    )
    with pytest.raises(ValueError, match="mail is down"):
        long.invoke(GO, THREAD, durability="exit")
    log = list(world.log)

    found = rewind(long, fork.config, settlement, dry_run=False)

    left = [t.effects[0].row.arguments for t in settlement.transactions() if t.row.name in found.unplaced]
    assert left == ['{"hotel":"Cid"}']
    assert "do not tell whether it came after" in str(found)
    assert world.log == [*log, "cancel Ada"]


# ---- what settles together


def superstep_wise(tools, settlement, saver):
    return agent(tools, settlement, checkpointer=settled_checkpointer(saver, settlement), settle="superstep")


def call_wise(tools, settlement, saver):
    return agent(tools, settlement, checkpointer=saver, settle="call")


def by_middleware(tools, settlement, saver):
    class Model(GenericFakeChatModel):
        def bind_tools(self, tools, **options):
            return self

        def _generate(self, messages, *given, **options):
            said = say({"messages": messages}, TURNS)["messages"][0]
            return ChatResult(generations=[ChatGeneration(message=said)])

    middleware = [SettlementMiddleware(settlement)]
    return create_agent(Model(messages=iter(())), tools, middleware=middleware, checkpointer=saver)


@pytest.mark.parametrize("make", [superstep_wise, call_wise, by_middleware])
def test_whatever_settles_together_is_found_by_its_checkpoint(world, settlement, saver, make):
    graph = make(trip(world), settlement, saver)
    graph.invoke(GO, THREAD)
    target = before_turn(graph, 2)

    found = rewind(graph, target, settlement, dry_run=False)

    assert world.log[len(DONE) :] == ["cancel Cid", "cancel Bee"]
    assert (named(found.world.residue), found.unplaced) == (["mail a"], ())
    graph.invoke(None, found.config)
    assert world.log[len(DONE) + 2 :] == ["book Bee", "mail a", "book Cid"]


# ---- whole runs


def test_a_run_that_settles_as_one_is_gone_back_over_whole_or_not_at_all(world, settlement, saver):
    graph = agent(trip(world), settlement, checkpointer=saver, settle="run")
    graph.invoke(GO, THREAD)
    before = everything(settlement)

    with pytest.raises(UsageError, match=r"in the midst of trip-42/root:.*/run, which settles as one"):
        rewind(graph, before_turn(graph, 2), settlement, dry_run=False)
    assert (sorted(world.log), everything(settlement)) == (sorted(DONE), before)

    found = rewind(graph, before_turn(graph, 1), settlement, dry_run=False)
    assert world.log[len(DONE) :] == ["cancel Cid", "cancel Bee", "cancel Ada"]
    assert named(found.world.residue) == ["mail a"]


# ---- asynchronously, and what is refused


def test_in_an_event_loop_it_is_awaited(world, settlement):
    async def main():
        async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
            graph = agent(trip(world), settlement, checkpointer=saver)
            await graph.ainvoke(GO, THREAD)
            history = [snapshot async for snapshot in graph.aget_state_history(THREAD)]
            target = next(s.config for s in history if s.next == ("tools",))
            plan = await arewind(graph, target, settlement)
            assert (named(plan.world.undo), world.log) == (["book Cid"], DONE)
            found = await arewind(graph, target, settlement, dry_run=False)
            assert world.log == [*DONE, "cancel Cid"]
            await graph.ainvoke(None, found.config)
            assert world.log == [*DONE, "cancel Cid", "book Cid"]

    asyncio.run(main())


def test_what_is_no_checkpoint_of_the_thread_is_refused_and_nothing_changes(world, settlement, saver):
    graph = agent(trip(world), settlement, checkpointer=saver)
    graph.invoke(GO, THREAD)
    before = everything(settlement)
    for config, message in (
        (THREAD, "names no checkpoint to go back to"),
        ({"configurable": {"thread_id": "trip-42", "checkpoint_id": "1f0"}}, "has no checkpoint 1f0"),
        (
            {"configurable": {"thread_id": "trip-42", "checkpoint_id": "1f0", "checkpoint_ns": "child:1"}},
            "a checkpoint of the subgraph child:1",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            rewind(graph, config, settlement, dry_run=False)
    with pytest.raises(UsageError, match="no checkpointer of its own"):
        rewind(agent(trip(world), settlement), before_turn(graph, 1), settlement)
    assert (world.log, everything(settlement)) == (DONE, before)
    assert {t.state for t in settlement.transactions()} == {State.COMMITTED}
