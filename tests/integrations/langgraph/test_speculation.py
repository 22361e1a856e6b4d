"""Branches of a graph as candidates: a node chooses one, and the others have left nothing, in any effect class."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, Send, interrupt
from tests.integrations.langgraph.test_shared_turns import model_of
from tests.integrations.langgraph.world import THREAD, answers

from settlemark import Refused, Settlement, State, UsageError, effect
from settlemark.hosting import host_of
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, achoose, choice, choose, corrections, rewind

PLANS = ("a", "b", "c")
KINDS = ("read", "idempotent", "keyed", "reversible", "costly", "staged", "irreversible", "opaque")
GO = {"plans": [], "best": None}


class Plans(TypedDict):
    """What the plans' branches say and are told, and which of them is to win."""

    a: Annotated[list, add_messages]
    b: Annotated[list, add_messages]
    c: Annotated[list, add_messages]
    best: str | None


def desk(world, *, broken=()):
    """A tool of every effect class; each acts on a resource of its plan's own, but for what is held anyway."""

    def act(tool, plan):
        if (tool, plan) in broken:
            raise ValueError(f"{tool} is down")
        world.act(f"{tool} {plan}")
        return f"{tool} {plan} done"

    def cancelled(tool):
        return lambda plan: world.act(f"cancel {tool} {plan}")

    def tool(kind, **declared):
        def function(plan: str) -> str:
            return act(kind, plan)

        async def coroutine(plan: str) -> str:
            return act(kind, plan)

        function.__name__ = kind
        declared.setdefault("scope", f"{kind}:/{{plan}}")
        marked = effect(declared.pop("declared", kind), name=kind, **declared)(function)
        return StructuredTool.from_function(marked, coroutine=coroutine, name=kind, description=kind)

    return [
        tool("read"),
        tool("idempotent"),
        tool("keyed", declared="idempotent", undo=cancelled("keyed")),
        tool("reversible", undo=cancelled("reversible")),
        tool("costly", declared="reversible", undo=cancelled("costly"), cost="a fee"),
        tool("staged", scope="cell:/1"),
        tool("irreversible", scope="mail:/all"),
        tool("opaque", scope=None),
    ]


def left(world):
    """What has happened in the world and was not taken back."""
    there = [entry for entry in world.log if not entry.startswith(("cancel", "read"))]
    for entry in world.log:
        if entry.startswith("cancel "):
            there.remove(entry.removeprefix("cancel "))
    return sorted(there)


def call(tool, plan, n=0):
    return {"name": tool, "args": {"plan": plan}, "id": f"{plan}-{tool}-{n}", "type": "tool_call"}


def says(plan, *tools, n=0):
    calls = [call(tool, plan, n) for tool in tools]
    return lambda state: {plan: [AIMessage("I act.", tool_calls=calls, id=f"ai-{plan}-{n}")]}


class Planned(StateGraph):
    """A graph of a branch for each plan, in which the model calls `tools`, and `more` in a turn supersteps later."""

    def __init__(self, node, tools, *, plans=PLANS, more=()):
        super().__init__(Plans)
        self.lasts = []
        for plan in plans:
            self.branch(START, plan, node(plan), tools, 0)
            if more:
                self.branch(self.lasts.pop(), plan, node(plan), more, 1)

    def branch(self, behind, plan, node, tools, n):
        said, done = f"say {plan} {n}", f"do {plan} {n}"
        self.add_node(said, says(plan, *tools, n=n))
        self.add_node(done, node)
        self.add_edge(behind, said)
        self.add_edge(said, done)
        self.lasts.append(done)

    def chosen_by(self, node, *, checkpointer=None, **options):
        """Compile it with a node behind all branches."""
        self.add_node("choose", node, **options)
        self.add_edge(self.lasts, "choose")
        return self.compile(checkpointer=checkpointer)


def candidate(tools, settlement, **options):
    return lambda plan: SequencedToolNode(
        tools, settlement=settlement, candidate=plan, messages_key=plan, handle_tool_errors=True, **options
    )


