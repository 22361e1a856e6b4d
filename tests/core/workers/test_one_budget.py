"""Eight processes that pay out of one budget of 1,000 and are killed: the bank's own log has no more than that.

`SETTLEMARK_TESTS=all` kills a hundred of them.
"""

from __future__ import annotations

import json
from contextlib import closing
from decimal import Decimal

import pytest
from payer import BUDGET, LIMIT, tools
from tests.extent import ALL

from settlemark import OverBudget, Settlement
from settlemark.testing import Bank

WORKERS = 8
KILLS = 100 if ALL else 6


@pytest.fixture
def bank():
    accounts = {f"shop-{number}{more}": 0 for number in range(WORKERS) for more in ("", "-2")}
    with Bank({"ops": 10 * LIMIT} | accounts) as bank:
        yield bank


@pytest.fixture
def make_payers(make_crew, bank):
    """Have a crew whose workers pay."""

    def make(url):
        crew = make_crew(url)

        crew.start = lambda number: crew.begin(
            number, "payer.py", url, json.dumps(bank.address), number, crew.over, crew.lease
        )
        return crew

    return make


def left_at(bank):
    """What the bank has wired and not wired back, by its own log: each wire's key, and its amount."""
    wires = {
        entry["id"]: (entry["key"], entry["request"]["amount"]) for entry in bank.wires() if entry["event"] == "booked"
    }
    for entry in bank.wires():
        if entry["event"] == "cancelled":
            wires.pop(entry["id"], None)
    return dict(wires.values())


def test_processes_that_are_killed_never_spend_more_than_their_one_budget(
    shared_url, make_payers, bank, record_property
):
    crew = make_payers(shared_url)
    for number in range(WORKERS):
        crew.start(number)
    crew.kill_at_random(lambda: crew.killed >= KILLS and "over " in crew.told(), each=0.6, seed=WORKERS)
    crew.finish()
    pay, _ = tools(bank)  # what ended processes left is ended by handlers of their names
    with closing(crew.settle_the_rest()) as settlement:
        (bucket,) = settlement.budgets()
        wired = left_at(bank)
        spent = sum(wired.values())
        assert (spent, bucket.reserved) == (bucket.charged, Decimal(0)), (settlement.in_doubt(), settlement.residue())
        assert spent <= LIMIT
        confirmed = {e.row.key for r in settlement.transactions() for e in r.effects if e.outcome.value == "confirmed"}
        assert confirmed == set(wired)
    told = crew.told()
    assert "Traceback" not in told
    with Settlement(shared_url, budgets=[BUDGET]) as last:
        if spent < LIMIT:
            last.run("the rest", lambda tx: tx.call(pay, to="shop-0", amount=LIMIT - int(spent)))
        with pytest.raises(OverBudget):
            last.run("one more", lambda tx: tx.call(pay, to="shop-0", amount=1))
    assert sum(left_at(bank).values()) == LIMIT, "what was given back can be spent, and no more"
    record_property("workers", f"{crew.killed} kills, {told.count('committed ')} committed, {spent} of {LIMIT} spent")
