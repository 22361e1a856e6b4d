"""A transaction that claims nothing as it begins takes its place with its first step: nobody sees it before, or fails.

That its name is free is looked at again there. Whoever finds it taken by then does what he would have done had he come
later: he waits for whoever was first, and is answered from the record, or goes on where that one stopped.
"""

from __future__ import annotations

import threading

import pytest

from settlemark import Cancelled, State, WaitTimeout
from settlemark.hosting import host_of
from settlemark.ledger._replica import store


@pytest.fixture
def two(shared_url, open_settlement, monkeypatch):
    """Two processes' settlements on one store; what nobody waits for goes with the next step alone."""
    for name in ("LINGER_SECONDS", "LINGER_MOST_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(store, name, 60.0)
    return open_settlement(shared_url), open_settlement(shared_url)


def begun(settlement):
    """The names of the transactions that a process knows to be open."""
    return [txn.name for txn in host_of(settlement).protocol.live.values()]


def test_nobody_sees_it_before_its_first_step_and_all_do_behind_it(two, tools):
    first, second = two
    with first.transaction("trip") as tx:
        second.transactions()
        assert (begun(first), begun(second), tx.state) == ([], [], State.OPEN)
        tx.call(tools.book, room="a")
        second.in_doubt()
        assert (begun(first), begun(second)) == (["trip"], ["trip"])


def test_one_that_says_what_it_may_touch_is_seen_at_once(two):
    first, second = two
    with first.transaction("trip", may_touch="room:/a"):
        second.in_doubt()
        assert begun(second) == ["trip"]


def test_its_place_is_behind_all_that_began_in_another_process_before_its_first_step(two, tools):
    first, second = two
    with first.transaction("trip") as tx:
        with second.transaction("other") as other:
            other.call(tools.book, room="b")
        tx.call(tools.book, room="a")
        assert tx.epoch > other.epoch


def test_whose_name_another_has_settled_by_its_first_step_is_answered_from_the_record(two, tools, world):
    first, second = two
    with first.transaction("trip") as late:
        with second.transaction("trip") as tx:
            booked = tx.call(tools.book, room="a")
        assert late.call(tools.book, room="a") == booked
    assert (world.log, late.state, late.attempt) == ([("book", "a")], State.COMMITTED, 1)


def test_one_that_does_nothing_and_whose_name_another_has_settled_is_settled(two, tools, world):
    first, second = two
    with first.transaction("trip") as late, second.transaction("trip") as tx:
        tx.call(tools.book, room="a")
    assert (world.log, late.state) == ([("book", "a")], State.COMMITTED)


def test_whose_name_another_has_at_its_first_step_waits_for_that_one(two, tools, world):
    first, second = two
    with first.transaction("trip", wait=0) as late:
        with second.transaction("trip") as tx:
            tx.call(tools.book, room="a")
            with pytest.raises(WaitTimeout, match="trip is in use by another caller"):
                late.call(tools.book, room="a")
    assert (world.log, tx.state, late.state) == ([("book", "a")], State.COMMITTED, State.COMMITTED)


def test_its_calls_wait_beside_each_other_and_enter_its_name_once(two, tools, world):
    first, second = two
    with first.transaction("trip") as late:
        with second.transaction("trip") as tx:
            booked = [tx.call(tools.book, room=room) for room in "ab"]
        with late.turn() as turn:
            planned = [turn.plan(tools.book, room=room) for room in "ab"]
            found = [None, None]

            def run(number):
                found[number] = planned[number].run()

            threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert (found, world.log) == (booked, [("book", "a"), ("book", "b")])


def test_whose_name_another_has_undone_by_its_first_step_is_the_next_attempt(two, tools, world):
    first, second = two
    with first.transaction("trip") as late:
        with pytest.raises(ZeroDivisionError), second.transaction("trip") as tx:
            tx.call(tools.book, room="a")
            raise ZeroDivisionError
        late.call(tools.book, room="b")
    assert (late.attempt, late.state, world.rooms) == (2, State.COMMITTED, {"b"})


def test_whose_run_is_cancelled_before_its_first_step_runs_nothing(two, tools, world):
    first, second = two
    with pytest.raises(Cancelled), first.transaction("trip") as tx:
        second.cancel("trip")
        tx.call(tools.book, room="a")
    assert (world.log, first.transactions(), host_of(first).driver.kernel.attempts) == ([], [], {})
