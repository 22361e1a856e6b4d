"""Who enters a name within itself would wait for its own end: it is refused at once, and nothing has changed."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from settlemark import Entangled, effect

pytestmark = pytest.mark.every_store


@pytest.fixture
def rooms():
    return []


@pytest.fixture
def reserve(rooms):
    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: rooms.remove(hotel))
    def reserve(hotel):
        rooms.append(hotel)

    return reserve


def enter(settlement, name="trip"):
    with pytest.raises(Entangled, match="entered again within itself.*give the inner one a name of its own"):
        settlement.transaction(name).__enter__()


def test_its_own_name_within_a_with_block_is_refused_at_once_and_the_outer_one_commits(settlement, reserve, rooms):
    with settlement.transaction("trip") as tx:
        tx.call(reserve, hotel="Ada")
        enter(settlement)
        with pytest.raises(Entangled):
            settlement.run("trip", lambda inner: inner.call(reserve, hotel="Bee"))
        with settlement.transaction("other") as other:
            other.call(reserve, hotel="Cy")
            enter(settlement)

    assert rooms == ["Ada", "Cy"]
    assert [t.state.value for t in settlement.transactions()] == ["committed", "committed"]


def test_its_own_name_within_a_run_is_refused_at_once(settlement, reserve, rooms):
    def body(tx):
        enter(settlement)
        tx.call(reserve, hotel="Ada")

    settlement.run("trip", body)

    assert rooms == ["Ada"]


def test_its_own_name_in_a_thread_that_was_begun_there_is_refused_at_once(settlement, reserve, rooms):
    with settlement.transaction("trip") as tx:
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(enter, settlement))
        thread.start()
        thread.join(60)
        tx.call(reserve, hotel="Ada")

    assert not thread.is_alive()
    assert rooms == ["Ada"]


async def test_its_own_name_in_a_task_that_was_begun_there_is_refused_at_once(settlement, reserve, rooms):
    async def inner():
        with pytest.raises(Entangled, match="entered again within itself"):
            async with settlement.transaction("trip"):
                pass

    async def body(tx):
        with pytest.raises(Entangled):
            async with settlement.transaction("trip-2"):
                pass
        await tx.call(reserve, hotel="Ada")

    async with settlement.transaction("trip") as tx:
        await inner()
        await asyncio.gather(inner(), asyncio.create_task(inner()))
        await tx.call(reserve, hotel="Bee")
    await settlement.run("trip-2", body)

    assert rooms == ["Bee", "Ada"]


def test_when_it_is_over_its_name_is_entered_as_ever(settlement, reserve, rooms):
    with settlement.transaction("trip") as tx:
        tx.call(reserve, hotel="Ada")
    with settlement.transaction("trip") as tx:
        tx.call(reserve, hotel="Ada")
    with pytest.raises(KeyError), settlement.transaction("trip-2") as tx:
        raise KeyError
    settlement.run("trip-2", lambda tx: tx.call(reserve, hotel="Bee"))

    assert rooms == ["Ada", "Bee"]


def test_a_call_without_an_argument_names_its_tool(settlement, reserve, rooms):
    with pytest.raises(TypeError, match=r"reserve\(\) missing a required argument: 'hotel'"):
        settlement.run("trip", lambda tx: tx.call(reserve))

    assert rooms == []
