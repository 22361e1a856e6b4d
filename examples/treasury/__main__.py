"""Play days of the treasury, with faults, and say what the counterparties' own logs say of each.

    python examples/treasury --days 20

Each day is played twice: by an agent whose steps settle, and by the same agent without. Both meet the same faults: a
bank whose answer is lost, one that refuses the second leg of the hedge, an undo that is refused for a while, and the
death of the process (SIGKILL) before or after any act, up to twice a day.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from playing import Counterparties, play, summary
from rich.progress import track


def main() -> int:
    """Play the days that are asked for; return the status of the command."""
    parser = argparse.ArgumentParser(prog="python examples/treasury", description=__doc__)
    parser.add_argument("--days", type=int, default=20, help="how many days are played")
    parser.add_argument("--seed", type=int, default=0, help="which days these are")
    parser.add_argument("--json", action="store_true", help="print JSON alone")
    given = parser.parse_args()
    logging.getLogger("settlemark").setLevel(logging.ERROR)  # a day has many questions, and each is warned of
    with tempfile.TemporaryDirectory() as home, Counterparties(Path(home)) as them:
        days = track(range(given.days), "playing days", disable=given.json or not sys.stderr.isatty())
        played = [play(them, number, seed=given.seed) for number in days]
    if given.json:
        print(json.dumps([asdict(day) for day in played]))
    else:
        print(summary(played))
    return int(any(day.faults or day.unexplained for day in played))


if __name__ == "__main__":
    sys.exit(main())
