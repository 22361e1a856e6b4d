"""A framework gives an agent up after a time: what is open by then is undone, and nothing of it leaves later."""

from __future__ import annotations

import asyncio

import pytest

from settlemark import Injected, State
from settlemark.agents import AgentRun, words
from settlemark.hosting import host_of, run_async
from settlemark.testing import VirtualClock

BOOK, MAIL = ("book", {"room": "1"}), ("mail", {"to": "ada"})


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture(params=["turn", "part"])
def settle(request):
    return request.param


@pytest.fixture
def open_job(office, clock):
    opened = []

    def job(settle, **options):
        settlement = office.settlement(injected=Injected(monotonic=clock), **options)
        opened.append(settlement)
        return settlement, AgentRun(settlement, "trip-42", settle=settle)

    yield job
    for settlement in opened:
        settlement.close()


async def look(settlement):
    await run_async(host_of(settlement).driver.ages.look_at_ages())


def states(settlement):
    return [(recorded.row.name, recorded.state) for recorded in settlement.transactions()]


async def until_no_turn_is_open(settlement):
    async with asyncio.timeout(60):
        protocol = host_of(settlement).protocol
        while any(txn.state is State.OPEN for txn in [*protocol.live.values()]):  # noqa: ASYNC110 - nobody tells of that
            await asyncio.sleep(0)


class Slow:
    """A turn that books, mails and books again; the second booking goes on for as long as nobody lets it end."""

    def __init__(self, office, settlement, work):
        self.office = office
        self.begun, self.let_end = asyncio.Event(), asyncio.Event()
        calls = office.calls(settlement, BOOK, MAIL, ("book", {"room": "2"}))
        self.turn = work.turn(calls)
        self.tasks = [
            asyncio.create_task(office.answer(self.turn, 0)),
            asyncio.create_task(office.answer(self.turn, 1)),
            asyncio.create_task(self._tarries()),
        ]

    async def _tarries(self):
        async def book():
            self.begun.set()
            await self.let_end.wait()
            return self.office.book("2")

        try:
            return await run_async(self.turn.perform(2, book))
        except Exception as error:
            return words(error)

    async def until_it_tarries(self):
        async with asyncio.timeout(60):
            await self.begun.wait()

    async def told(self):
        self.let_end.set()
        return await asyncio.gather(*self.tasks)


@pytest.mark.parametrize("ages", [{}, {"max_age": 5}, {"max_age": 100}], ids=str)
async def test_a_turn_that_is_open_as_its_agent_is_given_up_is_undone_and_sends_nothing(office, clock, open_job, ages):
    settlement, job = open_job("turn", **ages)
    work = job.work()
    work.limit(10)
    slow = Slow(office, settlement, work)
    await slow.until_it_tarries()
    clock.advance(11)
    looking = asyncio.create_task(look(settlement))
    await until_no_turn_is_open(settlement)
    assert office.log == [("book", "1")]

    told = await slow.told()
    await looking
    await run_async(work.end())

    least = min(10, ages.get("max_age", 10))
    assert any(f"max_age={least:g} s" in text for text in told), told
    assert office.log == [("book", "1"), ("book", "2"), ("unbook", "2"), ("unbook", "1")]
    assert [state for _, state in states(settlement)] == [State.ABORTED]
    assert settlement.residue() == []


async def test_a_turn_that_begins_after_its_agent_was_given_up_does_nothing(office, clock, open_job, settle):
    settlement, job = open_job(settle)
    work = job.work()
    work.limit(10)
    clock.advance(10)

    turn = work.turn(office.calls(settlement, BOOK, MAIL))
    answers = await office.play(turn)

    assert all("stopped by TimeoutError: nothing was run" in told for told in answers), answers
    assert (office.log, states(settlement)) == ([], [])


async def test_a_turn_that_has_settled_before_its_agent_is_given_up_stands(office, clock, open_job):
    settlement, job = open_job("turn")
    work = job.work()
    work.limit(10)
    turn = work.turn(office.calls(settlement, BOOK, MAIL))
    assert await office.play(turn) == ["book 1", "mail ada"]

    clock.advance(11)
    await look(settlement)

    assert office.log == [("book", "1"), ("mail", "ada")]
    assert [state for _, state in states(settlement)] == [State.COMMITTED]


async def test_work_that_is_begun_again_without_a_limit_has_none(office, clock, open_job, settle):
    settlement, job = open_job(settle)
    work = job.work()
    work.limit(10)
    clock.advance(20)
    work.begin()
    work.limit(None)

    assert await office.play(work.turn(office.calls(settlement, BOOK))) == ["book 1"]
    assert office.log == [("book", "1")]
