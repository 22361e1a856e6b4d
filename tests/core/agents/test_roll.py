"""Who has come to a turn, and who will not."""

from __future__ import annotations

import threading

import pytest

from settlemark.agents import Roll


def seen(roll):
    return roll.missing, roll.absent, roll.is_void


def test_who_has_come_is_not_missing_and_is_not_given_up():
    roll = Roll(["a", "b"])
    assert (roll.arrive("a"), roll.give_up("a"), roll.is_absent("a")) == (True, False, False)
    assert seen(roll) == (["b"], [], False)


def test_who_comes_again_or_was_given_up_is_not_waited_for():
    roll = Roll(["a", "b"])
    roll.arrive("a")
    assert (roll.give_up("b"), roll.give_up("b")) == (True, False)
    assert (roll.arrive("a"), roll.arrive("b"), roll.is_absent("b")) == (False, False, True)
    assert seen(roll) == ([], ["b"], False)


def test_who_was_cut_short_is_missing_again_and_can_be_given_up():
    roll = Roll(["a", "b"])
    roll.arrive("a")
    roll.withdraw("a")
    assert seen(roll) == (["a", "b"], [], False)
    assert roll.give_up("a")
    assert seen(roll) == (["b"], ["a"], False)


def test_a_turn_to_which_nobody_comes_is_void_and_the_absent_stand_in_their_order():
    roll = Roll(range(3))
    for place in (2, 0, 1):
        roll.give_up(place)
    assert seen(roll) == ([], [0, 1, 2], True)


@pytest.mark.parametrize("others", [1, 7])
def test_of_those_that_give_one_up_at_once_and_the_one_that_comes_a_single_one_is_first(others):
    for _ in range(50):
        roll, first, go = Roll(["a"]), [], threading.Barrier(1 + others)

        def play(act, roll=roll, first=first, go=go):
            go.wait()
            first.append(act("a"))

        acts = [roll.arrive, *[roll.give_up] * others]
        threads = [threading.Thread(target=play, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(first) == [*[False] * others, True]
