"""An agent that hangs in a process that lives: its transaction is told of, and with `max_age=` it ends."""

import asyncio
import gc
import threading

import pytest
from tests.rooms.lifecycle import OLD_SECONDS

from settlemark import Overdue, Settlement, UsageError, WaitTimeout
from settlemark.hosting import host_of, run_sync
from settlemark.observe import Aging

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


class Heard:
    def __init__(self):
        self.of = []

    def tell(self, event):
        if isinstance(event, Aging):
            self.of.append((event.transaction, event.seconds, event.max_age))

    def around(self, acting):
        raise AssertionError(acting)


class Hung:
    """A transaction in whose block somebody hangs, with a room booked; it is undone once nobody keeps it."""

    def __init__(self, settlement, tools, **options):
        self.opening = settlement.transaction("hung", **options)
        self.tx = self.opening.__enter__()
        self.tx.call(tools.book, room="a")


def look(settlement):
    run_sync(host_of(settlement).driver.ages.look_at_ages())


def test_a_transaction_older_than_it_may_be_is_undone_and_its_late_calls_are_refused(
    url, open_here, clock, tools, world, recorded
):
    settlement = open_here(url, max_age=100)
    hung = Hung(settlement, tools)
    clock.advance(101)
    look(settlement)
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert recorded(settlement, "hung") == [("aborted", [("book", "undone", "clean")])]
    with pytest.raises(Overdue, match="open for longer than max_age=100 s") as refused:
        hung.tx.call(tools.book, room="b")
    assert refused.value.max_age == 100
    with pytest.raises(Overdue):
        hung.opening.__exit__(None, None, None)
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert settlement.residue() == []
    assert not host_of(settlement).protocol.live


def test_it_is_told_once_before_its_end(url, open_here, clock, tools, caplog):
    heard = Heard()
    settlement = open_here(url, max_age=100)
    host_of(settlement).driver.kernel.telling.observer = heard
    heard.around = lambda _acting: threading.Lock()
    hung = Hung(settlement, tools)
    clock.advance(74)
    look(settlement)
    assert heard.of == []
    clock.advance(2)
    look(settlement)
    look(settlement)
    assert heard.of == [("hung", 76, 100)]
    said = [record.getMessage() for record in caplog.records if "has been open" in record.getMessage()]
    assert said == ["hung has been open for 76 s, and holds room:/a: at 100 s (max_age=) it is undone"]
    hung.opening.__exit__(None, None, None)
    assert [r.state.value for r in settlement.transactions()] == ["committed"]


def test_without_a_greatest_age_it_is_told_once_after_an_hour_and_goes_on(url, open_here, clock, tools, caplog):
    settlement = open_here(url, lease=10_000, keep_open=10_000)
    hung = Hung(settlement, tools)
    clock.advance(OLD_SECONDS + 1)
    look(settlement)
    look(settlement)
    said = [record.getMessage() for record in caplog.records if "has been open" in record.getMessage()]
    told = "hung has been open for 3601 s, and holds room:/a: nobody ends it while this process lives, unless it has"
    assert said == [f"{told} max_age="]
    hung.opening.__exit__(None, None, None)
    assert [r.state.value for r in settlement.transactions()] == ["committed"]


def test_one_that_waits_for_a_person_does_not_age(url, open_here, clock, tools, world):
    settlement = open_here(url, max_age=100)
    with settlement.transaction("parked") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="Ada")
        tx.park()
    clock.advance(1_000)
    look(settlement)
    settlement.answer("parked", approve=True)
    assert world.log == [("book", "a"), ("send", "Ada", "hello")]


def test_a_hold_does_not_age_and_what_is_begun_under_it_does(url, open_here, clock, tools, world):
    settlement = open_here(url, max_age=100)
    with settlement.hold("room:/a") as hold:
        clock.advance(1_000)
        look(settlement)
        with hold.transaction("under") as tx:
            tx.call(tools.book, room="a")
            clock.advance(50)
            look(settlement)
    assert world.log == [("book", "a")]


def test_one_whose_call_has_not_returned_is_undone_when_it_has(url, open_here, clock, tools, world, recorded):
    settlement = open_here(url, max_age=100)
    begun, go_on, told = threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        go_on.wait()
        return tools.book(room="b")

    slow.__name__ = "slow"
    settlement.declare("slow", "reversible", scope="room:/b", undo=lambda: tools.cancel("b"))

    def agent():
        try:
            with settlement.transaction("hung", wait=0) as tx:
                tx.call(slow)
        except BaseException as error:
            told.append(type(error))

    thread = threading.Thread(target=agent)
    thread.start()
    begun.wait()
    clock.advance(101)
    look(settlement)
    assert world.log == []
    go_on.set()
    thread.join()
    assert told == [Overdue]
    assert world.log == [("book", "b"), ("cancel", "b")]
    assert recorded(settlement, "hung") == [("aborted", [("slow", "undone", "clean")])]


def test_a_transaction_may_have_an_age_of_its_own(url, open_here, clock, tools, world):
    settlement = open_here(url)
    _hung = Hung(settlement, tools, max_age=10)
    clock.advance(11)
    look(settlement)
    assert world.log == [("book", "a"), ("cancel", "a")]


@pytest.mark.parametrize("own", [10, 200])
def test_its_own_age_counts_in_place_of_the_settlements(url, open_here, clock, tools, world, own):
    settlement = open_here(url, max_age=100)
    _hung = Hung(settlement, tools, max_age=own)
    for seconds, log in ((own - 1, [("book", "a")]), (2, [("book", "a"), ("cancel", "a")])):
        clock.advance(seconds)
        look(settlement)
        assert world.log == log


@pytest.mark.parametrize("age", [0, -1, True, "1", float("nan")])
def test_an_age_that_is_none_is_refused_and_nothing_is_begun(quick, age):
    with pytest.raises(UsageError, match="max_age"):
        quick.transaction("trip", max_age=age)
    with pytest.raises(UsageError, match="max_age"):
        Settlement("memory:", max_age=age)
    assert not host_of(quick).protocol.live


def test_a_thread_of_its_own_looks_after_it(url, open_settlement, tools, world):
    settlement = open_settlement(url, max_age=0.05, keep_open=0)
    undone = threading.Event()
    act = world.act
    world.act = lambda *entry: (act(*entry), undone.set() if entry[0] == "cancel" else None)
    _hung = Hung(settlement, tools)
    assert undone.wait(30)


def test_a_task_that_is_lost_with_its_loop_leaves_its_scope_free(url, open_settlement, tools, world, recorded):
    settlement = open_settlement(url)
    undone = threading.Event()
    act = world.act
    world.act = lambda *entry: (act(*entry), undone.set() if entry[0] == "cancel" else None)

    is_on_its_way = asyncio.Event()

    async def lost():
        async with settlement.transaction("lost") as tx:
            await tx.call(tools.book, room="a")
            is_on_its_way.set()
            await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    task = loop.create_task(lost())
    loop.run_until_complete(is_on_its_way.wait())
    loop.close()
    task._log_destroy_pending = False
    del task
    gc.collect()
    assert undone.wait(30)
    with settlement.transaction("next") as tx:
        tx.call(tools.book, room="a")
    assert recorded(settlement, "lost") == [("aborted", [("book", "undone", "clean")])]


def test_who_waits_for_one_that_hangs_is_told_its_name(url, open_here, tools):
    settlement = open_here(url)
    _hung = Hung(settlement, tools)
    with pytest.raises(WaitTimeout) as refused, settlement.transaction("next", wait=0) as tx:
        tx.call(tools.book, room="a")
    assert refused.value.holder == "hung"
