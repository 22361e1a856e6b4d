"""The cost of prevention."""

from __future__ import annotations

import pytest

RUNS = 1


def test_words_made_again_grow_with_aborted_attempts_one_generation_for_each(found):
    (line,) = found.tables[1].rows
    assert line["intercept"] - line["± intercept"] <= 0 <= line["intercept"] + line["± intercept"]
    assert line["slope"] == pytest.approx(1 + 8 / 140, abs=0.1)
    assert line["r²"] > 0.99


def test_prevention_works_where_it_is_priced(found):
    for row in found.tables[0].rows:
        if row["strategy"] == "vanilla":
            assert row["A1"].count > 0
            assert row["words over unguarded"] == 0
        else:
            assert row["A1"].count == 0
        assert (row["complete"], row["log agrees"]) == ("2/2", "2/2")


def test_who_waits_for_a_lock_makes_no_word_again(found):
    locking = [row for row in found.tables[0].rows if row["strategy"] == "pessimistic, wait"]
    assert {(row["aborts"], row["words over unguarded"]) for row in locking} == {(0, 0)}
