"""An agent in a process of its own, which does as it is told: URL, root, the file of the clock, and who it is.

Each line that comes in is a command; one line of JSON goes out for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from settlemark import Fenced, Injected, LeaseHeld, Settlement
from settlemark_adapters.filesystem import Filesystem


def main(url: str, root: str, clock: str, who: str) -> None:
    told = Path(clock)
    held = []
    with Settlement(url, injected=Injected(store_clock=lambda: float(told.read_text()))) as settlement:
        files = Filesystem(root, settlement, lease=lambda: held[-1] if held else None)
        for number, line in enumerate(sys.stdin):
            command, _, text = line.strip().partition(" ")
            try:
                if command == "lease":
                    held.append(settlement.lease("checkout:/repo", for_=60, by=who))
                    said = {"token": held[-1].token}
                elif command == "renew":
                    said = {"until": held[-1].renew()}
                else:
                    with settlement.transaction(f"{who}/{number}") as tx:
                        said = tx.call(files.write, path="log.txt", content=text)
            except LeaseHeld as error:
                said = {"held": error.holder, "since": error.since, "free_at": error.free_at}
            except Fenced as error:
                said = {"fenced": error.holder, "token": error.token, "current": error.current}
            sys.stdout.write(f"{json.dumps(said)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
