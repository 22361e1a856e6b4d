"""Supervised retraction."""

from __future__ import annotations

from tests.evidence._report import Share

RUNS = 100
SIZE = 20


def test_unguarded_every_plan_that_is_taken_back_leaves_who_acted_upon_it_and_their_mail(found):
    assert [row["taken back"] for row in found.tables[0].rows] == ["0"] * 3 + ["3"] * 3 + ["9"] * 3
    for row in found.tables[0].rows:
        there = Share(int(row["taken back"]) if row["strategy"] == "vanilla" else 0, SIZE)
        assert row["A3"] == row["A3x"] == row["mailed in vain"] == there


def test_all_executors_end_and_those_of_plans_taken_back_at_their_second_attempt(found):
    for row in found.tables[0].rows:
        assert (row["complete"], row["log agrees"]) == ("20/20", "20/20")
        assert row["first attempt"] == Share(SIZE - int(row["taken back"]), SIZE)
        assert row["aborts"] == (int(row["taken back"]) if row["strategy"] == "early reads" else 0)


def test_going_back_when_all_is_over_undoes_what_is_named_and_tells_what_stays(found):
    alone, both = found.tables[1].rows
    assert (alone["undone"], alone["told to stay"]) == (SIZE, 0)
    assert (both["undone"], both["told to stay"]) == (2 * SIZE, SIZE)
    assert alone["A3"] == alone["A3 in the log"] == Share(SIZE, SIZE)
    assert both["A3"] == both["A3 in the log"] == Share(0, SIZE)
