"""A worker process that pays without end, and tells when it is halted."""
# ruff: noqa: T201 - it tells its parent what it did

from __future__ import annotations

import json
import random
import sys
import time

from payer import MOST, tools

from settlemark import Halted, SettlemarkError, Settlement
from settlemark.testing import Bank


def main(url, address, number, lease):
    draw = random.Random(int(number))
    pay, lend = tools(Bank.connect(**json.loads(address)))
    settlement = Settlement(url, lease=float(lease), keep_open=0.0, wait=20.0)
    print("ready", flush=True)
    turn = 0
    while True:
        turn += 1
        name = f"run-{number}-{time.time_ns()}/{turn}"
        try:
            with settlement.transaction(name) as tx:
                for shop in (number, f"{number}-2", number):
                    tx.call(draw.choice((pay, lend)), to=f"shop-{shop}", amount=draw.randint(1, MOST))
            print("committed", flush=True)
        except Halted as error:
            print("parked" if error.parked else "halted", flush=True)
            time.sleep(0.02)
        except SettlemarkError as error:
            print(f"refused {name} {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
