"""The read-only bypass."""

from __future__ import annotations

from tests.evidence._report import Share

RUNS = 20
SIZE = 10


def test_who_only_reads_is_stale_under_snapshot_isolation_and_validated_it_is_not(found):
    stale = {tuple(list(row.values())[:3]): row["A1"] for row in found.tables[0].rows if row["A1"].count}
    assert stale == {
        ("only reads", "before", "vanilla"): Share(SIZE, SIZE),
        ("only reads", "before", "snapshot"): Share(SIZE, SIZE),
        ("only reads", "after", "vanilla"): Share(SIZE, SIZE),
        ("writes", "before", "vanilla"): Share(SIZE, SIZE),
    }


def test_who_is_validated_decides_again_and_nothing_is_lost(found):
    for row in found.tables[0].rows:
        again = row["reporter began"] == "before" and not row["A1"].count
        assert row["attempts"] == SIZE * (4 if again else 3)
        assert (row["complete"], row["log agrees"]) == ("10/10", "10/10")
