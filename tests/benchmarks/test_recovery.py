"""What a start costs when much was left unfinished, and what a commit costs beside it.

`SETTLEMARK_CROWDED=full pytest tests/benchmarks --benchmark-enable` has 100,000 unfinished and a million finished.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from contextlib import closing

import pytest

from settlemark import Settlement, State, effect
from settlemark.hosting import host_of

pytestmark = pytest.mark.long

FULL = os.environ.get("SETTLEMARK_CROWDED") == "full"
TOGETHER = 500
COMMITS = 20


reversible = effect("reversible", scope="room:/{number}", undo=lambda number: None)


@reversible
async def reserve(number):
    return number


@pytest.fixture(autouse=True)
def declared_here(declared_by_this_test_alone):
    """The process that recovers knows the tool by its name."""
    reversible(reserve)


@effect("reversible", scope="desk:/{number}", undo=lambda number: None)
def visit(number):
    return number


def leave_open(url, count):
    """Leave so many transactions open, each with one effect, as a process that ends does."""

    async def one(settlement, number):
        tx = await settlement.transaction(f"left-{number}").__aenter__()
        await tx.call(reserve, number=number)
        left.append(tx)

    left = []

    async def all_of_them(settlement):
        for first in range(0, count, TOGETHER):
            await asyncio.gather(*(one(settlement, number) for number in range(first, min(first + TOGETHER, count))))

    with Settlement(url) as settlement:
        asyncio.run(all_of_them(settlement))


def multiply_finished(url, count):
    """Have so many finished transactions on record, each a copy of one that was played."""
    with Settlement(url) as settlement, settlement.transaction("first") as tx:
        tx.call(visit, number=0)
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1})"
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as store:
        for table, changed in (("transaction", ("name",)), ("effect", ("name", "key"))):
            columns = [row[1] for row in store.execute(f"PRAGMA table_info(settlemark_{table})")]
            quoted = ", ".join(f'"{column}"' for column in columns)
            copied = ", ".join(f"\"{c}\" || '-' || i" if c in changed else f'"{c}"' for c in columns)
            if count > 1:
                rows = f"{numbers} SELECT {copied} FROM settlemark_{table}, n"
                store.execute(f"INSERT INTO settlemark_{table} ({quoted}) {rows}")
        store.commit()


def test_taking_up_what_was_left(gauge, tmp_path):
    size = gauge.scale(10_000, 20)
    url = f"sqlite:///{tmp_path / 'left.db'}"
    leave_open(url, size)
    seconds = []

    def start():
        began = time.perf_counter()
        with Settlement(url, keep_open=1e9) as settlement:
            kept = settlement.recover().kept
            seconds.append(time.perf_counter() - began)
        return kept

    kept = gauge.once(start)
    gauge.count("a start that finds N left open, and keeps them", seconds[0], "s", size=size, aim=2)
    assert len(kept) == size

    spent, undone = _undo_all(url)
    gauge.count("a start that undoes N left open, one effect each", spent, "s", size=size, aim=2)
    assert undone == size


def _undo_all(url):
    began = time.perf_counter()
    with Settlement(url, keep_open=1e9) as settlement:
        settlement.recover(keep_open=0)
        spent = time.perf_counter() - began
        undone = [r for r in settlement.transactions() if r.state is State.ABORTED]
        assert host_of(settlement).protocol.live == {}
    return spent, len(undone)


def _commit_some(settlement):
    settlement.made = getattr(settlement, "made", 0) + 1
    for number in range(COMMITS):
        with settlement.transaction(f"beside-{settlement.made}-{number}") as tx:
            tx.call(visit, number=number)
    return COMMITS


def _crowded(gauge, tmp_path, name, sizes, fill):
    opened = []

    def build(size):
        url = f"sqlite:///{tmp_path / f'{size}.db'}"
        fill(url, size)
        opened.append(Settlement(url, keep_open=1e9))
        return opened[-1]

    try:
        for size, settlement in gauge.across(name, sizes, build, _commit_some):
            mine = [r for r in settlement.transactions() if r.row.name.startswith("beside-")]
            assert len(mine) == settlement.made * COMMITS
            assert {r.state for r in mine} == {State.COMMITTED}
            assert len(settlement.transactions()) == size + len(mine)
    finally:
        for settlement in opened:
            settlement.close()


def test_a_commit_beside_unfinished_ones(gauge, tmp_path):
    sizes = (100, 1_000, 10_000, 100_000) if gauge.full and FULL else (100, 1_000) if gauge.full else (5, 10)
    _crowded(gauge, tmp_path, "commit beside N unfinished", sizes, leave_open)


def test_a_commit_behind_finished_ones(gauge, tmp_path):
    sizes = (1_000, 1_000_000) if gauge.full and FULL else (100, 10_000) if gauge.full else (5, 10)
    _crowded(gauge, tmp_path, "commit behind N finished", sizes, multiply_finished)
