"""Agents who all add to one cell: beside a plain lock around a transaction, which loses no race and wastes no work."""

from __future__ import annotations

import asyncio
import itertools
import threading
from time import sleep

import pytest

from settlemark import Settlement, effect

AGENTS = 16
THINKING = 0.01
KINDS = pytest.mark.parametrize("kind", ["reversible", "staged"])
STORES = pytest.mark.parametrize("store", ["memory", "sqlite"])


class Cell:
    """A number that agents read, think about and overwrite."""

    def __init__(self, kind):
        self.value = 0
        self.bodies = 0
        self.names = (f"agent-{number}" for number in itertools.count())
        undo = {"undo": self.set_back} if kind == "reversible" else {}

        @effect(kind, scope="cell:/1", **undo)
        def overwrite(value):
            before, self.value = self.value, value
            return {"before": before}

        self.overwrite = overwrite

    def set_back(self, result):
        self.value = result["before"]

    def look(self):
        return self.value

    def add_one(self, tx):
        self.bodies += 1
        seen = tx.read("cell:/1", self.look)
        sleep(THINKING)
        tx.call(self.overwrite, value=seen + 1)

    async def add_one_async(self, tx):
        self.bodies += 1
        seen = await tx.read("cell:/1", self.look)
        await asyncio.sleep(THINKING)
        await tx.call(self.overwrite, value=seen + 1)


def in_threads(act):
    threads = [threading.Thread(target=act) for _ in range(AGENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def in_tasks(act):
    await asyncio.gather(*(act() for _ in range(AGENTS)))


@pytest.fixture
def open_store(store, tmp_path):
    settlement = Settlement("memory:" if store == "memory" else f"sqlite:///{tmp_path}/cell.db")
    yield settlement
    settlement.close()


def tell(gauge, cell, told, commits, case, control, control_name):
    measured = gauge.beside(told, case, {control_name: control}, rounds=3, unit="ms", size=AGENTS)
    total = cell.value // 2  # the control adds as many
    per_commit = (cell.bodies - total) / total
    gauge.count("  bodies a commit", per_commit, "", aim=1.3, size=AGENTS)
    assert measured.done == commits
    assert cell.value % (2 * commits) == 0
    assert per_commit <= 1.3 + AGENTS / commits


@STORES
@KINDS
def test_threads_on_one_cell(gauge, open_store, kind, store):
    cell, lock, each = Cell(kind), threading.Lock(), gauge.scale(10, 2)
    commits = AGENTS * each

    def running():
        for _ in range(each):
            open_store.run(next(cell.names), cell.add_one)

    def locked():
        for _ in range(each):
            with lock, open_store.transaction(next(cell.names)) as tx:
                cell.add_one(tx)

    def case(act):
        return lambda: in_threads(act) or commits

    told = f"one cell, {kind}, {store}: threads, a commit"
    tell(gauge, cell, told, commits, case(running), case(locked), "one lock")


@STORES
@KINDS
def test_tasks_on_one_cell(gauge, open_store, kind, store):
    cell, each = Cell(kind), gauge.scale(10, 2)
    commits = AGENTS * each

    async def running():
        for _ in range(each):
            await open_store.run(next(cell.names), cell.add_one_async)

    def case(act):
        return lambda: asyncio.run(in_tasks(act)) or commits

    def one_lock():
        lock = asyncio.Lock()

        async def locked():
            for _ in range(each):
                async with lock, open_store.transaction(next(cell.names)) as tx:
                    await cell.add_one_async(tx)

        return case(locked)()

    told = f"one cell, {kind}, {store}: tasks, a commit"
    tell(gauge, cell, told, commits, case(running), one_lock, "one lock")
