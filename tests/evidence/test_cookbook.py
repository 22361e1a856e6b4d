"""Cookbook-shaped sessions."""

from __future__ import annotations

from tests.evidence._report import Share

RUNS = 100
SIZE = 10


def test_who_take_turns_are_never_stale_although_the_precondition_is_there(found):
    taking_turns = [row for row in found.tables[0].rows if "overlap" not in row["shape"]]
    assert {row["A1"] for row in taking_turns} == {Share(0, SIZE)}
    assert {row["shape"] for row in taking_turns if row["precondition"].count} == {"shared_workspace"}


def test_turns_that_overlap_are_stale_and_the_guard_ends_that(found):
    overlapping = {row["strategy"]: row for row in found.tables[0].rows if "overlap" in row["shape"]}
    assert overlapping["vanilla"]["A1"].count > 0
    assert overlapping["serializable"]["A1"] == Share(0, SIZE)
    assert overlapping["serializable"]["aborts"] > 0


def test_every_effect_is_there_once_and_the_log_agrees(found):
    assert {(row["complete"], row["log agrees"]) for row in found.tables[0].rows} == {("10/10", "10/10")}