def states(settlement):
    """By plan: how its transactions ended."""
    found = {}
    for recorded in settlement.transactions():
        if "~" in recorded.row.name:
            found.setdefault(recorded.row.name.rpartition("~")[2], []).append(recorded.state)
    return found


@pytest.fixture(params=["node", "call"])
def chooser(request, settlement, invoke):
    """A node that chooses: one that is made of a function of the state, and one that chooses itself."""

    def chooses(pick):
        if request.param == "node":
            return choice(settlement, pick)

        def node(state):
            choose(pick(state), settlement)

        return node

    return chooses


# ---- effect classes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("winner", PLANS)
def test_of_three_branches_the_losers_leave_nothing_in_any_effect_class(world, settlement, invoke, kind, winner):
    builder = Planned(candidate(desk(world), settlement), [kind])

    invoke(builder.chosen_by(choice(settlement, lambda state: winner)), GO)

    assert left(world) == ([] if kind == "read" else [f"{kind} {winner}"])
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize("kind", KINDS)
def test_on_stock_every_loser_leaves_its_effects(world, settlement, invoke, kind):
    builder = Planned(lambda plan: ToolNode(desk(world), messages_key=plan), [kind])

    invoke(builder.chosen_by(lambda state: {"best": "b"}), GO)

    assert left(world) == ([] if kind == "read" else [f"{kind} {plan}" for plan in PLANS])


def test_several_nodes_of_a_branch_are_one_candidate_and_its_held_effects_leave_last_in_order(
    world, settlement, invoke, chooser
):
    tools = ["read", "reversible", "irreversible", "keyed"]
    builder = Planned(candidate(desk(world), settlement), tools, more=["opaque", "staged"])
    seen = []

    state = invoke(builder.chosen_by(chooser(lambda state: seen.append(sorted(world.log)) or "b")), GO)

    assert seen == [sorted(f"{tool} {plan}" for tool in ("keyed", "read", "reversible") for plan in PLANS)]
    undone = sorted(f"cancel {tool} {plan}" for tool in ("keyed", "reversible") for plan in "ac")
    assert sorted(world.log[9:13]) == undone
    assert world.log[13:] == ["opaque b", "staged b", "irreversible b"]
    assert states(settlement) == {"a": [State.ABORTED], "b": [State.COMMITTED], "c": [State.ABORTED]}
    told = {plan: answers({"messages": corrections(state[plan], settlement)}) for plan in PLANS}
    assert told["b"] == [
        ("success", "reversible b done"),
        ("success", "irreversible b done"),
        ("success", "keyed b done"),
        ("success", "opaque b done"),
        ("success", "staged b done"),
    ]
    assert told["a"][0][1].startswith("undone: reversible had succeeded, and was undone because another branch was")
    assert told["a"][1][1].startswith("never left: irreversible was held, and dropped because another branch was")


def test_choosing_none_undoes_all(world, settlement, invoke, chooser):
    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    invoke(builder.chosen_by(chooser(lambda state: None)), GO)
    assert left(world) == []
    assert host_of(settlement).protocol.live == {}


def test_branches_that_do_the_same_at_once_are_told_to_stage_it_and_that_one_is_out(world, settlement, invoke, chooser):
    def node(plan):
        def book(plan: str) -> str:
            world.act(f"book {plan}")
            return "done"

        tool = StructuredTool.from_function(book, name="book", description="Book.")
        undone = {"kind": "reversible", "scope": "room:/1", "undo": lambda plan: world.act(f"cancel book {plan}")}
        return SequencedToolNode(
            [tool],
            settlement=settlement,
            candidate=plan,
            messages_key=plan,
            effects={"book": undone},
            handle_tool_errors=True,
        )

    builder = Planned(node, ["book"], plans=PLANS[:2])

    def first_that_works(state):
        return next(plan for plan in "ab" if answers({"messages": state[plan]})[0][0] == "success")

    state = invoke(builder.chosen_by(chooser(first_that_works)), GO)

    status = {plan: answers({"messages": state[plan]})[0] for plan in "ab"}
    winner = first_that_works(state)
    loser = {"a": "b", "b": "a"}[winner]
    assert status[loser][0] == "error"
    assert "stage it per branch" in status[loser][1]
    assert left(world) == [f"book {winner}"]


