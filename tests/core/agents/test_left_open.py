"""A job that is begun again waits for nothing that it has left open itself, and leaves nothing of it open."""

from __future__ import annotations

import pytest

from settlemark import State, effect
from settlemark.agents import AgentRun, StillOpen, still_open, take_up
from settlemark.hosting import host_of, run_async

BOOK, MAIL, LOOK = ("book", {"room": "1"}), ("mail", {"to": "ada"}), ("look", {"room": "1"})
ELSEWHERE = ("look", {"room": "2"})
DONE, UNDONE, LOOKED = ("book", "1"), ("unbook", "1"), ("look", "1")
pytestmark = pytest.mark.parametrize("settle", ["turn", "part", "run"])


@pytest.fixture
def died(office, tmp_path):
    """Have a process end within a turn of book and mail, and return the settlement of the next, which waits for nobody.

    Before that turn it has played the others that are given, to their ends.
    """
    opened, url = [], f"sqlite:///{tmp_path / 'ledger.db'}"

    async def died(settle, *before, name="clerk"):
        settlement = office.settlement(url)
        for calls in before:
            job = AgentRun(settlement, "trip", settle=settle)
            await office.play(job.work(name).turn(office.calls(settlement, *calls)))
            await run_async(job.end())
        work = AgentRun(settlement, "trip", settle=settle).work(name)
        turn = work.turn(office.calls(settlement, BOOK, MAIL))
        await run_async(turn.perform(0, lambda: office.book("1"), waits=False))
        settlement.close()
        assert office.log[-1] == DONE
        office.log.clear()
        opened.append(office.settlement(url, wait=0.2, retries=None))
        return opened[-1]

    yield died
    for settlement in opened:
        settlement.close()


def states(settlement):
    return [recorded.state for recorded in settlement.transactions()]


async def test_a_job_tells_what_of_it_is_open_here_or_cut_off_and_who_takes_that_up_ends_it(office, died, settle):
    settlement, name = await died(settle), "*/1" if settle == "run" else "clerk/0"
    work = AgentRun(settlement, "other", settle=settle).work("clerk")
    turn = work.turn(office.calls(settlement, ("book", {"room": "2"}), MAIL))
    await run_async(turn.perform(0, lambda: office.book("2"), waits=False))
    office.log.clear()
    there, here = still_open(settlement, "trip"), still_open(settlement, "other")
    await run_async(take_up(settlement, f"trip/{name}"))
    await run_async(take_up(settlement, f"other/{name}"))
    assert there == [StillOpen(f"trip/{name}", is_here=False, waits=False, is_cut_off=True)]
    assert here == [StillOpen(f"other/{name}", is_here=True, waits=False, is_cut_off=False)]
    assert (office.log, still_open(settlement, "trip"), still_open(settlement, "other")) == ([UNDONE], [], here)


async def in_a_turn(office, work, look):
    return await office.play(work.turn([look]))


async def alone(office, work, look):
    return [await office.answer(work.single(look), 0)]


@pytest.mark.parametrize("asked", [in_a_turn, alone])
async def test_a_look_at_what_its_job_left_open_has_that_undone_first(office, died, settle, asked):
    settlement = await died(settle)
    work = AgentRun(settlement, "trip", settle=settle).work("clerk")
    [look] = office.calls(settlement, LOOK)
    assert await asked(office, work, look) == ["look 1"]
    assert office.log == [UNDONE, LOOKED]
    assert (states(settlement), settlement.residue(), host_of(settlement).protocol.live) == ([State.ABORTED], [], {})


async def test_what_was_left_open_is_done_anew_when_it_is_asked_for_behind_the_look(office, died, settle):
    settlement = await died(settle)
    job = AgentRun(settlement, "trip", settle=settle)
    work = job.work("clerk")
    await office.play(work.turn(office.calls(settlement, LOOK)))
    await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    await run_async(job.end())
    assert office.log == [UNDONE, LOOKED, DONE, ("mail", "ada")]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


async def test_a_look_beside_calls_that_are_answered_from_the_record_does_not_wait_either(office, died, settle):
    other = ("book", {"room": "2"})
    settlement = await died(settle, [LOOK, other])
    job = AgentRun(settlement, "trip", settle=settle)
    work = job.work("clerk")
    assert await office.play(work.turn(office.calls(settlement, LOOK, other))) == ["look 1", "book 2"]
    await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    await run_async(job.end())
    assert office.log == [UNDONE, LOOKED, DONE, ("mail", "ada")]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


async def test_a_look_elsewhere_leaves_a_turn_to_be_gone_on_with(office, died, settle):
    settlement = await died(settle)
    job = AgentRun(settlement, "trip", settle=settle)
    work = job.work("clerk")
    await office.play(work.turn(office.calls(settlement, ELSEWHERE)))
    await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    await run_async(job.end())
    again = [] if settle == "turn" else [UNDONE, DONE]  # what turns share is nobody's to go on with
    assert sorted(office.log) == sorted([*again, ("look", "2"), ("mail", "ada")])
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.parametrize("name", ["clerk", "boss", ""])
async def test_the_end_of_a_job_undoes_what_nothing_of_it_has_come_back_to(office, died, settle, name):
    settlement = await died(settle, name=name)
    job = AgentRun(settlement, "trip", settle=settle)
    job.work("clerk")
    await run_async(job.end())
    assert office.log == [UNDONE]
    assert (states(settlement), settlement.residue(), host_of(settlement).protocol.live) == ([State.ABORTED], [], {})


async def test_a_job_that_fails_leaves_it_to_whoever_comes_back(office, died, settle):
    settlement = await died(settle)
    await run_async(AgentRun(settlement, "trip", settle=settle).end(OSError("cut")))
    assert (office.log, states(settlement)) == ([], [State.OPEN])


async def test_the_end_of_one_job_leaves_anothers_and_what_is_at_work_under_its_own_name(office, died, settle):
    settlement = await died(settle)
    with settlement.transaction("trip/clerk/7", run="trip") as at_work:
        at_work.call(effect("reversible", scope="car:/x", undo=lambda: None)(lambda: office.log.append("car")))
        await run_async(AgentRun(settlement, "tri", settle=settle).end())
        assert office.log == ["car"]
        await run_async(AgentRun(settlement, "trip", settle=settle).end())
        assert at_work.state is State.OPEN
    assert office.log == ["car", UNDONE]


async def test_the_end_of_a_job_leaves_what_its_run_did_beside_it_to_whoever_began_that(office, tmp_path, settle):
    """A transaction of one's own may be of the same run: it is none of the job's turns."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    before = office.settlement(url)
    mine = before.transaction("trip/mine", run="trip").__enter__()
    mine.call(effect("reversible", scope="car:/x", undo=lambda: None)(lambda: office.log.append("car")))
    before.close()
    with office.settlement(url) as settlement:
        await run_async(AgentRun(settlement, "trip", settle=settle).end())
        assert (office.log, states(settlement)) == (["car"], [State.OPEN])
