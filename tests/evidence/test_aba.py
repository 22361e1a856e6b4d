"""ABA."""

from __future__ import annotations

RUNS = 150


def test_comparing_values_admits_what_was_changed_and_came_back_and_comparing_versions_nothing(found):
    unguarded, by_value, by_version = found.tables[0].rows
    there = unguarded["changed and back"]
    assert there.count == there.of > 0
    assert unguarded["changed"].count == unguarded["changed"].of > 0
    assert (by_value["changed and back"], by_value["changed"].count) == (there, 0)
    assert (by_version["A1"].count, by_value["A1"].count) == (0, there.count)


def test_every_effect_is_there_once_and_the_log_agrees(found):
    assert {(row["complete"], row["log agrees"]) for row in found.tables[0].rows} == {("45/45", "45/45")}
    assert found.tables[0].row("by value")["vetoes"] > 0
    assert found.tables[0].row("by version")["aborts"] > 0