# ---- what can be chosen


def test_a_branch_whose_call_fails_is_undone_and_cannot_be_chosen_and_the_others_stay_open(
    world, settlement, invoke, chooser
):
    refused = []

    def pick(state):
        refused.append(1)
        return "b" if len(refused) == 1 else "c"

    builder = Planned(candidate(desk(world, broken=[("keyed", "b")]), settlement), ["reversible", "keyed"])
    again = RetryPolicy(max_attempts=2, retry_on=UsageError, jitter=False, initial_interval=0.001)
    invoke(builder.chosen_by(chooser(pick), retry_policy=again), GO)

    assert len(refused) == 2
    assert left(world) == ["keyed c", "reversible c"]
    assert host_of(settlement).protocol.live == {}


def test_a_later_node_of_a_branch_that_was_undone_does_nothing(world, settlement, invoke, chooser):
    tools = desk(world, broken=[("keyed", "b")])
    builder = Planned(candidate(tools, settlement), ["reversible", "keyed"], more=["costly"])

    state = invoke(builder.chosen_by(chooser(lambda state: "a")), GO)

    assert left(world) == ["costly a", "keyed a", "reversible a"]
    assert [status for status, _ in answers({"messages": state["b"]})] == ["error", "error", "error"]
    assert "was undone" in answers({"messages": state["b"]})[2][1]


def test_what_is_no_candidate_is_refused_and_all_are_undone_when_nothing_can_resume(world, settlement, invoke, chooser):
    builder = Planned(candidate(desk(world), settlement), ["reversible"])
    with pytest.raises(UsageError, match="'z' is no candidate: nothing moved; choose one of 'a', 'b', 'c'"):
        invoke(builder.chosen_by(chooser(lambda state: "z")), GO)
    assert left(world) == []
    assert host_of(settlement).protocol.live == {}


def test_a_candidate_that_has_called_nothing_may_win(world, settlement, invoke, chooser):
    builder = Planned(candidate(desk(world), settlement), ["reversible"], plans="ab")
    SequencedToolNode(desk(world), settlement=settlement, candidate="idle")
    invoke(builder.chosen_by(chooser(lambda state: "idle")), GO)
    assert left(world) == []
    assert host_of(settlement).protocol.live == {}


def test_outside_of_a_graph_nothing_is_chosen(settlement):
    with pytest.raises(UsageError, match="outside of one"):
        choose("a", settlement)
    with pytest.raises(UsageError, match="outside of one"):
        asyncio.run(achoose("a", settlement))
    with pytest.raises(UsageError, match="is no Settlement"):
        choose("a", None)


@pytest.mark.parametrize("wrong", ["", " ", "a~b", 3])
def test_what_is_no_name_is_refused(world, settlement, wrong):
    with pytest.raises(UsageError, match="give a name, as in candidate='train'"):
        SequencedToolNode(desk(world), settlement=settlement, candidate=wrong)


def test_a_candidate_needs_a_settlement_and_settles_when_it_is_chosen(world, settlement):
    with pytest.raises(UsageError, match="pass settlement="):
        SequencedToolNode(desk(world), candidate="a")
    with pytest.raises(UsageError, match="leave out settle='run'"):
        SequencedToolNode(desk(world), settlement=settlement, candidate="a", settle="run")
    with pytest.raises(UsageError, match="pick=None"):
        choice(settlement, None)


def test_a_stale_winner_is_undone_with_the_others(world, settlement, invoke):
    refused = []
    change = effect("staged", scope="read:/{plan}", name="change")(lambda plan: None)

    def node(state):
        older.call(change, plan="a")
        older.commit()
        try:
            choose("a", settlement)
        except Refused as error:
            refused.append(type(error).__name__)

    builder = Planned(candidate(desk(world), settlement), ["read", "reversible"])
    with settlement.transaction("older") as older:
        invoke(builder.chosen_by(node), GO)
    assert refused == ["Stale"]
    assert left(world) == []
    assert host_of(settlement).protocol.live == {}


