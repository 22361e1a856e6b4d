"""What is entered is in one block at a time: that block ends what it has begun, whoever tries to enter meanwhile.

A block's object knows one beginning. Entered again before it was left, it would forget the first, which nobody would
end: its effects would be neither kept nor undone, and nobody told.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest
from tests.rooms.runtime import Block

from settlemark import Hold, Opening, StateError
from settlemark.hosting import host_of

SAID = "was entered again before its block was left: nothing was run; make a new one for each block"


def under_a_hold(settlement, stack):
    return stack.enter_context(settlement.hold("cell:/1")).transaction("trip")


KINDS = {
    "a transaction": (Opening, lambda settlement, stack: settlement.transaction("trip")),
    "one without a name": (Opening, lambda settlement, stack: settlement.transaction()),
    "one under a hold": (Opening, under_a_hold),
    "a hold": (Hold, lambda settlement, stack: settlement.hold("room:/a", name="night")),
}


def nested(block, at_work):
    with block as face:
        at_work(face)
        with pytest.raises(StateError, match=SAID), block:
            pass


def in_another_thread(block, at_work):
    said = []

    def enter():
        with pytest.raises(StateError, match=SAID) as refused, block:
            pass
        said.append(refused)

    with block as face:
        at_work(face)
        other = threading.Thread(target=enter)
        other.start()
        other.join()
    assert len(said) == 1


def awaited(block, at_work):
    async def main():
        async with block as face:
            answer = at_work(face)
            if answer is not None:
                await answer
            with pytest.raises(StateError, match=SAID):
                await asyncio.create_task(block.__aenter__())

    asyncio.run(main())


def in_a_loop_beside(block, at_work):
    async def enter():
        async with block:
            pass

    with block as face:
        at_work(face)
        with pytest.raises(StateError, match=SAID):
            asyncio.run(enter())


WAYS = [nested, in_another_thread, awaited, in_a_loop_beside]


def test_every_block_is_tried():
    assert {kind for kind, _ in KINDS.values()} == set(Block.__subclasses__())


@pytest.mark.every_store
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_entered_again_is_refused_and_ends_with_its_first_block(settlement, tools, world, kind, way):
    of, make = KINDS[kind]
    with ExitStack() as stack:
        block = make(settlement, stack)
        way(block, lambda face: face.call(tools.book, room="a") if of is Opening else None)
    assert world.log == ([("book", "a")] if of is Opening else [])
    assert host_of(settlement).protocol.live == {}


@pytest.mark.every_store
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_left_may_be_entered_again_also_after_an_error(settlement, tools, world, kind):
    of, make = KINDS[kind]
    with ExitStack() as stack:
        block = make(settlement, stack)
        with pytest.raises(ZeroDivisionError), block as face:
            if of is Opening:
                face.call(tools.book, room="a")
            raise ZeroDivisionError
        for _ in range(2):
            with block as face:
                if of is Opening:
                    face.call(tools.book, room="a")
    times = {"a hold": 0, "one without a name": 2}.get(kind, 1)  # a name that committed is replayed
    assert world.log == [("book", "a"), ("cancel", "a")] * (of is Opening) + [("book", "a")] * times
    assert host_of(settlement).protocol.live == {}


def test_what_could_not_begin_may_be_entered_again(settlement):
    late = settlement.hold("room:/a", name="night", wait=0)
    with settlement.hold("room:/a", name="night"), pytest.raises(Exception, match="night"):
        late.__enter__()
    with late:
        assert [txn.name for txn in host_of(settlement).protocol.live.values()] == ["night"]
    assert host_of(settlement).protocol.live == {}
