"""The A6 twin: a turn of several writes, each of which takes its time."""

from __future__ import annotations

import math
import random

from tests.evidence._bench import UNGUARDED, Bench, Operation, Session, Strategy
from tests.evidence._report import Findings, Table, Told, bars
from tests.evidence._tally import tally

WIDTHS = (2, 3, 4, 8, 16)
STRATEGIES = (
    UNGUARDED,
    Strategy("one by one", UNGUARDED.options, one_by_one=True),
    Strategy("sequencer", {"prevent": {"A6"}}),
)


BECAUSE = """
The paper draws latencies again until they reorder the turn. As they come, a turn of width w is out of order with
probability 1 - 1/w!: a half at width two, all but always from five on.

The guard lets a call begin when the one before it has returned. Issuing them one by one has the same effect without a
guard, if every caller keeps to it.
"""


def run(runs: int, told: Told) -> Findings:
    """Play so many turns of each width: with latencies that reorder them, and with latencies as they come."""
    rows = []
    for forced in (True, False):
        for width in WIDTHS:
            for strategy in STRATEGIES:
                chance = random.Random(width)
                latencies = [_latencies(chance, width, forced=forced) for _ in range(runs)]
                with Bench(strategy) as bench:
                    judged = bench.play([_turn(each) for each in latencies], told)
                rows.append(
                    {
                        "latencies": "out of order" if forced else "any",
                        "width": str(width),
                        "strategy": strategy.name,
                        **tally(judged, ("A6",)),
                        "expected unguarded": "1" if forced else f"{1 - 1 / math.factorial(width):.3f}",
                    }
                )
    table = Table(f"{runs} turns each; the paper has 1000/1000 unguarded and 0/1000 guarded at every width", rows)
    return Findings(
        "reordering",
        "A6 twin: the order in which the writes of a turn act",
        [table],
        BECAUSE,
        bars(table, ["A6"]),
    )


def _latencies(chance: random.Random, width: int, *, forced: bool) -> list[int]:
    drawn = chance.sample(range(1, width + 1), width)
    while forced and drawn == sorted(drawn):
        drawn = chance.sample(range(1, width + 1), width)
    return drawn


def _turn(latencies: list[int]):
    async def session(session: Session) -> None:
        async def body(operation: Operation) -> None:
            await operation.turn({f"c{n}": latency for n, latency in enumerate(latencies)})

        await session.operate("ada", body, writes=[f"c{n}" for n in range(len(latencies))])

    return session


__all__ = ["run"]
