"""What is finished is forgotten: a process that settles for weeks does not grow."""

from __future__ import annotations

import gc
import sys

import pytest

from settlemark import Payloads, Settlement, effect
from settlemark.hosting import host_of


@effect("reversible", scope="room:/{hotel}", undo=lambda hotel: None)
def reserve(hotel):
    return hotel


@effect("read", scope="price:/{hotel}")
def price(hotel):
    return 90


def nodes(node):
    return 1 + sum(nodes(child) for child in node.children.values())


def kept(settlement):
    """Everything that the protocol, the driver and the ledger in memory still hold."""
    protocol, driver, ledger = host_of(settlement).protocol, host_of(settlement).driver, host_of(settlement).ledger
    return {
        "scopes in the index": nodes(protocol.board.index.root) - 1,
        "entries in its log": protocol.board.versions.logged,
        "live transactions": len(protocol.live),
        "positions": len(protocol.board.order.items),
        "readers": len(protocol.board.versions._lows.items),
        "plans": len(protocol.board.versions._plans),
        "attempts": len(driver.kernel.attempts) + len(driver.kernel.waits.waiting),
        "recorded transactions": len(ledger.book._transactions) + len(ledger.book._last) + len(ledger.book._finished),
        "recorded effects": len(ledger.book._effects),
        "declarations": len(host_of(settlement).tools.declared),
    }


def blocks():
    gc.collect()
    return sys.getallocatedblocks()


def writers(tx, number):
    tx.call(reserve, hotel=f"h{number}")


def planners(tx, number):
    tx.call(price, hotel=f"h{number}")
    tx.call(reserve, hotel=f"h{number}")


@pytest.mark.parametrize(("step", "total"), [(writers, 100_000), (planners, 40_000)], ids=["writers", "planners"])
def test_memory_is_flat_however_many_transactions_have_finished(gauge, step, total, request):
    retained = gauge.scale(1_000, 20)
    few, many = gauge.scale(10_000, 100), gauge.scale(total, 300)
    settlement = Settlement("memory:", payloads=Payloads(retain=retained))

    def settle(start, stop):
        for number in range(start, stop):
            with settlement.transaction(f"trip-{number}") as tx:
                step(tx, number)
        return kept(settlement), blocks()

    empty = blocks()
    then, blocks_then = settle(0, few)
    now, blocks_now = gauge.once(lambda: settle(few, many))
    gauge.count(
        f"memory blocks after N {request.node.callspec.id}",
        blocks_now - empty,
        "blocks",
        size=many,
        ratios={f"after {few:,}": (blocks_now - empty) / max(1, blocks_then - empty)},
    )

    assert now == then
    assert now["recorded effects"] == retained
    assert now["live transactions"] == now["scopes in the index"] == now["entries in its log"] == 0


@pytest.mark.parametrize("waits_on", ["an open transaction", "a plan"])
def test_what_one_unfinished_piece_of_work_keeps_of_those_that_finish_beside_it(gauge, waits_on):
    many = gauge.scale(5_000, 50)
    settlement = Settlement("memory:", payloads=Payloads(retain=10))

    def settle_beside():
        for number in range(many):
            with settlement.transaction(f"trip-{number}") as tx:
                writers(tx, number)
        return kept(settlement)

    if waits_on == "a plan":
        with settlement.transaction("old/think") as tx:
            tx.call(price, hotel="far")
        during = gauge.once(settle_beside)
        with settlement.transaction("old/act") as tx:
            tx.call(reserve, hotel="far")
    else:
        with settlement.transaction("old") as tx:
            tx.call(reserve, hotel="far")
            during = gauge.once(settle_beside)
    gauge.count(f"log entries kept by {waits_on}", during["entries in its log"], "", size=many)

    after = kept(settlement)
    assert after["entries in its log"] == after["scopes in the index"] == after["plans"] == 0
    assert len(settlement.transactions()) == 10
