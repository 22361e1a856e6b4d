"""A transaction that claims nothing as it begins takes its place with its first step: nobody sees it before, or fails.

That its name is free is looked at again there. Whoever finds it taken by then does what he would have done had he come
later: he waits for whoever was first, and is answered from the record, or goes on where that one stopped.
"""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import OperationalError
from tests.rooms.replica import store

from settlemark import Cancelled, LedgerError, State, WaitTimeout, effect
from settlemark.hosting import Reason, host_of
from settlemark.observe import Began, Ended


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


def test_one_that_may_be_open_for_so_long_is_seen_at_once_and_ends_when_that_is_over(two):
    first, second = two
    with first.transaction("trip", max_age=60):
        second.in_doubt()
        assert begun(second) == ["trip"]


def test_its_age_counts_from_when_it_was_entered(two, tools):
    first, _ = two
    with first.transaction("trip") as tx:
        attempt = tx._attempt
        since = attempt.since
        tx.call(tools.book, room="a")
        assert attempt.since == since


@pytest.mark.parametrize("how", ["keep", "split"])
def test_one_that_is_put_aside_with_nothing_in_it_is_what_another_has_made_of_its_name(two, tools, world, how):
    first, second = two
    with first.transaction("trip") as late:
        with second.transaction("trip") as tx:
            tx.call(tools.book, room="a")
        late.park(how)
    assert (world.log, late.state) == ([("book", "a")], State.COMMITTED)


def test_where_the_store_fails_as_it_enters_its_name_anew_it_does_so_at_its_next_call(two, tools, world, monkeypatch):
    first, second = two
    member = host_of(first).ledger._member
    taken, commits = member.transaction._write, []

    def fails(items):
        commits.append(items)
        if len(commits) == 2:
            monkeypatch.setattr(member.connection.wire, "commit", refuses)
        taken(items)

    def refuses():
        raise OperationalError("COMMIT", None, Exception("disk I/O error"))

    with first.transaction("trip") as late:
        with pytest.raises(ZeroDivisionError), second.transaction("trip") as tx:
            tx.call(tools.book, room="a")
            raise ZeroDivisionError
        monkeypatch.setattr(member.transaction, "_write", fails)
        with pytest.raises(LedgerError, match="disk I/O error"):
            late.call(tools.book, room="b")
        late.call(tools.book, room="c")
    assert (late.attempt, late.state, world.rooms) == (2, State.COMMITTED, {"c"})
    assert host_of(first).driver.kernel.attempts == {}


def test_an_observer_is_told_of_the_end_of_what_took_no_place_and_of_what_came_instead(two, tools):
    first, second = two
    told = []
    host_of(first).driver.kernel.telling.observer = SimpleNamespace(
        tell=told.append, around=lambda _acting: nullcontext()
    )
    with first.transaction("trip") as late:
        with pytest.raises(ZeroDivisionError), second.transaction("trip") as tx:
            tx.call(tools.book, room="a")
            raise ZeroDivisionError
        late.call(tools.book, room="b")
    began = [event for event in told if isinstance(event, Began)]
    ended = [(event.of, event.state, event.reason) for event in told if isinstance(event, Ended)]
    assert [(event.attempt, event.how) for event in began] == [(1, "begun"), (2, "begun")]
    assert ended == [(began[0], State.ABORTED, Reason.LOST), (began[1], State.COMMITTED, None)]


def test_an_observer_is_told_of_the_end_of_what_is_answered_from_the_record_by_then(two, tools):
    first, second = two
    told = []
    host_of(first).driver.kernel.telling.observer = SimpleNamespace(
        tell=told.append, around=lambda _acting: nullcontext()
    )
    with first.transaction("trip") as late:
        with second.transaction("trip") as tx:
            tx.call(tools.book, room="a")
        late.call(tools.book, room="a")
    assert [type(event) for event in told if isinstance(event, Began | Ended)] == [Began, Ended]


def test_what_was_planned_before_another_left_it_to_this_one_has_a_place_behind_what_that_one_did(two, tools, world):
    first, second = two

    @effect("reversible", scope="trip:/{trip}", undo=lambda trip: None)
    def plan(trip):
        with second.transaction() as inner:
            inner.call(tools.book, room="a")

    with first.transaction("trip") as late:
        gone = second.transaction("trip").__enter__()
        gone.call(plan, trip="x")
        second.close()
        with late.turn() as turn:
            for call in (turn.plan(plan, trip="x"), turn.plan(tools.book, room="b")):
                call.run()
        found = [(effect.declaration.tool, effect.position) for effect in late._attempt.in_order()]
    assert found == [("plan", 0), ("book", 1), ("book", 2)]
    assert world.log == [("book", "a"), ("book", "b")]


def test_who_opened_a_store_first_sees_at_once_that_a_newcomer_is_done(tmp_path, open_settlement, tools):
    """It counts the others when it renews its lease; what it has taken over of another's steps tells it earlier."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    first = open_settlement(url, lease=600, wait=30)
    with first.transaction("before") as tx:
        tx.call(tools.book, room="x")
    newcomer = open_settlement(url, lease=600)
    held = newcomer.transaction("trip", may_touch="room:/a").__enter__()
    told = []

    def enter():
        with first.transaction("trip") as again:
            told.append(again.call(tools.book, room="a"))

    waiting = threading.Thread(target=enter)
    waiting.start()
    kernel = host_of(first).driver.kernel
    deadline = time.monotonic() + 20
    while not kernel.ledger._member.others.listeners:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    held.abort()
    waiting.join(20)
    assert not waiting.is_alive()
    assert len(told) == 1
