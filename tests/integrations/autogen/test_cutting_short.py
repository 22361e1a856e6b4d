"""A cancelled agent, and a tool or workbench that raises: nothing hangs, and nothing half-done is left."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from tests.integrations.autogen.test_stock import Raising
from tests.integrations.autogen.world import Scripted, agent, answers, trip, turn

from settlemark import Settlement, effect
from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench

ERRORS = [ValueError("no"), asyncio.CancelledError(), TimeoutError("late")]


class Desk:
    """Tools that book and mail; booking "slow" tarries until it is let go."""

    def __init__(self, world):
        self.running, self.let_go = asyncio.Event(), asyncio.Event()
        self._world = world

        def cancel(hotel: str):
            world.act(f"cancel {hotel}")

        def probe(key: str):
            return "book done" if key in world.keys else None

        @effect("reversible", scope="room:/{hotel}", undo=cancel, probe=probe)
        async def book(hotel: str) -> str:
            """Book a room."""
            if hotel == "slow":
                self.running.set()
                await self.let_go.wait()
            world.act(f"book {hotel}")
            return "book done"

        @effect("irreversible", scope="mail:/{to}")
        async def mail(to: str) -> str:
            """Send a mail."""
            world.act(f"mail {to}")
            return "mail done"

        self.tools = [book, mail]


SLOW = turn(("book", {"hotel": "Ada"}), ("book", {"hotel": "slow"}), ("mail", {"to": "a"}), ("book", {"hotel": "Bee"}))


async def quiet():
    """Let all other tasks end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


def states(settlement):
    return [t.state.value for t in settlement.transactions()]


# ---- what raises


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("both", [True, False], ids=["both", "workbench alone"])
async def test_a_workbench_that_raises_is_answered_and_the_agent_goes_on(world, settlement, error, both):
    workbench = SettledWorkbench(Raising(error, world), settlement, run="trip-42", unsettled="allow")
    model = Scripted(turn(("fail", {}), ("act", {})))
    client = SettledChatCompletionClient(model, settlement) if both else model

    result = await AssistantAgent("agent", client, workbench=workbench, max_tool_iterations=2).run(task="go")

    assert result.messages[-1].content == "done"
    (failed, _) = answers(result)
    assert failed[0]
    assert world.log == ([] if both else ["act"])  # alone each call settles by itself


async def test_a_tool_that_leaves_its_outcome_open_is_told_so_and_is_in_doubt(world, settlement):
    @effect("opaque")
    async def pay(card: str) -> str:
        """Pay."""
        world.act(f"pay {card}")
        raise TimeoutError("no answer")

    result = await agent(Scripted(turn(("pay", {"card": "7"}))), [pay], settlement).run(task="go")

    assert world.log == ["pay 7"]
    assert [doubt.tool for doubt in settlement.in_doubt()] == ["pay"]
    assert answers(result)[0][0]
    assert "do not repeat it" in answers(result)[0][1]


# ---- what is cancelled


async def test_the_calls_of_a_cancelled_agent_act_no_more_and_what_they_did_is_undone(world, settlement):
    desk = Desk(world)
    job = asyncio.create_task(agent(Scripted(SLOW), desk.tools, settlement).run(task="go"))

    await desk.running.wait()
    job.cancel()
    await asyncio.wait([job])
    desk.let_go.set()
    await quiet()

    assert job.cancelled()
    assert world.log == ["book Ada", "cancel Ada"]
    assert states(settlement) == ["aborted"]


@pytest.mark.parametrize("both", [True, False], ids=["both", "workbench alone"])
@pytest.mark.parametrize("in_team", [False, True])
async def test_a_cancelled_token_hangs_nobody_and_what_was_begun_is_undone_or_named(world, settlement, both, in_team):
    desk, token = Desk(world), CancellationToken()
    workbench = SettledWorkbench(desk.tools, settlement, run="trip-42", unsettled="allow")
    model = Scripted(SLOW)
    client = SettledChatCompletionClient(model, settlement) if both else model
    played = AssistantAgent("agent", client, workbench=workbench)
    if in_team:
        played = RoundRobinGroupChat([played], termination_condition=MaxMessageTermination(2))
    job = asyncio.create_task(played.run(task="go", cancellation_token=token))

    await desk.running.wait()
    token.cancel()
    with suppress(asyncio.CancelledError):
        await job
    desk.let_go.set()
    await quiet()

    assert "mail a" not in world.log
    assert "book slow" not in world.log
    assert "book Bee" not in world.log
    assert world.log == (["book Ada", "cancel Ada"] if both else ["book Ada"])
    assert set(states(settlement)) <= {"aborted", "committed"}


