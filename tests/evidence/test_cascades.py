"""The A3 twin."""

from __future__ import annotations

from tests.evidence._report import Share

RUNS = 6


def test_unguarded_every_chain_stands_on_what_was_taken_back_and_guarded_none(found):
    for row in found.tables[0].rows:
        guarded = row["strategy"] in ("early reads", "settled reads")
        assert row["A3"] == row["A3x"] == Share(0 if guarded else row["retracted"], RUNS)
    assert {row["retracted"] for row in found.tables[0].rows if row["root taken back"] == "always"} == {RUNS}
    assert 0 < found.tables[0].row("by a coin", "3")["retracted"] < RUNS


def test_a_cascade_undoes_all_behind_the_root_once_and_settled_reads_need_none(found):
    for row in found.tables[0].rows:
        behind = int(row["depth"]) - 1
        assert row["aborts"] == (row["retracted"] * behind if row["strategy"] == "early reads" else 0)


def test_every_chain_is_complete_and_the_log_agrees(found):
    assert {(row["complete"], row["log agrees"], row["drops"]) for row in found.tables[0].rows} == {("6/6", "6/6", 0)}
