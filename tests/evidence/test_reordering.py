"""The A6 twin."""

from __future__ import annotations

from tests.evidence._report import Share

RUNS = 6


def test_latencies_out_of_order_reorder_every_turn_that_nobody_guards(found):
    for row in found.tables[0].rows:
        if row["strategy"] != "vanilla":
            assert row["A6"] == Share(0, RUNS)
        elif row["latencies"] == "out of order":
            assert row["A6"] == Share(RUNS, RUNS)


def test_as_latencies_come_the_unguarded_share_is_that_of_their_orders(found):
    drawn = {
        row["width"]: row["A6"]
        for row in found.tables[0].rows
        if row["latencies"] == "any" and row["strategy"] == "vanilla"
    }
    assert 0 < drawn["2"].count < RUNS
    assert drawn["16"] == Share(RUNS, RUNS)


def test_every_effect_is_there_once_and_the_log_agrees(found):
    assert {(row["complete"], row["log agrees"], row["aborts"]) for row in found.tables[0].rows} == {("6/6", "6/6", 0)}
