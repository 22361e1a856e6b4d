"""The cost of prevention."""

from __future__ import annotations

import pytest

RUNS = 1


def test_words_made_again_grow_with_aborted_attempts_one_generation_for_each(found):
    assert {row["generations an attempt"] for row in found.tables[0].rows} == {1}
    in_line, at_once = found.tables[1].rows
    for line in (in_line, at_once):
        assert line["intercept"] - line["± intercept"] <= 0 <= line["intercept"] + line["± intercept"]
        assert line["slope"] == pytest.approx(1 + 8 / 140, abs=0.1)
    assert at_once["r²"] > 0.99
    # Over so short a range the answers' lengths, 40 to 120 words, scatter as much as this.
    assert in_line["r²"] > 0.95


def test_in_line_an_agent_loses_about_one_race_and_at_once_as_many_as_there_are_others(found):
    on_one_cell = [row for row in found.tables[0].rows if row["cells"] == "1"]
    for strategy, grows in (("serializable", False), ("serializable, at once", True)):
        rates = [row["aborted attempts an operation"] for row in on_one_cell if row["strategy"] == strategy]
        assert (max(rates) > 1) is grows


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
