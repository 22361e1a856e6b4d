"""The sixteen sets of guards, each met by all four anomalies at once: what is prevented is what was asked for."""

from __future__ import annotations

from itertools import chain, combinations

from tests.evidence._bench import Bench, Strategy
from tests.evidence._report import Findings, Table, Told, bars
from tests.evidence._stories import effect_reorder, phantom_write, stale_read, tool_deprecation
from tests.evidence._tally import ANOMALIES, tally

SCENARIOS = (stale_read, tool_deprecation, phantom_write, effect_reorder)
ROUNDS = 25


BECAUSE = """
Seen 16 of 16, as the paper's exhaustive exploration has it; here by the engine, on a counterparty.
"""


def run(runs: int, told: Told) -> Findings:
    """Play each of the four scenarios 25 times under each set, or fewer in proportion to `runs` of 1000."""
    times = max(1, ROUNDS * runs // 1000)
    rows = []
    for prevented in chain.from_iterable(combinations(ANOMALIES, size) for size in range(5)):
        name = ", ".join(prevented) or "none"
        with Bench(Strategy(name, {"prevent": set(prevented)})) as bench:
            rows.append({"guards": name, **tally(bench.play(list(SCENARIOS) * times, told))})
    table = Table(f"{times} sessions of each of {len(SCENARIOS)} scenarios, a quarter for each anomaly", rows)
    return Findings(
        "lattice",
        "All sixteen sets of guards: each keeps out its anomalies, and no other",
        [table],
        BECAUSE,
        bars(table, ANOMALIES),
    )


__all__ = ["run"]
