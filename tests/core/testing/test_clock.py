"""Time in a test: it stands still, and a settlement lives by it."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlemark import Retries, Settlement, effect
from settlemark.testing import VirtualClock

SECONDS = st.floats(0, 1e6)


@given(st.lists(SECONDS))
def test_wall_and_monotonic_time_move_together_by_what_was_asked_for(steps):
    clock = VirtualClock(1000.0)
    for seconds in steps:
        clock.advance(seconds)
        assert clock() == 1000.0 + clock.monotonic()
    assert clock.monotonic() == sum(steps)


@given(st.lists(SECONDS), st.lists(SECONDS))
def test_what_was_planned_is_called_once_in_the_order_of_its_time_and_at_that_time(times, steps):
    clock = VirtualClock()
    called = []
    for number, due in enumerate(times):
        clock.at(due, lambda due=due, number=number: called.append((clock.monotonic(), due, number)))
    for seconds in (*steps, 0):
        clock.advance(seconds)
    passed = clock.monotonic()
    assert called == [(due, due, n) for due, n in sorted((due, n) for n, due in enumerate(times)) if due <= passed]


def test_what_is_called_may_move_the_clock_and_plan_anew():
    clock = VirtualClock()
    called = []

    def beat():
        called.append(clock.monotonic())
        clock.sleep(1)
        clock.at(clock.monotonic() + 9, beat)

    clock.at(10, beat)
    clock.advance(30)
    assert (called, clock.monotonic()) == ([10.0, 20.0, 30.0], 31.0)


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_it_does_not_go_back_and_nothing_changed(seconds):
    clock = VirtualClock(5.0)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(seconds)
    assert (clock(), clock.monotonic()) == (5.0, 0.0)


def test_what_is_past_cannot_be_planned():
    clock = VirtualClock()
    clock.advance(10)
    with pytest.raises(ValueError, match="9 s is past, it is 10 s"):
        clock.at(9, lambda: None)


def test_many_threads_move_it_by_all_that_they_ask_for():
    clock = VirtualClock()
    threads = [threading.Thread(target=lambda: [clock.advance(1) for _ in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.monotonic() == 800


@given(st.integers(1, 20), SECONDS, st.floats(1, 3), SECONDS)
def test_a_pause_takes_no_time_and_moves_the_clock_by_what_it_would_have_taken(failures, first, factor, most):
    clock = VirtualClock()
    retries = clock.retries(first=first, factor=factor, most=most)
    assert retries.pause(failures) == 0
    assert clock.monotonic() == Retries(first=first, factor=factor, most=most).pause(failures)


def test_a_settlement_writes_its_times_and_pauses_by_it():
    clock = VirtualClock(100.0)
    tries = []

    @effect("idempotent", scope="desk:/{n}")
    def ask(n):
        tries.append(clock())
        if len(tries) < 3:
            raise TimeoutError

    with Settlement("memory:", **clock.options()) as settlement:
        with settlement.transaction("trip") as tx:
            tx.call(ask, n=1)
        [recorded] = settlement.transactions()
    assert tries == [100.0, 100.05, pytest.approx(100.125)]
    assert (recorded.row.at, recorded.effects[0].row.at) == (100.0, 100.0)
