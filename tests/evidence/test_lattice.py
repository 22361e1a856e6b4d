"""Sixteen sets of guards, and sixteen sets of anomalies that are left."""

from __future__ import annotations

from tests.evidence._tally import ANOMALIES

RUNS = 1


def test_a_set_of_guards_keeps_out_its_anomalies_and_no_other(found):
    left = {row["guards"]: {a for a in ANOMALIES if row[a].count} for row in found.tables[0].rows}
    assert len(left) == 16
    assert {guards: set(ANOMALIES) - set(guards.split(", ")) for guards in left} == left


def test_nothing_is_lost_for_it(found):
    assert {(row["complete"], row["log agrees"]) for row in found.tables[0].rows} == {("4/4", "4/4")}
