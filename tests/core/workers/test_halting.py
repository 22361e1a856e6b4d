"""Eight busy processes, one of them killed: behind a halt the bank's log is silent, and goes on when it is resumed."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from payer import tools
from tests.core.workers.conftest import wait_until
from tests.core.workers.test_one_budget import left_at

from settlemark import Settlement
from settlemark.testing import Bank

WORKERS = 8


@pytest.fixture
def bank():
    accounts = {f"shop-{number}{more}": 0 for number in range(WORKERS) for more in ("", "-2")}
    with Bank({"ops": 10**9} | accounts) as bank:
        yield bank


@pytest.fixture
def payers(shared_url, make_crew, bank):
    crew = make_crew(shared_url)
    for number in range(WORKERS):
        crew.begin(number, "halted_payer.py", shared_url, json.dumps(bank.address), number, crew.lease)
    return crew


def each_has_told(crew, numbers, word, times):
    before = {number: crew.told(number).count(word) for number in numbers}
    wait_until(lambda: all(crew.told(number).count(word) >= before[number] + times for number in numbers))


@pytest.mark.parametrize("what", ["everything", "account:/**"])
def test_behind_a_halt_the_bank_hears_nothing_until_it_is_resumed(shared_url, payers, bank, what):
    each_has_told(payers, range(WORKERS), "committed", 2)
    payers.kill(0)
    living = range(1, WORKERS)
    tools(bank)  # what the killed process left is ended by handlers of their names
    with closing(Settlement(shared_url, lease=payers.lease, keep_open=0.0)) as operator:
        halted = {"everything": True} if what == "everything" else {"scope": what}
        found = operator.halt(**halted, by="eve", because="odd payments")
        for _ in range(3):  # what a process left that was killed just now is known to be left after its lease
            if found.silent:
                break
            assert [moving.run.split("-")[1] for moving in found.moving] == ["0"], found.moving
            found = operator.halt(**halted, by="eve", because="odd payments")
        assert found.silent, found.moving
        before = bank.wires()
        each_has_told(payers, living, "halted", 5)
        assert bank.wires() == before
        operator.resume(found, by="eve")
        each_has_told(payers, living, "committed", 2)
    for number in living:
        payers.kill(number)
    with closing(payers.settle_the_rest()) as settlement:
        confirmed = {e.row.key for r in settlement.transactions() for e in r.effects if e.outcome.value == "confirmed"}
        assert (confirmed, settlement.in_doubt()) == (left_at_keys(bank), [])


def left_at_keys(bank):
    return set(left_at(bank))
