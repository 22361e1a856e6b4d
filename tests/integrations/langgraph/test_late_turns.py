"""Turns of a run that is out of time: its threads go on, and each turn of it is undone."""

from __future__ import annotations

from tests.between import Between
from tests.rooms.langgraph import ending


def test_turns_that_come_late_do_not_disturb_the_undoing_of_a_run_that_is_out_of_time():
    run = ending.Ending(None, ())
    late = []

    class Turn:
        settled = False

    def another():
        if not run._lock.locked():  # else that thread waits
            late.append(Turn())
            run.undoes(late[-1])

    kept = [Turn(), Turn()]
    for turn in kept:
        run.undoes(turn)
    with Between("_weakrefset.py", another):
        found = run._unsettled()
    assert set(kept) <= set(found)
