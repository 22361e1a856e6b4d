"""Choosing among K branches: what a branch costs beside the same work done one transaction after another."""

from __future__ import annotations

import pytest

from settlemark import Retries, Settlement, effect
from settlemark.hosting import host_of


class Rooms:
    """A counterparty in memory: what is booked, and how often it was asked."""

    def __init__(self):
        self.booked = set()
        self.calls = 0

    def tool(self):
        def cancel(room):
            self.booked.discard(room)

        @effect("reversible", scope="room:/{room}", undo=cancel, name="book for a branch")
        def book(room):
            self.calls += 1
            self.booked.add(room)
            return room

        return book


class Choices:
    """One settlement in which K branches book a room each, and one of them is chosen."""

    def __init__(self, url, branches, rounds):
        self.settlement = Settlement(url, retries=Retries(first=0, most=0))
        self.branches, self.rounds = branches, rounds
        self.rooms = Rooms()
        self.book = self.rooms.tool()
        self.done = 0

    def _branch(self, number):
        return lambda tx: tx.call(self.book, room=f"r{self.done}-{number}")

    def choose(self):
        """Choose as often as there are rounds; return how many branches ran."""
        for _ in range(self.rounds):
            branches = [self._branch(number) for number in range(self.branches)]
            self.settlement.speculate(branches, lambda found: len(found) - 1, name=f"choice-{self.done}")
            self.done += 1
        return self.rounds * self.branches

    def one_by_one(self):
        """Do the branches' work without a choice, each committed before the next."""
        for _ in range(self.rounds):
            for number in range(self.branches):
                self.settlement.run(f"alone-{self.done}-{number}", self._branch(number))
            self.done += 1
        return self.rounds * self.branches


@pytest.fixture
def sizes(gauge):
    return (2, 4, 8, 16, 32, 64) if gauge.full else (2, 8)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_branch_costs_the_same_however_many_there_are(gauge, sizes, store, tmp_path):
    built = []

    def build(branches):
        url = "memory:" if store == "memory" else f"sqlite:///{tmp_path / f'{len(built)}.db'}"
        built.append(Choices(url, branches, gauge.scale(20 if store == "memory" else 4, 1)))
        return built[-1]

    found = gauge.across(
        f"K branches and a choice, {store}, per branch",
        sizes,
        build,
        Choices.choose,
        rounds=3,
        fresh=True,
        control=("the same work, committed one by one", Choices.one_by_one),
    )

    for branches, choices in found:
        won = {f"r{number}-{branches - 1}" for number in range(choices.done)}
        assert choices.rooms.booked == won  # every choice has its winner, and nothing of a loser
        assert choices.rooms.calls == choices.done * branches
        assert choices.settlement.residue() == []
        assert host_of(choices.settlement).protocol.live == {}
    for choices in built:
        choices.settlement.close()
