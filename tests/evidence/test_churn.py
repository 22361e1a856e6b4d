"""The A2 twin."""

from __future__ import annotations

from tests.evidence._report import Share

RUNS = 4


def test_a_planned_tool_that_is_struck_is_called_only_where_nobody_guards(found):
    for row in found.tables[0].rows:
        unguarded = row["strategy"] == "vanilla"
        if not unguarded:
            assert row["A2"] == Share(0, RUNS)
        elif row["struck"] == "the planned one":
            assert row["A2"] == Share(RUNS, RUNS)


def test_checked_it_is_planned_anew_and_pinned_it_acts_as_planned_unless_it_was_revoked(found):
    for row in found.tables[0].rows:
        if row["struck"] != "the planned one":
            continue
        anew = row["strategy"] == "checked" or (row["strategy"] == "pinned" and row["tool"] == "revoked")
        assert (row["aborts"], row["as planned"]) == ((RUNS, Share(0, RUNS)) if anew else (0, Share(RUNS, RUNS)))


def test_every_effect_is_there_once_and_the_log_differs_only_in_what_was_pinned(found):
    assert {row["complete"] for row in found.tables[0].rows} == {"4/4"}
    differ = {(row["tool"], row["strategy"]) for row in found.tables[0].rows if row["log agrees"] != "4/4"}
    assert differ == {("changed", "pinned")}