# ---- shapes of graphs


def test_agents_may_be_candidates_and_the_choice_is_made_in_the_graph_around_them(world, settlement, invoke):
    tools = desk(world)

    def agent(plan):
        turns = [
            AIMessage("", tool_calls=[call("reversible", plan), call("irreversible", plan)], id=f"ai-{plan}-1"),
            AIMessage("", tool_calls=[call("keyed", plan, 1)], id=f"ai-{plan}-2"),
        ]
        return create_agent(
            model_of(*turns), tools, middleware=[SettlementMiddleware(settlement, candidate=f"trip/{plan}")]
        )

    builder = StateGraph(MessagesState)
    builder.add_node("choose", choice(settlement, lambda state: "trip/b", among="trip"))
    for plan in PLANS:
        builder.add_node(plan, agent(plan))
        builder.add_edge(START, plan)
        builder.add_edge(plan, "choose")
    invoke(builder.compile(), {"messages": [HumanMessage("go")]})

    assert left(world) == ["irreversible b", "keyed b", "reversible b"]
    assert states(settlement) == {"trip/a": [State.ABORTED], "trip/b": [State.COMMITTED], "trip/c": [State.ABORTED]}


class Fan(TypedDict):
    """Of one branch of many."""

    plan: str
    messages: Annotated[list, add_messages]


def test_a_fan_of_sends_names_its_candidates_by_their_state(world, settlement, invoke):
    def explore(state):
        return {"messages": [AIMessage("", tool_calls=[call("reversible", state["plan"])], id=f"ai-{state['plan']}")]}

    inner = StateGraph(Fan)
    inner.add_node("explore", explore)
    node = SequencedToolNode(desk(world), settlement=settlement, candidate=lambda state: state["plan"])
    inner.add_node("do", node)
    inner.add_edge(START, "explore")
    inner.add_edge("explore", "do")
    builder = StateGraph(MessagesState)
    builder.add_node("branch", inner.compile())
    builder.add_node("choose", choice(settlement, lambda state: "p2"))
    builder.add_conditional_edges(START, lambda state: [Send("branch", {"plan": f"p{n}"}) for n in range(4)])
    builder.add_edge("branch", "choose")

    invoke(builder.compile(), {"messages": []})

    assert left(world) == ["reversible p2"]


def test_rounds_of_a_loop_choose_anew_each(world, settlement, invoke):
    class Rounds(Plans):
        round: int

    def said(plan):
        return lambda state: says(plan, "reversible", n=state["round"])(state)

    builder = StateGraph(Rounds)
    builder.add_node("start", lambda state: {"round": state["round"] + 1})
    builder.add_edge(START, "start")
    for plan in "ab":
        builder.add_node(f"say {plan}", said(plan))
        builder.add_node(f"do {plan}", candidate(desk(world), settlement)(plan))
        builder.add_edge("start", f"say {plan}")
        builder.add_edge(f"say {plan}", f"do {plan}")
    builder.add_node("choose", choice(settlement, lambda state: "ab"[state["round"] % 2]))
    builder.add_edge(["do a", "do b"], "choose")
    builder.add_conditional_edges("choose", lambda state: "start" if state["round"] < 3 else END)

    invoke(builder.compile(checkpointer=InMemorySaver()), {**GO, "round": 0}, THREAD)

    assert left(world) == ["reversible a", "reversible b", "reversible b"]
    assert states(settlement) == {
        "a": [State.ABORTED, State.COMMITTED, State.ABORTED],
        "b": [State.COMMITTED, State.ABORTED, State.COMMITTED],
    }
    assert host_of(settlement).protocol.live == {}


# ---- ends without a choice


