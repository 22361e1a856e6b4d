"""Who tends what nobody calls: it can be stopped from everywhere, also from the event loop it works in."""

from __future__ import annotations

import asyncio
import threading
import weakref

from tests.rooms.runtime import Maintenance

from settlemark import State, effect
from settlemark.hosting import Act, Reason, host_of, run_sync


class Busy:
    """A driver whose tending takes for ever, in the event loop."""

    def __init__(self):
        self.begun = threading.Event()
        self.cancelled = threading.Event()

    def maintain(self, beside):
        yield Act(self.take_for_ever, {}, None)

    async def take_for_ever(self):
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def test_stopping_in_the_loop_it_works_in_waits_for_nothing():
    driver = Busy()
    maintenance = Maintenance(driver, every=1000.0)
    maintenance.loop = weakref.ref(asyncio.get_running_loop())
    maintenance.start()
    await asyncio.to_thread(driver.begun.wait)
    maintenance.stop()
    assert not maintenance._thread.is_alive()
    await asyncio.to_thread(driver.cancelled.wait)


async def test_it_does_not_begin_in_a_loop_that_has_stopped_it():
    driver = Busy()
    maintenance = Maintenance(driver, every=1000.0)
    maintenance.loop = weakref.ref(asyncio.get_running_loop())
    maintenance.start()
    maintenance.stop()  # before this loop could begin what the thread gives it
    assert not maintenance._thread.is_alive()


def test_what_a_thread_is_yet_to_begin_to_undo_is_not_stranded(shared_url, open_settlement):
    settlement = open_settlement(shared_url, keep_open=0)
    host_of(settlement)._maintenance.stop()
    given = []
    tx = settlement.transaction("trip").__enter__()
    tx.call(effect("reversible", scope="seat:/1", undo=lambda: None)(lambda: "done"))
    with host_of(settlement).driver.kernel.local as protocol:
        txn = protocol.named["trip"]
    run_sync(host_of(settlement).driver.kernel.step(lambda protocol, _book: protocol.abort(txn, Reason.ABANDONED)))

    run_sync(host_of(settlement).driver.undoing.tidy(lambda program, given_up: given.append((program, given_up))))
    assert (len(given), txn.state, host_of(settlement).driver.ages.stranded()) == (1, State.ABORTING, [])

    run_sync(given[0][0])
    assert (txn.state, host_of(settlement).driver.ages.stranded(), host_of(settlement).driver.undoing.given) == (
        State.ABORTED,
        [],
        set(),
    )