@pytest.mark.parametrize(
    ("calls", "log", "state"), [(1, ["book Ada"], "committed"), (2, ["book Ada", "cancel Ada"], "aborted")]
)
async def test_a_synchronous_tool_is_waited_for_and_then_nothing_more_acts(world, settlement, calls, log, state):
    """A thread cannot be cut short: what it did is known, and stands if it was all, else it is undone."""
    begun, let_go = threading.Event(), threading.Event()

    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"))
    def book(hotel: str) -> str:
        """Book a room."""
        begun.set()
        assert let_go.wait(20)
        world.act(f"book {hotel}")
        return "book done"

    message = turn(*[("book", {"hotel": "Ada"}), ("book", {"hotel": "Bee"})][:calls])
    job = asyncio.create_task(agent(Scripted(message), [book], settlement).run(task="go"))
    await asyncio.to_thread(begun.wait, 20)
    job.cancel()
    await asyncio.wait([job])
    let_go.set()
    await quiet()

    assert (world.log, states(settlement)) == (log, [state])
    assert (settlement.residue(), settlement.in_doubt()) == ([], [])


async def test_nobody_waits_for_a_call_of_the_turn_that_was_cancelled_before_it_began(world):
    token = CancellationToken()
    token.cancel()
    desk = Desk(world)
    with Settlement("memory:", wait=1e6) as settlement:
        workbench = SettledWorkbench(desk.tools, settlement, run="trip-42", unsettled="allow")
        client = SettledChatCompletionClient(
            Scripted(turn(*[("book", {"hotel": h}) for h in ("Ada", "Bee")])), settlement
        )
        await client.create([], tools=await workbench.list_tools())

        cancelled, booked = await asyncio.gather(
            workbench.call_tool("book", {"hotel": "Ada"}, token, "call-0"),
            workbench.call_tool("book", {"hotel": "Bee"}, None, "call-1"),
        )

    assert (cancelled.is_error, booked.is_error) == (True, False)
    assert world.log == ["book Bee"]


async def test_a_call_whose_token_was_cancelled_before_never_runs_and_keeps_nobody_waiting(world):
    token = CancellationToken()
    token.cancel()
    desk = Desk(world)
    with Settlement("memory:", wait=1e6) as settlement:
        workbench = SettledWorkbench(desk.tools, settlement, run="trip-42", unsettled="allow")

        result = await workbench.call_tool("book", {"hotel": "Ada"}, token, "call-0")

        assert result.is_error
        assert "book was cancelled" in result.to_text()
        assert (world.log, settlement.transactions()) == ([], [])


async def test_whoever_waits_for_a_call_and_is_cancelled_gets_no_exception_but_the_call_is_cancelled(world, settlement):
    """An agent whose workbench raises hangs, also for a cancellation: so there is none."""
    desk = Desk(world)
    workbench = SettledWorkbench(desk.tools, settlement, run="trip-42", unsettled="allow")
    job = asyncio.create_task(workbench.call_tool("book", {"hotel": "slow"}))

    await desk.running.wait()
    job.cancel()
    result = await job
    desk.let_go.set()
    await quiet()

    assert result.is_error
    assert world.log == []


async def test_after_a_cancelled_job_another_gets_what_it_held_and_the_same_one_may_begin_again(world, settlement):
    desk = Desk(world)
    job = asyncio.create_task(agent(Scripted(SLOW), desk.tools, settlement).run(task="go"))
    await desk.running.wait()
    job.cancel()
    await asyncio.wait([job])
    await quiet()
    desk.let_go.set()
    world.log.clear()

    await agent(Scripted(SLOW), desk.tools, settlement, run="trip-43").run(task="go")
    again = await agent(Scripted(SLOW), desk.tools, settlement).run(task="go")

    assert world.log == ["book Ada", "book slow", "book Bee", "mail a"] * 2
    assert answers(again) == [(False, "book done")] * 2 + [(False, "mail done"), (False, "book done")]


async def test_a_stop_iteration_out_of_a_synchronous_tool_is_a_failure_and_undoes_its_turn(world, settlement):
    """A thread's future takes none: with stock the agent waits for ever."""

    @effect("read", scope="list:/x")
    def first(what: str) -> str:
        """Return the first there is."""
        return next(found for found in () if found == what)

    book, *_ = trip(world)
    message = turn(("book", {"hotel": "Ada"}), ("first", {"what": "none"}))
    result = await agent(Scripted(message), [book, first], settlement).run(task="go")

    assert world.log == ["book Ada", "cancel Ada"]
    assert "StopIteration" in answers(result)[1][1]


@pytest.mark.parametrize("ends", ["is cancelled", "fails"])
async def test_a_call_that_comes_when_its_agent_is_gone_does_not_act(world, settlement, ends):
    workbench = SettledWorkbench(trip(world), settlement, run="trip-42", unsettled="allow")
    client = SettledChatCompletionClient(Scripted(turn(("mail", {"to": "a"}), ids=["first"])), settlement)

    async def agent_of_ones_own():
        answer = await client.create([], tools=await workbench.list_tools())
        raise asyncio.CancelledError if ends == "is cancelled" else ValueError(answer)

    await asyncio.gather(asyncio.create_task(agent_of_ones_own()), return_exceptions=True)
    late = await workbench.call_tool("mail", {"to": "a"}, call_id="first")

    assert (late.is_error, world.log, states(settlement)) == (True, [], [])
    assert "mail was cancelled" in late.to_text()