def test_a_run_that_ends_without_a_choice_undoes_all(world, settlement, invoke, caplog):
    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    invoke(builder.compile(checkpointer=InMemorySaver()), GO, THREAD)
    assert left(world) == []
    assert host_of(settlement).protocol.live == {}
    assert "its run ended without a choice, so all of its candidates are undone" in caplog.text


@pytest.mark.parametrize("saved", [True, False])
def test_a_run_that_fails_before_the_choice_is_undone_unless_it_can_be_resumed(world, settlement, invoke, saved):
    broken = [True]

    def pick(state):
        if broken:
            raise ValueError("no")
        return "b"

    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    built = builder.chosen_by(choice(settlement, pick), checkpointer=InMemorySaver() if saved else None)
    with pytest.raises(ValueError, match="no"):
        invoke(built, GO, THREAD)
    if not saved:
        assert left(world) == []
        assert host_of(settlement).protocol.live == {}
        return
    assert left(world) == ["reversible a", "reversible b", "reversible c"]
    broken.clear()
    invoke(built, None, THREAD)
    assert left(world) == ["irreversible b", "reversible b"]
    assert host_of(settlement).protocol.live == {}


async def test_a_cancelled_run_undoes_all(world, settlement):
    going = asyncio.Event()

    async def waits(state):
        going.set()
        await asyncio.Event().wait()

    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    task = asyncio.create_task(builder.chosen_by(waits).ainvoke(GO))
    await going.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(world) == []
    assert host_of(settlement).protocol.live == {}


async def test_a_choice_that_is_cancelled_is_carried_out_first(world, settlement):
    undoing, going = threading.Event(), threading.Event()

    def cancel(plan: str):
        undoing.set()
        assert going.wait(20)
        world.act(f"cancel book {plan}")

    def book(plan: str) -> str:
        """Book."""
        world.act(f"book {plan}")
        return "done"

    def node(plan):
        return SequencedToolNode(
            [book],
            settlement=settlement,
            candidate=plan,
            messages_key=plan,
            effects={"book": {"kind": "reversible", "scope": "room:/{plan}", "undo": cancel}},
        )

    async def chooses(state):
        await achoose("a", settlement)

    builder = Planned(node, ["book"], plans="ab")
    task = asyncio.create_task(builder.chosen_by(chooses).ainvoke(GO))
    await asyncio.to_thread(undoing.wait, 20)
    task.cancel()
    going.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(world) == ["book a"]
    assert states(settlement) == {"a": [State.COMMITTED], "b": [State.ABORTED]}
    assert host_of(settlement).protocol.live == {}


# ---- resumes


def test_an_interrupt_before_the_choice_keeps_all_open_and_the_resume_chooses(world, settlement, invoke):
    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    built = builder.chosen_by(choice(settlement, lambda state: interrupt("which?")), checkpointer=InMemorySaver())

    asked = invoke(built, GO, THREAD)
    assert [question.value for question in asked["__interrupt__"]] == ["which?"]
    assert left(world) == ["reversible a", "reversible b", "reversible c"]
    assert states(settlement) == {plan: [State.OPEN] for plan in PLANS}
    invoke(built, Command(resume="c"), THREAD)

    assert left(world) == ["irreversible c", "reversible c"]
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_branch_that_was_interrupted_goes_on_in_its_candidate(world, settlement, invoke, durability):
    builder = Planned(candidate(desk(world), settlement), ["reversible"], plans="ab")

    def ask(state):
        assert interrupt("go on?") == "yes"
        return says("a", "keyed", n=1)(state)

    builder.add_node("ask", ask)
    builder.add_node("more", candidate(desk(world), settlement)("a"))
    builder.add_edge(builder.lasts[0], "ask")
    builder.add_edge("ask", "more")
    builder.lasts[0] = "more"
    built = builder.chosen_by(choice(settlement, lambda state: "a"), checkpointer=InMemorySaver())
    invoke(built, GO, THREAD, durability=durability)
    assert left(world) == ["reversible a", "reversible b"]
    invoke(built, Command(resume="yes"), THREAD, durability=durability)

    assert left(world) == ["keyed a", "reversible a"]
    assert states(settlement) == {"a": [State.COMMITTED], "b": [State.ABORTED]}


