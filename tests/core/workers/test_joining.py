"""Processes that open a fresh store at the same moment all join it."""

from __future__ import annotations

import threading
from contextlib import closing

from settlemark import Settlement
from settlemark.hosting import host_of


def test_settlements_that_open_a_fresh_store_at_once_all_join_it(shared_url):
    barrier, opened, failed = threading.Barrier(6), [], []

    def join():
        barrier.wait()
        try:
            opened.append(Settlement(shared_url))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=join) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for settlement in opened:
        with closing(settlement), settlement.transaction() as tx:
            tx.read("cell:/a")
    assert failed == []
    assert len({host_of(settlement).ledger.worker for settlement in opened}) == 6
