"""An agent in a process of its own: appends its lines to the shared block, through a settlement or past it."""

from __future__ import annotations

import sys

from tests.adapters.store.subject import opened

from settlemark import Settlement
from settlemark_adapters.store import Store


def main(folder, agent, rounds):
    with Settlement(f"sqlite:///{folder}/ledger.db") as settlement:
        memory = Store(opened(folder), settlement)
        for number in range(int(rounds)):
            settlement.run(
                f"agent-{agent}/{number}",
                lambda tx, line=f"{agent}.{number}": tx.call(memory.append, namespace="team", name="log", text=line),
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