async def test_over_a_checkpointer_that_is_asynchronous_it_is_the_same(world, settlement):
    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"], more=["keyed"])
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        built = builder.chosen_by(choice(settlement, lambda state: interrupt("which?")), checkpointer=saver)
        await built.ainvoke(GO, THREAD)
        await built.ainvoke(Command(resume="b"), THREAD)
    assert left(world) == ["irreversible b", "keyed b", "reversible b"]
    assert host_of(settlement).protocol.live == {}


def test_a_node_that_has_chosen_and_runs_again_goes_on_with_that(world, settlement, invoke):
    picks = iter("ab")
    chosen = []

    def node(state):
        chosen.append(choose(next(picks), settlement))
        if len(chosen) == 1:
            raise ValueError("behind the choice")

    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    built = builder.chosen_by(node, checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="behind the choice"):
        invoke(built, GO, THREAD)
    invoke(built, None, THREAD)

    assert chosen == ["a", "a"]
    assert left(world) == ["irreversible a", "reversible a"]


def test_new_input_leaves_the_open_candidates_behind_and_they_are_undone(world, settlement, invoke):
    stop = [True]

    def pick(state):
        if stop:
            stop.clear()
            interrupt("which?")
        return "a"

    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    built = builder.chosen_by(choice(settlement, pick), checkpointer=InMemorySaver())
    invoke(built, GO, THREAD)
    invoke(built, GO, THREAD)

    assert left(world) == ["irreversible a", "reversible a"]
    assert states(settlement)["a"] == [State.ABORTED, State.COMMITTED]
    assert host_of(settlement).protocol.live == {}


def test_a_fork_from_before_the_branches_chooses_among_candidates_of_its_own(world, settlement, invoke):
    stop = [True]

    def pick(state):
        if stop:
            stop.clear()
            interrupt("which?")
        return "b"

    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    built = builder.chosen_by(choice(settlement, pick), checkpointer=InMemorySaver())
    invoke(built, GO, THREAD)
    before = next(found for found in built.get_state_history(THREAD) if "say a 0" in found.next)
    invoke(built, None, before.config)

    assert left(world) == ["irreversible b", "reversible b"]
    assert states(settlement)["b"] == [State.ABORTED, State.COMMITTED]
    assert host_of(settlement).protocol.live == {}


def test_a_fork_from_behind_the_branches_of_a_choice_that_was_made_cannot_make_it_again(world, settlement, invoke):
    builder = Planned(candidate(desk(world), settlement), ["reversible", "irreversible"])
    winners = iter("abb")
    built = builder.chosen_by(choice(settlement, lambda state: next(winners)), checkpointer=InMemorySaver())
    invoke(built, GO, THREAD)
    between = next(found for found in built.get_state_history(THREAD) if found.next == ("choose",))
    before = next(found for found in built.get_state_history(THREAD) if "say a 0" in found.next)

    with pytest.raises(Refused, match="was made already"):
        invoke(built, None, between.config)
    with pytest.raises(UsageError, match="in the midst of .*~[abc], which settles as one .a candidate."):
        rewind(built, between.config, settlement, dry_run=False)
    assert left(world) == ["irreversible a", "reversible a"]
    gone_back = rewind(built, before.config, settlement, dry_run=False)

    assert [effect.tool for effect in gone_back.world.residue] == ["irreversible"]
    invoke(built, None, gone_back.config)
    assert left(world) == ["irreversible a", "irreversible b", "reversible b"]
    assert host_of(settlement).protocol.live == {}


# ---- death


CHILD = """
import os, sys
from pathlib import Path
from tests.rooms.engine import Settling
from tests.rooms.lifecycle import Selection
from tests.integrations.langgraph.test_speculation import run_on

dies = sys.argv[2]
if dies == "decided":  # the choice is on record, and nothing of it has happened
    Selection.discard_all = lambda *given, **named: os._exit(9)
elif dies == "undone":  # the losers are undone, and the winner has not committed
    Settling.commit = lambda *given, **named: os._exit(9)
run_on(Path(sys.argv[1]), lambda state: os._exit(9) if dies == "before" else "a")
"""


