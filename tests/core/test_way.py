"""The way of a call is short: what its store commits, and what of core is entered for it.

The figures are bounds, about 5 % above what there is: who makes the way longer says so here, and why. See the hops
themselves with `pytest -s`.
"""

from __future__ import annotations

import gc
import itertools

import pytest
from tests.rooms.protocol import Txn
from tests.rooms.replica import store
from tests.way import committing, shortest

from settlemark import Policy, PolicyRule

MOST = {"memory": (567, 72), "sqlite": (932, 88), "postgres": (1_052, 87)}
"""Entries and files of a plain transaction of two calls, by the kind of its store.

What an agent inside of a call has left in doubt is asked about as the transaction ends. There are more files since
the replica, the kernel and the attempt are cut into parts: one noun a file. Decisions, debts, budgets and entries are
asked each whether there are any; a call may be given its decision. Without a policy none is asked for. How the lock of
a SQLite file is waited for is a file of its own, and so is which attempts of a run memory has.
Which agents act is looked at as a halt is.
"""


@pytest.fixture
def trips(open_settlement, tools, monkeypatch):
    """Take trips over a store: each books so many rooms, in a transaction of its own. Nobody else goes to the store."""
    for name in ("LINGER_SECONDS", "LINGER_MOST_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(store, name, 60.0)

    def over(url, **options):
        settlement, numbers = open_settlement(url, **options), itertools.count()

        def take(rooms):
            number = next(numbers)
            with settlement.transaction(f"trip-{number}") as tx:
                for room in range(rooms):
                    tx.call(tools.book, room=f"{number}-{room}")

        for _ in range(3):
            take(1)  # whatever is set up late
        return take

    return over


@pytest.mark.parametrize("rooms", [0, 1, 2, 5])
def test_n_effects_are_n_and_one_commits_and_each_waits_for_the_disk(trips, shared_url, rooms):
    trip = trips(shared_url)

    with committing() as commits:
        trip(rooms)

    assert commits == [*[True] * rooms, rooms > 0]


@pytest.mark.every_store
def test_the_way_of_a_plain_transaction_grows_no_longer(trips, url, kind_of_store):
    trip = trips(url)

    way = shortest(lambda: trip(2))

    print(f"\na transaction of two calls, {kind_of_store}: {way}")  # noqa: T201 - for who asks where it goes
    entries, files = MOST[kind_of_store]
    assert way.entries <= entries
    assert way.files <= files


@pytest.mark.every_store
def test_a_committed_transaction_is_freed_without_the_garbage_collector(trips, url):
    trip = trips(url)
    gc.collect()
    gc.freeze()  # what other tests have dropped, and may drop still, is none of its own
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)  # what it finds is kept in `gc.garbage`
    try:
        trip(3)
        gc.collect()
        found = {each.name for each in gc.garbage if isinstance(each, Txn) and each.name == "trip-3"}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()

    assert not found


def test_a_policy_costs_no_commit_of_its_own(trips, shared_url):
    trip = trips(shared_url, policy=Policy("v1", [PolicyRule("rooms", "allow", tool="book")]))

    with committing() as commits:
        trip(2)

    assert commits == [True, True, True]
