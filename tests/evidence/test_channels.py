"""Channels."""

from __future__ import annotations

from tests.evidence._report import Share

RUNS = 100


def test_of_appends_that_read_the_same_one_stays_unless_versions_are_compared(found):
    assert {row["writers"]: row["lost"] for row in found.tables[0].rows} == {
        "vanilla": Share(36, 48),
        "serializable": Share(0, 48),
        "versioned channel": Share(0, 48),
    }
    attempts = [row["attempts"] for row in found.tables[0].rows]
    assert attempts[0] == 48
    assert min(attempts[1:]) > 48


def test_copies_that_lag_disagree_and_the_primary_does_not(found):
    any_copy, pinned = found.tables[1].rows
    assert any_copy["A4"].count > 0
    assert pinned["A4"].count == 0
    assert any_copy["reads"] == pinned["reads"]
