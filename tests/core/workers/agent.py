"""A worker process: runs random transactions against the desk until the work is over, or it is killed."""
# ruff: noqa: T201 - it tells its parent what it did

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from world import Desk, tools  # the path is a line above

from settlemark import LedgerError, Retries, SettlemarkError, Settlement

PATIENCE = 300
BREATH = 0.05
CELLS = ["p/a", "p/b", "p/c", "q/a", "q/b"]


def steps_of(draw, own):
    """Draw what one transaction does: 1 to 4 steps on shared cells, or on the worker's own."""
    steps = []
    for _ in range(draw.randint(1, 4)):
        verb = draw.choice(["look", "look", "add", "add", "add_under", "put", "register", "send"])
        cells = [f"own/{own}/a", f"own/{own}/b"] if own and draw.random() < 0.5 else CELLS
        cell = draw.choice(cells)
        steps.append((verb, cell))
    return steps


def main(url, desk_path, seed, number, over, lease):
    draw = random.Random(f"{seed}-{number}-{time.time_ns()}")
    desk = Desk(desk_path, dwell=float(os.environ.get("SETTLEMARK_TEST_DWELL", "0")))
    known = tools(desk)
    settlement, patience = None, time.monotonic() + PATIENCE
    while settlement is None:
        try:
            settlement = Settlement(url, lease=lease, keep_open=0.0, wait=20.0, retries=Retries(first=0, most=0))
        except LedgerError:  # it cannot be reached for the moment
            if time.monotonic() > patience:
                raise
            time.sleep(0.2)
    print("ready", flush=True)
    turn = done = 0
    while not (done and over.exists()):
        turn += 1
        steps = steps_of(draw, number)
        name = f"run-{number}-{time.time_ns()}/{turn}"

        def act(tx, steps=steps):
            for verb, cell in steps:
                if verb in ("look", "register", "send"):
                    tx.call(known[verb], cell=cell)
                else:
                    tx.call(known[verb], cell=cell, amount=1)

        try:
            settlement.run(name, act, tries=50)
            print(f"committed {name}", flush=True)
            done += 1
        except SettlemarkError as error:
            print(f"refused {name} {type(error).__name__}: {error}", flush=True)
            time.sleep(BREATH)  # a store that is away is not asked as fast as a processor can
    settlement.close()
    print("done", flush=True)


if __name__ == "__main__":
    url, desk_path, seed, number, over, lease = sys.argv[1:]
    main(url, desk_path, int(seed), int(number), Path(over), float(lease))
