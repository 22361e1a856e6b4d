"""A hold that is cut off in an event loop, wherever it stands, is dropped: nobody waits for what nobody will begin."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.rooms.runtime import aio

from settlemark.hosting import host_of

GENEROUS = 20
HERE = object()


class Bare:
    """Gives something to whoever drives the coroutine."""

    def __await__(self):
        yield HERE


class Driven:
    """A coroutine that is closed where it gives `HERE`, as a loop that is gone closes it; in this task until then."""

    def __init__(self, coroutine):
        self.coroutine = coroutine

    def __await__(self):
        try:
            while (asked := self.coroutine.send(None)) is not HERE:
                yield asked
        except StopIteration:
            return
        self.coroutine.close()


@pytest.fixture
def at_request(monkeypatch):
    """Have something happen as the n-th thing is asked for; return how many were asked for."""
    asked = [0]
    original = aio._do_async

    def at(number, what):
        asked[0] = 0

        async def counting(request, patience):
            asked[0] += 1
            if asked[0] == number:
                await what()
            return await original(request, patience)

        monkeypatch.setattr(aio, "_do_async", counting)
        return asked

    return at


async def once_in_a_hold(settlement, tools, name):
    async with settlement.hold("room:/a", name=name) as hold:
        async with hold.transaction(f"{name}/1") as tx:
            await tx.call(tools.book, room=name)
        await asyncio.sleep(0)


async def strike():
    asyncio.current_task().cancel()


async def give():
    await Bare()


def left(settlement):
    """Return what is unfinished when what goes on in threads has had time."""
    deadline = time.monotonic() + GENEROUS
    while (live := host_of(settlement).protocol.live) and time.monotonic() < deadline:
        time.sleep(0.005)
    return [txn.name for txn in live.values()]


def is_settled(world, name):
    """Whether the book was committed, or undone; the record agrees."""
    return [what for what, room in world.log if room == name] in ([], ["book"], ["book", "cancel"])


@pytest.mark.every_store
@pytest.mark.parametrize("times", [1, 3])
def test_a_hold_whose_task_is_cancelled_wherever_it_stands_is_dropped(settlement, tools, world, at_request, times):
    async def strikes():
        for _ in range(times):
            await strike()

    number = 0
    while True:
        number += 1
        asked = at_request(number, strikes)

        async def play(name=f"n{number}"):
            task = asyncio.create_task(once_in_a_hold(settlement, tools, name))
            return (await asyncio.gather(task, return_exceptions=True))[0]

        ended = asyncio.run(play())
        assert ended is None or isinstance(ended, asyncio.CancelledError)
        assert left(settlement) == []
        assert is_settled(world, f"n{number}")
        if asked[0] < number:
            break
    assert number > 1
    assert settlement.residue() == []


@pytest.mark.every_store
def test_a_hold_whose_task_is_thrown_away_wherever_it_stands_is_dropped(settlement, tools, world, at_request):
    number = 0
    while True:
        number += 1
        asked = at_request(number, give)

        async def play(name=f"n{number}"):
            await Driven(once_in_a_hold(settlement, tools, name))

        asyncio.run(play())
        assert left(settlement) == []
        assert is_settled(world, f"n{number}")
        if asked[0] < number:
            break
    assert number > 1


async def kept_by_its_coroutine(settlement):
    async def use():
        async with settlement.hold("room:/a", name="night"):
            await Bare()

    await Driven(use())


async def entered_by_hand(settlement):
    await settlement.hold("room:/a", name="night").__aenter__()


async def kept_by_a_generator(settlement):
    async def give_out():
        async with settlement.hold("room:/a", name="night") as hold:
            yield hold

    await anext(give_out())


async def waited_for_in_a_task(settlement):
    async def use():
        async with settlement.hold("room:/a", name="night"):
            began.set()
            await asyncio.Event().wait()

    began = asyncio.Event()
    task = asyncio.create_task(use())
    await began.wait()
    task.cancel()


@pytest.mark.every_store
@pytest.mark.parametrize(
    "use", [kept_by_its_coroutine, entered_by_hand, kept_by_a_generator, waited_for_in_a_task], ids=lambda u: u.__name__
)
def test_a_hold_that_is_dropped_in_its_block_is_dropped(settlement, use):
    asyncio.run(use(settlement))
    assert left(settlement) == []


@pytest.mark.every_store
async def test_a_cancelled_drop_drops(settlement):
    async with settlement.hold("room:/a", name="night") as hold:
        task = asyncio.create_task(hold.adrop())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert host_of(settlement).protocol.live == {}
