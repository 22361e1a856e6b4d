"""A run that is cancelled while a tool acts: nothing hangs, and nothing half-done is unaccounted for."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest
from tests.integrations.contract.world import PATIENCE, World, play, together, turns, unaccounted, unfinished

from settlemark import effect

SCRIPT = turns([("book", "Ada"), ("book", "slow"), ("mail", "ada"), ("book", "Bee")], [("book", "Cee")])


class Desk:
    """Tools of which one, `book slow`, tarries: before it acts or after it has."""

    def __init__(self, world, sort, tarries):
        self.begun, self.booked, self.mailed, self.let_go, self.ended = (threading.Event() for _ in range(5))
        self._world = world
        self._tarries = tarries

        def cancel(what: str):
            world.act(f"cancel {what}")

        def probe(key: str):
            return "booked" if key in world.keys else None

        def book(what: str) -> str:
            """Book a room."""
            return self._book(what)

        async def book_async(what: str) -> str:
            """Book a room."""
            return await self._book_async(what)

        def mail(what: str) -> str:
            """Send a mail."""
            number = world.act(f"mail {what}")
            self.mailed.set()
            return f"number {number}"

        book_async.__name__ = book_async.__qualname__ = "book"
        booking = book if sort == "sync" else book_async
        self.tools = [
            effect("reversible", scope="room:/{what}", undo=cancel, probe=probe, keyed=True)(booking),
            effect("irreversible", scope="mail:/{what}")(mail),
        ]

    def _booked(self, what):
        number = self._world.act(f"book {what}")
        if what == "Ada":
            self.booked.set()
        return f"number {number}"

    def _book(self, what):
        if what != "slow":
            return self._booked(what)
        try:
            number = self._world.act("book slow") if self._tarries == "after" else None
            self.begun.set()
            assert self.let_go.wait(PATIENCE)
            return f"number {number or self._world.act('book slow')}"
        finally:
            self.ended.set()

    async def _book_async(self, what):
        if what != "slow":
            return self._booked(what)
        try:
            number = self._world.act("book slow") if self._tarries == "after" else None
            self.begun.set()
            assert await asyncio.to_thread(self.let_go.wait, PATIENCE)
            return f"number {number or self._world.act('book slow')}"
        finally:
            self.ended.set()


def cancelled(driver, desk, settlement):
    """Cancel the job while the slow tool is at it, then let that go on; with stock all others have acted by then."""

    def here():
        seen = (desk.begun,) if settlement is not None else (desk.begun, desk.booked, desk.mailed)
        return all(event.wait(PATIENCE) for event in seen)

    async def cancel():
        task = asyncio.create_task(driver.arun(desk.tools, SCRIPT, settlement=settlement, run="cancelled"))
        began = asyncio.create_task(asyncio.to_thread(here))
        await asyncio.wait({task, began}, return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), task
        task.cancel()
        # Whoever waits for the tool cannot end before it; whoever does not has ended now.
        await asyncio.wait({task}, timeout=0.2)
        desk.let_go.set()
        with suppress(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(desk.ended.wait, PATIENCE)

    together(lambda: asyncio.run(cancel()))


@pytest.mark.parametrize("tarries", ["before", "after"])
def test_what_a_cancelled_run_began_is_undone_or_named_and_it_sends_nothing(driver, settlement, sort, tarries):
    stock, ours = World(), World()
    cancelled(type(driver)(), Desk(stock, sort, tarries), None)
    cancelled(driver, Desk(ours, sort, tarries), settlement)

    settlement.recover(keep_open=0)

    # Stock leaves what it had booked, and the mail has told of a trip that nobody takes.
    assert stock.standing()["book Ada"] == stock.standing()["mail ada"] == 1
    assert "mail ada" not in ours.log
    assert "book Bee" not in ours.log
    assert ours.standing()["book Ada"] == 0
    assert (unaccounted(ours, settlement), unfinished(settlement)) == ([], [])


def test_after_a_cancelled_run_another_one_gets_what_it_held(driver, world, settlement, sort):
    desk = Desk(world, sort, "before")
    cancelled(driver, desk, settlement)
    settlement.recover(keep_open=0)

    settled = play(driver, desk.tools, SCRIPT, settlement, face="arun", run="another")

    assert settled.error is None
    assert world.standing() == {"book Ada": 1, "book slow": 1, "mail ada": 1, "book Bee": 1, "book Cee": 1}
