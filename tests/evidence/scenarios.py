"""The seven synthetic scenarios under every strategy."""

from __future__ import annotations

import random
from collections import Counter

from tests.evidence._bench import Bench
from tests.evidence._report import Findings, Table, Told, bars
from tests.evidence._stories import PUBLISHED, SEVEN
from tests.evidence._strategies import STRATEGIES
from tests.evidence._tally import ANOMALIES, tally

SEED = 42
TRACES = 700
PAPER = {
    ("vanilla", "A1"): "145/700", ("vanilla", "A2"): "148/700", ("vanilla", "aborts"): "0",
    ("pessimistic, drop", "A1"): "0", ("pessimistic, drop", "A2"): "0", ("pessimistic, drop", "drops"): "285",
    ("snapshot", "A1"): "0", ("snapshot", "A2"): "148/700", ("snapshot", "aborts"): "145",
}  # fmt: skip # a table


BECAUSE = """
The paper names seven scenarios, and its 145 and 148 come out of a draw from the five of them in which neither A3 nor
A6 is to be had; the draw from all seven gives 107 and 106 (15 %), and is shown beneath.

An abort of the paper's is the end of its operation. Here the engine undoes the attempt and the agent makes another
one, so aborts are as many, and every session is complete.

A lock on what is read keeps pessimistic agents from A3 as well, and says nothing of the order within one agent's
turn, so A6 stays. Under locks that drop, the removal of a tool is what is refused.
"""


def run(runs: int, told: Told) -> Findings:
    """Play 700 traces of each draw under each strategy, or fewer in proportion to `runs` of 1000."""
    traces = max(len(SEVEN), TRACES * runs // 1000)
    tables = []
    for scenarios in (PUBLISHED, SEVEN):
        chance = random.Random(SEED)
        drawn = [chance.choice(scenarios) for _ in range(traces)]
        rows = []
        for strategy in STRATEGIES:
            with Bench(strategy) as bench:
                rows.append({"strategy": strategy.name, **tally(bench.play(drawn, told))})
        counts = Counter(scenario.__name__ for scenario in drawn)
        title = f"{traces} traces drawn from {len(scenarios)} scenarios: " + ", ".join(
            f"{counts[scenario.__name__]} {scenario.__name__.replace('_', ' ')}" for scenario in scenarios
        )
        tables.append(Table(title, rows, PAPER if scenarios is PUBLISHED and traces == TRACES else {}))
    return Findings(
        "scenarios",
        "The synthetic scenarios under each strategy: anomalies, and what their prevention cost",
        tables,
        BECAUSE,
        bars(tables[1], ANOMALIES),
    )


__all__ = ["run"]
