"""An agent's `max_execution_time`: a turn that is open by then does not settle later, and nothing of it leaves."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
from crewai.agent import core
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted
from tests.integrations.crewai.world import call, crew_of

from settlemark import Settlement, State, effect
from settlemark.hosting import host_of
from settlemark.testing import VirtualClock
from settlemark_crewai import settled, settled_crew

PATIENCE = 60
TURN = [call("mail", to="ada"), call("book", hotel="Ada"), call("book", hotel="slow")]


def kickoff(crew, face):
    return crew.kickoff() if face == "sync" else asyncio.run(crew.akickoff())


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def settlement(clock):
    with Settlement("memory:", **clock.options()) as settlement:
        yield settlement


@pytest.fixture
def begun(monkeypatch, clock):
    """Set when the last call has begun: only then is the agent's time over, CrewAI's and ours, however slow it is."""
    begun = threading.Event()

    class Pending(concurrent.futures.Future):
        def result(self, timeout=None):
            assert begun.wait(PATIENCE)
            clock.advance(timeout)
            raise concurrent.futures.TimeoutError

    class Pool(concurrent.futures.ThreadPoolExecutor):
        def submit(self, *given, **named):
            super().submit(*given, **named)
            return Pending()

    async def wait_for(work, timeout):  # noqa: ASYNC109 - asyncio's
        task = asyncio.ensure_future(work)
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        clock.advance(timeout)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        raise TimeoutError

    futures = SimpleNamespace(**{**vars(concurrent.futures), "ThreadPoolExecutor": Pool})
    monkeypatch.setattr(core, "concurrent", SimpleNamespace(futures=futures))
    monkeypatch.setattr(core, "asyncio", SimpleNamespace(**{**vars(asyncio), "wait_for": wait_for}))
    return begun


@pytest.fixture
def tools(world, settlement, begun):
    """A booking that tarries until its turn is open no more, and a mail."""

    def until_given_up():
        kernel, moved = host_of(settlement).driver.kernel, threading.Event()
        while True:
            with kernel.local as protocol:
                still = [txn for txn in protocol.live.values() if txn.state is State.OPEN]
                if not still:
                    return
                ticket = protocol.watch(*still)
                ticket.wake = moved.set
            assert ticket.has_fired() or moved.wait(PATIENCE)
            moved.clear()

    @tool
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"))
    def book(hotel: str) -> str:
        """Book a room."""
        if hotel == "slow":
            begun.set()
            until_given_up()
        world.act(f"book {hotel}")
        return f"booked {hotel}"

    @tool
    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        world.act(f"mail {to}")
        return "sent"

    return [book, mail]


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("how", ["settled crew", "settled tool"])
def test_what_is_open_as_an_agents_time_is_over_is_undone_and_nothing_of_it_leaves(world, settlement, tools, face, how):
    llm = Scripted(TURN, [call("book", hotel="late")], native=True)
    given = tools if how == "settled crew" else [settled(each, settlement=settlement, run="r") for each in tools]
    crew = crew_of(llm, given, agent={"max_execution_time": 1})
    if how == "settled crew":
        crew = settled_crew(crew, settlement, run="r")

    with pytest.raises(TimeoutError, match="timed out after 1 seconds"):
        kickoff(crew, face)

    settlement.recover(keep_open=0)
    assert sorted(world.log) == ["book Ada", "book slow", "cancel Ada", "cancel slow"]
    assert settlement.residue() == []
    assert [txn.state for txn in host_of(settlement).protocol.live.values()] == []
