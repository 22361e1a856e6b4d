"""When a worker renews its lease, from when that counts, and under which name it is known after it has lost one."""

from __future__ import annotations

import pytest
from tests.core.ledgers.contract import begins, failing_once
from tests.core.ledgers.twins import Twins
from tests.rooms.ledger import bury
from tests.rooms.sql import watchers

from settlemark import LedgerError
from settlemark.testing import VirtualClock

LEASE = 60.0


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def twins(store):
    twins = Twins(store)
    yield twins
    twins.close()


@pytest.fixture
def worker(twins, clock):
    return twins.ours.worker("one", lease=LEASE, clock=clock)


@pytest.fixture
def meddle():
    """Have something happen before or after the next COMMIT."""
    before = list(watchers)

    def add(moment, what):
        def told(when, statement):
            if (when, statement) == (moment, "COMMIT"):
                watchers.remove(told)
                what()

        watchers.append(told)

    yield add
    watchers[:] = before


def test_who_takes_steps_all_the_time_surely_has_its_lease_all_the_time(twins, worker, clock):
    for _ in range(40):
        clock.advance(LEASE / 12)
        twins.ours.takes(worker)
        assert worker.is_fresh()
    ((_, _, _, _, _, beat, *_),) = twins.ours.rows("worker")
    assert 10 < beat < 41


def test_who_takes_no_steps_is_told_to_renew_long_before_its_lease_is_unsure(worker, clock):
    clock.advance(LEASE / 3)
    assert not worker.is_due()
    clock.advance(1.0)
    assert (worker.is_due(), worker.is_fresh()) == (True, True)
    clock.advance(LEASE / 3 - 1.1)
    assert worker.is_fresh()
    clock.advance(0.1)
    assert not worker.is_fresh()


def test_a_lease_counts_from_before_the_store_was_asked_however_long_that_takes(twins, worker, clock, meddle):
    clock.advance(LEASE / 3)
    meddle("before", lambda: clock.advance(LEASE / 2))
    twins.ours.takes(worker)
    assert worker.is_fresh()
    clock.advance(LEASE / 6)
    assert not worker.is_fresh()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lease_whose_renewal_nobody_has_acknowledged_is_not_renewed(twins, worker, clock, moment):
    clock.advance(LEASE / 2)
    failing_once(twins, moment)
    try:
        if moment == "before":
            with pytest.raises(LedgerError):
                twins.ours.takes(worker)
        else:
            twins.ours.takes(worker)
    finally:
        watchers.pop()
    clock.advance(LEASE / 6)
    assert not worker.is_fresh()
    twins.ours.takes(worker)
    assert worker.is_fresh()


def test_who_has_lost_its_lease_is_on_the_list_under_another_name_with_its_next_step(twins, worker, clock):
    other = twins.ours.worker("other")
    begins(twins.ours, worker, "trip")
    assert worker.is_fresh()

    def take_over(protocol, book):
        bury(protocol, book, "one")
        book.remove_workers(["one"])

    twins.ours.takes(other, take_over)
    twins.ours.takes(worker)
    assert worker.worker != "one"
    assert {row[1] for row in twins.ours.rows("worker")} == {"other", worker.worker}
    assert worker.is_fresh()


def test_who_only_reads_its_replica_renews_nothing(twins, worker, clock):
    before = twins.ours.rows("worker")
    clock.advance(LEASE)
    with twins.ours.alone():
        worker.batches.look()
    assert (twins.ours.rows("worker"), worker.is_fresh()) == (before, False)
