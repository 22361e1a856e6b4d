"""A kickoff that is cut short: what had begun is settled or undone, what had not never happens, nobody is in doubt."""

from __future__ import annotations

import asyncio
import threading

import pytest
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted
from tests.integrations.crewai.world import call, crew_of, tools_of, trip

from settlemark import State, effect
from settlemark.hosting import host_of
from settlemark_crewai import settled_crew

FINAL = {State.COMMITTED, State.ABORTED}


def slow(world, began, may_end):
    """A tool that says when it has begun, and ends when it may."""

    @tool
    @effect("reversible", scope="car:/{plate}", undo=lambda plate: world.act(f"return {plate}"))
    def hire(plate: str) -> str:
        """Hire."""
        began.set()
        may_end.wait(30)
        world.act(f"hire {plate}")
        return "hired"

    return hire


@pytest.fixture
def cut_short(world, settlement):
    """Cancel a kickoff while a tool of its first turn works, let that end, and wait until all has."""

    def is_ending():
        """Whether the cancellation has come through to what is to be undone."""
        return any(txn.state is not State.OPEN for txn in host_of(settlement).protocol.live.values())

    def cut(settle_it, llm):
        began, may_end = threading.Event(), threading.Event()

        async def run():
            crew = settle_it(crew_of(llm, [*tools_of(trip(world)), slow(world, began, may_end)]))
            kickoff = asyncio.create_task(crew.akickoff())
            await asyncio.to_thread(began.wait, 30)
            kickoff.cancel()
            while not (kickoff.done() or is_ending()):  # noqa: ASYNC110 - the protocol sets no event of ours
                await asyncio.sleep(0)
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await kickoff

        asyncio.run(run())  # the threads of its executor are joined: whoever goes on has come to its end

    return cut


def script():
    return Scripted(
        [call("book", hotel="Ada"), call("hire", plate="X"), call("mail", to="ada")], [call("mail", to="bee")]
    )


@pytest.mark.timeout(60)
def test_a_cancelled_kickoff_leaves_no_half_turn(world, settlement, cut_short):
    llm = script()

    cut_short(lambda crew: settled_crew(crew, settlement, run="r"), llm)

    assert world.log in (["book Ada", "hire X", "return X", "cancel Ada"], ["book Ada", "cancel Ada"])
    assert {found.state for found in settlement.transactions()} <= FINAL
    assert (settlement.residue(), settlement.in_doubt()) == ([], [])
    assert len(llm.seen) == 1


@pytest.mark.timeout(60)
def test_with_stock_the_rest_of_the_turn_happens_behind_its_back(world, cut_short):
    cut_short(lambda crew: crew, script())

    assert sorted(world.log) == ["book Ada", "hire X", "mail ada"]


@pytest.mark.timeout(60)
def test_after_it_the_job_goes_on_under_its_id(world, settlement, cut_short):
    cut_short(lambda crew: settled_crew(crew, settlement, run="r"), script())
    before = len(world.log)
    ended = threading.Event()
    ended.set()

    tools = [*tools_of(trip(world)), slow(world, ended, ended)]
    settled_crew(crew_of(script(), tools), settlement, run="r").kickoff()

    assert world.log[before:] == ["book Ada", "hire X", "mail ada", "mail bee"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("settle", ["task", "crew"])
def test_so_it_is_where_more_settles_together(world, settlement, cut_short, settle):
    cut_short(lambda crew: settled_crew(crew, settlement, run="r", settle=settle), script())

    assert world.log in (["book Ada", "hire X", "return X", "cancel Ada"], ["book Ada", "cancel Ada"])
    assert {found.state for found in settlement.transactions()} <= FINAL
