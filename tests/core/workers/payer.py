"""A worker process that pays out of one budget, until the work is over or it is killed."""
# ruff: noqa: T201 - it tells its parent what it did

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from settlemark import Budget, OverBudget, SettlemarkError, Settlement, current_call, effect
from settlemark.testing import Bank

LIMIT = 1_000
BUDGET = Budget("usd", LIMIT, per="namespace")
MOST = 30


def tools(bank):
    """The two ways to pay: held until the step settles, and at once with a way back."""

    def found(key):
        wire = bank.status(key)
        return None if wire is None else wire["id"]

    def wire(to, amount):
        return bank.wire(current_call().key, "ops", to, amount)

    @effect("irreversible", scope="account:/{to}", spends={"usd": "{amount}"}, keyed=True, probe=found)
    def pay(to: str, amount: int) -> str:
        return wire(to, amount)

    @effect(
        "reversible",
        scope="account:/{to}",
        spends={"usd": "{amount}"},
        probe=found,
        undo=lambda result: bank.reverse(result),
    )
    def lend(to: str, amount: int) -> str:
        return wire(to, amount)

    return pay, lend


def main(url, address, number, over, lease):
    draw = random.Random(f"{number}-{time.time_ns()}")
    pay, lend = tools(Bank.connect(**json.loads(address)))
    settlement = Settlement(url, lease=float(lease), keep_open=0.0, wait=20.0, budgets=[BUDGET])
    print("ready", flush=True)
    turn = 0
    while not Path(over).exists():
        turn += 1
        name = f"run-{number}-{time.time_ns()}/{turn}"
        try:
            with settlement.transaction(name) as tx:
                tx.call(draw.choice((pay, lend)), to=f"shop-{number}", amount=draw.randint(1, MOST))
                tx.call(draw.choice((pay, lend)), to=f"shop-{number}-2", amount=draw.randint(1, MOST))
                if draw.random() < 0.3:
                    raise LookupError("it changes its mind")
            print(f"committed {name}", flush=True)
        except LookupError:
            print(f"undone {name}", flush=True)
        except OverBudget as error:
            print(f"over {error.charged} {error.reserved} {error.asked}", flush=True)
            time.sleep(0.1)
        except SettlemarkError as error:
            print(f"refused {name} {type(error).__name__}: {error}", flush=True)
    settlement.close()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
