"""What came to the rules after the first ones: each in every interleaving of small programs that meet it."""

from __future__ import annotations

import pytest
from tests.core.explorer.explorer import explore
from tests.core.explorer.programs import LONGER, RULES


def explored(cases, record_property):
    """Return what went wrong, by case, and report how much was visited."""
    found = [(case, explore(*case[0], **case[1])) for case in cases]
    record_property("explored_programs", len(found))
    record_property("explored_states", sum(each.states for _, each in found))
    record_property("explored_ends", sum(each.finals for _, each in found))
    return [(case, each.violations) for case, each in found if each.violations or not each.finals]


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_holds_in_every_interleaving(rule, record_property):
    assert explored(RULES[rule], record_property) == []


@pytest.mark.long
@pytest.mark.parametrize("case", LONGER, ids=lambda case: " , ".join(case[0]))
def test_the_rules_hold_together_and_for_longer_programs(case, record_property):
    assert explored([case], record_property) == []


def outcomes(number, *programs, **options):
    """In what one transaction may end: its commits by attempt, `failed`, `gave up`."""
    found = set()
    for tasks, *_ in explore(*programs, **options).ends:
        committed, failed, gave_up = tasks[number]
        found.add("failed" if failed else "gave up" if gave_up else committed)
    return found


def test_what_was_read_live_makes_its_transaction_begin_again_when_it_changed_in_time():
    assert outcomes(0, "lx sy", outside="x") == {1, 2}


def test_what_is_parked_is_undone_when_what_it_read_changed_before_the_answer():
    assert outcomes(1, "sx", "rx iy k") == {1, "gave up"}


def test_what_was_split_off_gives_up_when_what_had_been_read_changed_and_the_whole_stays():
    assert outcomes(2, "rx ey iz g", "sx") == {1, "gave up"}
    assert outcomes(0, "rx ey iz g", "sx") == {1}


@pytest.mark.parametrize("outside", [("lx iz g", "x"), ("vx iz g", "t")])
def test_what_was_read_live_is_compared_again_when_the_answer_comes(outside):
    program, what = outside
    assert outcomes(1, program, outside=what) >= {1, "gave up"}


def test_either_branch_may_be_the_one_that_settles():
    ends = explore("ex | ex").ends
    assert {who for _, order, *_ in ends for who in order} == {(1, 1), (2, 1)}
    assert all(len(order) == 1 for _, order, *_ in ends)


def test_what_runs_inside_a_call_settles_whatever_becomes_of_its_caller():
    assert outcomes(0, "nx f", inside={0: "ey"}) == {"failed"}
    assert outcomes(1, "nx f", inside={0: "ey"}) == {1}
