"""What a tool's clean-up raises hides from nobody that the tool was cut off: its effect may be there, and is named."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from contextvars import ContextVar

import pytest

from settlemark import InDoubt, Tag, effect

PLACE: ContextVar[str] = ContextVar("PLACE")


class Boom(Exception):
    """What a clean-up raises."""


class Struck(BaseException):
    """What the handler of a signal raises."""


# ---- how a tool that has acted ends when it is cut off: `cut` is where it is


async def ends_quietly(cut):
    await cut()


async def raises(cut):
    try:
        await cut()
    finally:
        raise Boom


async def raises_twice(cut):
    try:
        await raises(cut)
    finally:
        raise Boom


async def raises_in_a_group(cut):
    async with asyncio.TaskGroup() as group:
        group.create_task(raises(cut))


async def waits(cut):
    try:
        await cut()
    finally:
        await asyncio.sleep(0)


async def waits_and_raises(cut):
    try:
        await cut()
    finally:
        await asyncio.sleep(0)
        raise Boom


async def gives_a_variable_back(cut):
    before = PLACE.set("here")
    try:
        await cut()
    finally:
        PLACE.reset(before)


class Waiting:
    """Awaits by a generator of its own, which is no coroutine."""

    def __init__(self, cut):
        self.cut = cut

    def __await__(self):
        try:
            yield from self.cut().__await__()
        finally:
            raise Boom


async def raises_in_what_it_awaits(cut):
    await Waiting(cut)


ENDINGS = [
    ends_quietly, raises, raises_twice, raises_in_a_group, waits, waits_and_raises, gives_a_variable_back,
    raises_in_what_it_awaits, Waiting,
]  # fmt: skip # a list of names and values


# ---- by what it is cut off


def is_lost(enter):
    """Its event loop is closed, and nobody has its task any more."""
    loop = asyncio.new_event_loop()
    begun = asyncio.Event()

    async def cut():
        begun.set()
        await asyncio.get_running_loop().create_future()

    task = loop.create_task(enter(cut))
    loop.run_until_complete(begun.wait())
    loop.close()
    task._log_destroy_pending = False
    del task
    gc.collect()


def is_cancelled(enter):
    async def run():
        begun = asyncio.Event()

        async def cut():
            begun.set()
            await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(enter(cut))
        await begun.wait()
        task.cancel()
        with suppress(asyncio.CancelledError, InDoubt):
            await task

    asyncio.run(run())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what a clean-up raises to nobody
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
@pytest.mark.parametrize("cut_off", [is_lost, is_cancelled], ids=lambda cut_off: cut_off.__name__)
def test_a_task_that_is_cut_off_in_a_tool_leaves_what_it_did_in_doubt(url, open_settlement, recorded, cut_off, ending):
    settlement, log = open_settlement(url), []

    async def enter(cut):
        @effect("reversible", scope="room:/{room}", undo=lambda room: log.remove(room))
        async def book(room):
            log.append(room)
            await ending(cut)

        async with settlement.transaction("trip") as tx:
            await tx.call(book, room="a")

    cut_off(enter)
    with settlement.transaction("next") as tx:  # which waits for the end of the other
        tx.call(effect("opaque", scope="room:/{room}")(lambda room: room), room="a")
    assert log == ["a"]
    assert recorded(settlement, "trip") == [("aborted", [("book", "unknown", "unresolved")])]
    assert [(left.transaction, left.tag) for left in settlement.residue()] == [("trip", Tag.UNRESOLVED)]


@pytest.mark.parametrize("cut", [KeyboardInterrupt, SystemExit, Struck])
def test_an_interrupt_that_strikes_in_a_tool_leaves_what_it_did_in_doubt(settlement, recorded, cut):
    log = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: log.remove(room))
    def book(room):
        log.append(room)
        try:
            raise cut
        finally:
            raise Boom

    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(book, room="a")
    assert log == ["a"]
    assert recorded(settlement, "trip") == [("aborted", [("book", "unknown", "unresolved")])]


@pytest.mark.parametrize("lost", [TimeoutError(), ConnectionResetError(), KeyboardInterrupt()], ids=repr)
def test_what_leaves_open_whether_it_happened_does_so_in_a_group_too(settlement, recorded, lost):
    log = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: log.remove(room))
    def book(room):
        log.append(room)
        raise BaseExceptionGroup("two", [ValueError(), BaseExceptionGroup("one", [lost])])

    with pytest.raises((InDoubt, BaseExceptionGroup)), settlement.transaction("trip") as tx:
        tx.call(book, room="a")
    assert recorded(settlement, "trip") == [("aborted", [("book", "unknown", "unresolved")])]


@pytest.mark.parametrize("cut", [KeyboardInterrupt, asyncio.CancelledError, TimeoutError])
def test_a_tool_that_has_caught_it_says_itself_that_nothing_happened(settlement, recorded, cut):
    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    def book(room):
        try:
            raise cut
        except cut as error:
            raise Boom from error

    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(book, room="a")
    assert recorded(settlement, "trip") == [("aborted", [("book", "failed", "clean")])]
