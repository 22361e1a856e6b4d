"""Waiting costs whoever waits, and nobody else: 10,000 waiters on one scope slow nobody beside it."""

from __future__ import annotations

import pytest
from tests.benchmarks.crowd import Crowd
from tests.rooms.protocol import Mode

MODES = pytest.mark.parametrize("mode", [Mode.HELD, Mode.EAGER], ids=["to commit", "to act"])


@pytest.fixture
def sizes(gauge):
    return (1, 10, 100, 1_000, 10_000) if gauge.full else (1, 20)


def test_a_transaction_next_door_to_a_crowd(gauge, sizes):
    operations = gauge.scale(500, 5)

    def pass_by(crowd):
        for _ in range(operations):
            crowd.pass_by()
        return operations

    built = gauge.across("transaction next door to N waiters", sizes, Crowd, pass_by, aim=20)

    for size, crowd in built:
        assert crowd.waiting == size
        assert crowd.wakes == 0


@MODES
def test_draining_a_crowd_one_by_one(gauge, sizes, mode, request):
    waits = request.node.callspec.id
    size = sizes[-1]

    def nobody_waits(_crowd):
        idle = Crowd(0, mode)
        for _ in range(size):
            idle.pass_by()
        return size

    built = gauge.across(
        f"drain of N waiting {waits}, each",
        sizes[2:] if gauge.full else sizes,
        lambda n: Crowd(n, mode),
        Crowd.let_first_go,
        rounds=3,
        fresh=True,
        aim=50,  # 20,000 commits a second
        control=("as many, where nobody waits", nobody_waits),
    )

    for members, crowd in built:
        assert crowd.committed == ["first", *(f"t{number}" for number in range(members))]
        assert crowd.waiting == 0
        assert members <= crowd.wakes <= 3 * members
        gauge.count(f"  wakes per waiter, {waits}", crowd.wakes / members, "", size=members)


@MODES
def test_aborting_one_of_a_crowd(gauge, sizes, mode, request):
    victims = gauge.scale(25, 2)
    aborted: dict[Crowd, int] = {}

    def abort_some(crowd):
        middle = len(crowd.members) // 2
        for _ in range(victims):
            crowd.abort(crowd.members.pop(middle))
        aborted[crowd] = aborted.get(crowd, 0) + victims
        return victims

    built = gauge.across(
        f"abort of one among N waiting {request.node.callspec.id}",
        (1_000, 10_000) if gauge.full else (20, 40),
        lambda n: Crowd(n, mode),
        abort_some,
    )

    for size, crowd in built:
        assert crowd.waiting == size - aborted[crowd]
        assert crowd.committed == []
        assert crowd.wakes <= 3 * aborted[crowd]
