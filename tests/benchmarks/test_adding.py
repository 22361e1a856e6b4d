"""Agents who all pay into one account of a bank: with effects that commute, beside the same effects that do not."""

from __future__ import annotations

import itertools
import threading
from contextlib import nullcontext
from time import sleep

import pytest

from settlemark import Settlement, State, current_call, effect
from settlemark.observe import Ended, Waited
from settlemark.testing import Bank

AGENTS = 16
THINKING = 0.01
MONEY = 1_000_000


class Told:
    """Counts the waits, and the attempts that were undone."""

    def __init__(self):
        self.waits = 0
        self.aborts = 0

    def tell(self, event):
        self.waits += isinstance(event, Waited)
        self.aborts += isinstance(event, Ended) and event.state is not State.COMMITTED

    def around(self, acting):
        return nullcontext()


class Agents:
    """Sixteen who each pay in, think about what to do next while that is not settled, and settle."""

    def __init__(self, bank, url, **parts):
        self.bank, self.told = bank, Told()
        self.settlement = Settlement(url, observe=self.told, wait=60)
        self.names = (f"agent-{number}" for number in itertools.count())
        self.paid = 0

        @effect("reversible", scope="account:/fund", undo=lambda result: bank.reverse(result), **parts)
        def pay(amount: int) -> str:
            return bank.wire(current_call().key, "payer", "fund", amount)

        self.pay = pay

    def pay_in(self, tx):
        tx.call(self.pay, amount=1)
        sleep(THINKING)

    def work(self, each):
        def agent():
            for _ in range(each):
                self.settlement.run(next(self.names), self.pay_in)

        threads = [threading.Thread(target=agent) for _ in range(AGENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.paid += AGENTS * each
        return AGENTS * each


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_sixteen_agents_pay_into_one_account(gauge, store, tmp_path):
    each = gauge.scale(10, 1)
    accounts = {"payer": MONEY, "fund": 0}
    one, two = ["memory:"] * 2 if store == "memory" else [f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "two")]
    with Bank(accounts) as first, Bank(accounts) as second:
        both = {"commuting": Agents(first, one, commutes="pay in"), "plain": Agents(second, two)}
        gauge.beside(
            f"one account, {store}: commuting effects, a commit",
            lambda: both["commuting"].work(each),
            {"plain reversible": lambda: both["plain"].work(each)},
            rounds=3,
            unit="ms",
            size=AGENTS,
        )
        for name, agents in both.items():
            agents.settlement.close()
            gauge.count(f"  waits a commit, {name}", agents.told.waits / agents.paid, "", size=AGENTS)
            gauge.count(f"  aborts a commit, {name}", agents.told.aborts / agents.paid, "", size=AGENTS)
            assert agents.bank.balances() == {"payer": MONEY - agents.paid, "fund": agents.paid}
            assert len(agents.bank.wires()) == agents.paid + agents.told.aborts  # what was undone was done again
        assert (both["commuting"].told.waits, both["commuting"].told.aborts) == (0, 0)
        assert both["plain"].told.waits > 0
