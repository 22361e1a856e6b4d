"""A run that is cancelled while the store does not answer: it ends at once, and all is accounted for afterwards."""

from __future__ import annotations

import ast
import asyncio
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.integrations.contract.world import PATIENCE, together, turns, unaccounted, unfinished
from tests.rooms.ledger import _limits

from settlemark import Settlement, effect
from settlemark.hosting import host_of

FOREVER = 86_400
"""Seconds that a call may wait for the store: a run that waits as if nobody had cancelled it never ends."""
IN_THREADS = {"crewai"}
"""Who runs calls in threads, where no cancellation comes: there the end of a run waits for a store that hangs as long
as the settlement does."""
SCRIPT = turns([("book", "Ada"), ("book", "slow"), ("mail", "ada")])
INTEGRATIONS = Path(__file__).parents[3] / "integrations"


class Locked:
    """A SQLite file that a foreign program has locked, from one thread to another."""

    def __init__(self, folder):
        self._path = folder / "ledger.db"
        self.url = f"sqlite:///{self._path}"

    def lock(self):
        self._foreign = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._foreign.execute("BEGIN IMMEDIATE")

    def unlock(self):
        self._foreign.execute("ROLLBACK")
        self._foreign.close()


def desk(world, store, begun, let_go, how):
    """Tools of which one, `book slow`, has the store locked before it ends."""

    @effect(
        "reversible",
        scope="room:/{what}",
        undo=lambda what: world.act(f"cancel {what}"),
        probe=lambda what: "booked" if f"book {what}" in world.log else None,
    )
    async def book(what: str) -> str:
        """Book a room."""
        number = world.act(f"book {what}")
        if what == "slow":
            await asyncio.to_thread(store.lock)
            begun.set()
            if how == "it fails":
                raise ValueError("no room")
            await asyncio.to_thread(let_go.wait, PATIENCE)
        return f"number {number}"

    @effect("irreversible", scope="mail:/{what}")
    async def mail(what: str) -> str:
        """Send a mail."""
        return f"number {world.act(f'mail {what}')}"

    return [book, mail]


@pytest.fixture(autouse=True)
def an_impatient_store(monkeypatch):
    """A store that does not answer is given what it is given outside of tests."""
    monkeypatch.setattr(_limits, "LEAST_SECONDS", 1.0)
    monkeypatch.setattr(_limits, "CLOSE_SECONDS", 5.0)


@pytest.mark.parametrize("how", ["it is at it", "it fails"])
def test_a_run_that_is_cancelled_while_the_store_does_not_answer_ends_at_once(driver, world, tmp_path, how):
    store, begun, let_go = Locked(tmp_path), threading.Event(), threading.Event()
    wait = 2 if driver.name in IN_THREADS else FOREVER

    async def cancel(settlement):
        tools = desk(world, store, begun, let_go, how)
        task = asyncio.create_task(driver.arun(tools, SCRIPT, settlement=settlement))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        task.cancel()
        asyncio.get_running_loop().call_later(0.1, let_go.set)
        with suppress(asyncio.CancelledError):
            await task

    with Settlement(store.url, wait=wait, lease=600) as settlement:
        together(lambda: asyncio.run(cancel(settlement)))
        store.unlock()
        deadline = time.monotonic() + PATIENCE
        while settlement.recover(keep_open=0) is not None and host_of(settlement).protocol.live:
            assert time.monotonic() < deadline, settlement.show()
            time.sleep(0.01)
        assert (world.standing(), "mail ada" in world.log) == ({}, False)
        assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])


def _run_elsewhere(path):
    """The functions of a module that have the engine run in another task than their own."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    here = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Await | ast.Return)}
    return [
        function.name
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"run_async", "end_async"}
        and id(node) not in here
    ]


@pytest.mark.parametrize("shim", sorted(path.name for path in INTEGRATIONS.glob("settlemark_*")))
def test_each_shim_runs_the_engine_in_the_task_that_may_be_cancelled(shim):
    """In a task of its own the engine does not know that whoever waits for it was cancelled, and waits for long."""
    found = [name for path in (INTEGRATIONS / shim).rglob("*.py") for name in _run_elsewhere(path)]

    # A turn that nobody is left to settle has no task.
    assert found == (["_settle_unattended"] if shim == "settlemark_langgraph" else [])
