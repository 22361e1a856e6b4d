"""The synthetic scenarios: what each strategy prevents, what it costs, and that nothing was dropped for it."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.evidence._bench import UNGUARDED, Bench
from tests.evidence._report import Share
from tests.evidence._stories import PUBLISHED, SEVEN, phantom_write
from tests.evidence._strategies import STRATEGIES
from tests.evidence._tally import ANOMALIES

RUNS = 30
TRACES = 21
PREVENTS = {
    "vanilla": "", "pessimistic, drop": "A1 A2 A3", "pessimistic, wait": "A1 A2 A3", "snapshot": "A1",
    "serializable": "A1", "causal, settled reads": "A1 A3", "causal, early reads": "A1 A3", "saga": "A1 A3 A6",
    "sequencer": "A6", "registry, checked": "A2", "registry, pinned": "A2", "all guards": "A1 A2 A3 A6",
}  # fmt: skip # a table


def drawn(scenarios, traces=TRACES):
    chance = random.Random(42)
    return Counter(chance.choice(scenarios).__name__ for _ in range(traces))


def test_the_published_draw_is_drawn_from_the_five_scenarios_without_a3_and_a6():
    counts = drawn(PUBLISHED, 700)
    assert [counts[scenario.__name__] for scenario in PUBLISHED] == [145, 148, 130, 140, 137]
    counts = drawn(SEVEN, 700)
    assert (counts["stale_read"], counts["tool_deprecation"]) == (107, 106)


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES])
def test_a_strategy_keeps_out_what_it_is_for_and_nothing_else(found, strategy):
    counts = drawn(SEVEN)
    there = {
        "A1": counts["stale_read"],
        "A2": counts["tool_deprecation"],
        "A3": counts["phantom_write"],
        "A6": counts["effect_reorder"],
    }
    row = found.tables[1].row(strategy)
    assert all(there.values())
    assert {anomaly: row[anomaly] for anomaly in ANOMALIES} == {
        anomaly: Share(0 if anomaly in PREVENTS[strategy].split() else count, TRACES)
        for anomaly, count in there.items()
    }


@pytest.mark.parametrize("table", [0, 1])
def test_every_effect_is_there_once_and_the_counterparty_saw_what_the_history_says(found, table):
    assert {(row["complete"], row["log agrees"]) for row in found.tables[table].rows} == {("21/21", "21/21")}


def test_where_no_operation_is_stale_the_log_is_as_if_one_had_run_after_the_other(found):
    stale = drawn(SEVEN)["stale_read"]
    for row in found.tables[1].rows:
        guarded = "A1" in PREVENTS[row["strategy"]]
        assert row["serializable"] == f"{TRACES - (0 if guarded else stale)}/{TRACES}"


def test_what_is_prevented_is_paid_for_with_aborts_or_drops(found):
    counts = drawn(PUBLISHED)
    stale, churned = counts["stale_read"], counts["tool_deprecation"]
    table = found.tables[0]
    assert [(row["strategy"], row["aborts"], row["drops"]) for row in table.rows] == [
        ("vanilla", 0, 0),
        ("pessimistic, drop", 0, stale + counts["fan_out"]),
        ("pessimistic, wait", 0, 0),
        *(
            (name, stale, 0)
            for name in ("snapshot", "serializable", "causal, settled reads", "causal, early reads", "saga")
        ),
        ("sequencer", 0, 0),
        ("registry, checked", churned, 0),
        ("registry, pinned", churned, 0),
        ("all guards", stale + churned, 0),
    ]


def test_what_is_taken_back_is_taken_back_in_reverse_order():
    with Bench(UNGUARDED) as bench:
        (judged,) = bench.play([phantom_write], lambda: None)
    assert [line["cell"] for line in judged.log if line["do"] == "undo"] == ["s0/x", "s0/draft"]