class Files:
    """A world that is a file: what happened there outlives who did it."""

    def __init__(self, path):
        self.path = path

    @property
    def log(self):
        return self.path.read_text().splitlines() if self.path.exists() else []

    def act(self, entry):
        with self.path.open("a") as file:
            file.write(f"{entry}\n")


def run_on(folder, pick, *, keep_open=30.0):
    """Run the graph on its thread, or go on with it, over a ledger and a checkpointer that are files."""
    tools = desk(Files(folder / "world"))  # first of all: what is left is taken up as soon as its tools are known
    with (
        Settlement(f"sqlite:///{folder / 'ledger.db'}", keep_open=keep_open) as settlement,
        SqliteSaver.from_conn_string(str(folder / "saver.db")) as saver,
    ):
        builder = Planned(candidate(tools, settlement), ["reversible", "irreversible", "opaque"])
        built = builder.chosen_by(choice(settlement, pick), checkpointer=saver)
        built.invoke(None if built.get_state(THREAD).next else GO, THREAD, durability="sync")
        return states(settlement), settlement.residue()


@pytest.fixture(scope="module", autouse=True)
def dying(tmp_path_factory):
    """Processes that die, each at a point of its own, beside the tests that come before."""
    root = Path(__file__).parents[3]
    path = ":".join(str(root / part) for part in ("", "core", "adapters", "integrations"))
    folders = {dies: tmp_path_factory.mktemp(dies) for dies in ("before", "decided", "undone")}
    children = {
        folder: subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder), dies],
            env={"PYTHONPATH": path, "PATH": ""},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for dies, folder in folders.items()
    }
    yield folders, children
    for child in children.values():
        child.kill()
        child.communicate()


@pytest.fixture(scope="module")
def deaths(dying):
    """Where they have died."""
    folders, children = dying
    for child in children.values():
        _, told = child.communicate(timeout=120)
        assert child.returncode == 9, told
    return folders


@pytest.fixture
def died(deaths, tmp_path):
    """Return the folder of a process that died, as it left it."""

    def died(dies):
        shutil.copytree(deaths[dies], tmp_path / dies)
        return tmp_path / dies

    return died


@pytest.mark.parametrize("dies", ["decided", "undone"])
def test_a_process_that_dies_behind_its_choice_has_chosen_and_the_next_carries_that_out(died, dies):
    folder = died(dies)
    world = Files(folder / "world")
    assert "irreversible a" not in world.log
    assert sum(entry.startswith("cancel") for entry in world.log) == (0 if dies == "decided" else 2)

    states, residue = run_on(folder, lambda state: "b")  # which would choose another

    assert left(world) == ["irreversible a", "opaque a", "reversible a"]
    assert len(world.log) == len(set(world.log))
    assert states == {"a": [State.COMMITTED], "b": [State.ABORTED], "c": [State.ABORTED]}
    assert residue == []


def test_who_comes_after_a_process_that_died_before_its_choice_chooses(died):
    folder = died("before")
    world = Files(folder / "world")
    assert left(world) == ["reversible a", "reversible b", "reversible c"]

    states, residue = run_on(folder, lambda state: "b")

    assert left(world) == ["irreversible b", "opaque b", "reversible b"]
    assert states == {"a": [State.ABORTED], "b": [State.COMMITTED], "c": [State.ABORTED]}
    assert residue == []


def test_who_comes_when_the_candidates_of_a_dead_process_were_undone_is_told_so(died):
    folder = died("before")
    # Whether the thread was there before they were undone is a matter of timing.
    with pytest.raises((Refused, UsageError), match="undone when its process had ended|was undone .*its process ended"):
        run_on(folder, lambda state: "b", keep_open=0)
    assert left(Files(folder / "world")) == []
