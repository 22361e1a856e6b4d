"""A ledger with retention stops growing, however many transactions pass through it: its file, its log, its state.

It asserts sizes, never times. `SETTLEMARK_GROWTH=1000000` says how many transactions; a measuring run takes ten
thousand, a smoke run a thousand.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.rooms.payloads import LIMIT
from tests.rooms.replica import replica

from settlemark import Injected, Settlement, effect
from settlemark.hosting import host_of

DAY = 86_400.0
CHUNKS = 10
SETTLED = 4  # chunks until what is kept at any time is there
MOST = 1.25


@pytest.fixture
def folder(tmp_path):
    """A directory, in memory where there is one: a million durable commits need no disk to be counted."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(dir=shared))
    yield made
    shutil.rmtree(made)


class Days:
    """A clock on which a transaction takes a second."""

    def __init__(self):
        self.now = DAY

    def __call__(self):
        return self.now


@effect("idempotent", scope="account:/{account}", window=DAY / 2)
def charge(account, amount, text):
    return {"account": account, "amount": amount, "text": text}


def measured(path):
    """The file's size in bytes (its log of writes included), and how many rows each table has."""
    with closing(sqlite3.connect(path)) as connection:
        (pages,), (size,) = (connection.execute(f"PRAGMA {what}").fetchone() for what in ("page_count", "page_size"))
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if "_" in name
        ]
        rows = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
        (state,) = connection.execute("SELECT coalesce(max(length(state)), 0) FROM settlemark_image").fetchone()
        found = connection.execute("SELECT state FROM settlemark_image").fetchone()
    plans = len(json.loads(found[0])["plans"]) if found else 0
    return {"file": pages * size, "image": state, "plans": plans, **rows}


def test_a_ledger_with_retention_stops_growing(gauge, folder, monkeypatch):
    total = int(os.environ.get("SETTLEMARK_GROWTH", gauge.scale(10_000, 1_000)))
    chunk = total // CHUNKS
    monkeypatch.setattr(replica, "IMAGE_EVERY", min(replica.IMAGE_EVERY, chunk // 4))
    path, clock = folder / "ledger.db", Days()
    second = DAY / 2 / chunk  # so that a window is as long as a chunk, whatever its size
    sizes = []

    def work():
        with Settlement(f"sqlite:///{path}", injected=Injected(clock=clock)) as settlement:
            host_of(settlement).protocol.board.versions.plan_limit = min(
                chunk, host_of(settlement).protocol.board.versions.plan_limit
            )
            for number in range(total):
                name = f"trip-{number}"
                with settlement.transaction(name) as tx:
                    tx.read(f"price:/{number % 97}", lambda: 7)
                    if number % 4:  # else the run only reads: its plan stays
                        tx.call(
                            charge,
                            account=number % 50,
                            amount=number,
                            text="x" * (LIMIT + 1 if number % 50 == 1 else 99),
                        )
                if number % 20 == 0:
                    settlement.cancel(f"job-{number}")
                clock.now += second
                if number % chunk == chunk - 1:
                    settlement.prune(0.25, keys=0.5)
                    host_of(settlement).ledger.now(lambda _protocol, _book: None)
                    sizes.append(measured(path) | {"fenced": len(host_of(settlement).protocol.fenced)})
        return total

    gauge.once(work)
    early, late = sizes[:SETTLED], sizes[SETTLED:]
    for what in sizes[0]:
        grown = max(size[what] for size in late) / max(1, *(size[what] for size in early))
        gauge.count(f"growth of {what}, last to first chunks", grown, "x", aim=MOST, size=total)
        assert grown <= MOST, (what, [size[what] for size in sizes])
    last = sizes[-1]
    assert last["settlemark_transaction"] <= 2 * chunk
    assert last["settlemark_log"] <= 3 * replica.IMAGE_EVERY
    assert (last["settlemark_image"], last["settlemark_blob"] > 0) == (1, True)
    assert last["fenced"] == last["settlemark_fence"]
