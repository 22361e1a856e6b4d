"""A turn whose step, or whose node, was out of time does not commit later: it is undone, or said to be in doubt."""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeTimeoutError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy
from tests.between import Between
from tests.integrations.clocks import LIMIT, StepClock, use_up
from tests.integrations.langgraph.test_shared_turns import Model
from tests.integrations.langgraph.world import THREAD, answers, turn
from tests.rooms.langgraph import ending

from settlemark import State, effect
from settlemark.hosting import host_of
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware

PATIENCE = 60.0
TRIP = (("book", {"hotel": "Ada"}), ("mail", {"to": "ada"}), ("slow", {"to": "x"}), ("book", {"hotel": "Bee"}))


class Late:
    """Is over when the time of its step is, and no sooner."""

    def __init__(self, monkeypatch):
        self.over = threading.Event()
        self._clock = StepClock(monkeypatch)
        real = ending._is_out_of_time

        def is_out_of_time(error):
            found = real(error)
            if found:
                self.over.set()
            return found

        monkeypatch.setattr(ending, "_is_out_of_time", is_out_of_time)

    def wait(self):
        self._clock.use_up()
        self.over.wait(PATIENCE)


def tools(world, wait, await_=None):
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"))
    def book(hotel: str) -> str:
        """Book a room."""
        world.act(f"book {hotel}")
        return "booked"

    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        world.act(f"mail {to}")
        return "sent"

    @effect("reversible", scope="slow:/{to}", undo=lambda to: world.act(f"unslow {to}"), probe=lambda to: None)
    def slow(to: str) -> str:
        """Take longer than there is time for."""
        wait()
        world.act(f"slow {to}")
        return "done"

    async def aslow(to: str) -> str:
        await await_()
        world.act(f"slow {to}")
        return "done"

    coroutine = None if await_ is None else aslow
    return [
        StructuredTool.from_function(book, name="book"),
        StructuredTool.from_function(mail, name="mail"),
        StructuredTool.from_function(slow, coroutine=coroutine, name="slow"),
    ]


def node_graph(tools, settlement, **node):
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [turn(*TRIP)]})
    builder.add_node("tools", SequencedToolNode(tools, settlement=settlement), **node)
    builder.add_edge(START, "say")
    builder.add_edge("say", "tools")
    return builder


def _node(tools, settlement):
    graph = node_graph(tools, settlement).compile(checkpointer=InMemorySaver())
    graph.step_timeout = LIMIT
    return graph


def _agent(tools, settlement):
    said = iter([turn(*TRIP), AIMessage("done", id="ai-done")])
    middleware = [SettlementMiddleware(settlement)]
    agent = create_agent(Model(messages=said, told=[]), tools, middleware=middleware, checkpointer=InMemorySaver())
    agent.step_timeout = LIMIT
    return agent


def _inner(tools, settlement):
    """A graph in a node of one whose step is out of time: LangGraph tells the inner one nothing."""
    inner = node_graph(tools, settlement)
    inner.add_node("again", lambda state: {"messages": [turn(("book", {"hotel": "Cee"}), ids=["call-9"])]})
    inner.add_node("more", SequencedToolNode(tools, settlement=settlement))
    inner.add_edge("tools", "again")
    inner.add_edge("again", "more")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    graph = outer.compile(checkpointer=InMemorySaver())
    graph.step_timeout = LIMIT
    return graph


GO = {"messages": [HumanMessage("go", id="go")]}
KINDS = {"a node": _node, "an agent": _agent, "a graph within": _inner}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_turn_whose_step_is_out_of_time_is_undone_and_nothing_of_it_leaves(world, settlement, monkeypatch, kind):
    late = Late(monkeypatch)
    graph = kind(tools(world, late.wait), settlement)

    with pytest.raises(TimeoutError):
        graph.invoke(GO, THREAD)

    assert late.over.is_set()
    assert world.log == ["book Ada", "slow x", "unslow x", "cancel Ada"]
    assert {found.state for found in settlement.transactions()} == {State.ABORTED}
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.parametrize("kind", [_node, _agent])
def test_its_thread_goes_on_with_what_became_of_it_and_does_nothing_of_it_again(world, settlement, monkeypatch, kind):
    late = Late(monkeypatch)
    graph = kind(tools(world, late.wait), settlement)
    with pytest.raises(TimeoutError):
        graph.invoke(GO, THREAD)
    before = list(world.log)
    graph.step_timeout = None

    said = graph.invoke(None, THREAD)

    assert world.log == before
    first, *others = answers(said)
    assert first == ("error", "undone: book had succeeded, and was undone because the step was stopped by TimeoutError")
    assert [status for status, _ in others] == ["error"] * 3


def test_an_error_of_a_tools_own_that_is_a_timeout_cuts_no_other_turn_short(world, settlement, monkeypatch):
    """Another branch goes on, as with stock: its answers are kept, and a resume does not run it again."""
    begun, failed = threading.Event(), threading.Event()
    real = ending.Ending._above

    def above(self, *given):
        failed.set()
        return real(self, *given)

    monkeypatch.setattr(ending.Ending, "_above", above)

    def wait():
        begun.set()
        failed.wait(PATIENCE)

    def fail(state):
        begun.wait(PATIENCE)
        raise TimeoutError("no answer")

    builder = node_graph(tools(world, wait), settlement)
    builder.add_node("fail", fail)
    builder.add_edge("say", "fail")
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(TimeoutError, match="no answer"):
        graph.invoke(GO, THREAD)

    assert failed.is_set()
    assert world.log == ["book Ada", "slow x", "book Bee", "mail ada"]
    assert [found.state for found in settlement.transactions()] == [State.COMMITTED]


@pytest.mark.parametrize("tries", [1, 2])
async def test_a_node_that_is_out_of_time_is_undone_and_a_retry_does_it_all_anew(world, settlement, tries):
    started = 0

    async def wait():
        nonlocal started
        started += 1
        if started == 1:
            use_up()
            await asyncio.Event().wait()

    retry = RetryPolicy(initial_interval=0, jitter=False, max_attempts=tries, retry_on=NodeTimeoutError)
    builder = node_graph(tools(world, None, wait), settlement, timeout=LIMIT, retry_policy=retry)
    graph = builder.compile(checkpointer=InMemorySaver())

    if tries == 1:
        with pytest.raises(NodeTimeoutError):
            await graph.ainvoke(GO, THREAD)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    else:
        said = await graph.ainvoke(GO, THREAD)
        assert [status for status, _ in answers(said)] == ["success"] * 4
    anew = ["book Ada", "slow x", "book Bee", "mail ada"] if tries == 2 else []
    assert world.log == ["book Ada", "cancel Ada", *anew]
    assert settlement.residue() == []


class Turn:
    settled = False


def test_what_is_to_be_undone_is_told_while_threads_of_the_run_open_further_turns():
    """The time of a run is over, and its threads go on: one may open a turn at any moment that is not kept from it."""
    over = ending.Ending(object(), [])
    turns = [Turn() for _ in range(3)]
    for each in turns:
        over.undoes(each)

    def meanwhile():
        if not over._lock.locked():  # else that thread waits
            turns.append(Turn())
            over.undoes(turns[-1])

    with Between(("ending.py", "_weakrefset.py"), meanwhile):
        found = over._unsettled()

    assert set(turns[:3]) <= set(found) <= set(turns)
    assert len(turns) > 3, "nothing came in between: the test shows nothing"
