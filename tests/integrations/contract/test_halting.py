"""An operator halts while an agent works: its turn is undone, and what it does next is refused before it acts."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.integrations.contract.world import World, play, turns, unaccounted, unfinished

from settlemark import Halted, effect


def tools(world, halt):
    """A booking that can be undone, during one of which somebody halts all rooms, and a mail."""

    @effect("reversible", scope="room:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    def book(what: str) -> str:
        """Book a room."""
        number = world.act(f"book {what}")
        if what == "slow":
            halt()
        return f"number {number}"

    @effect("irreversible", scope="mail:/{what}")
    def mail(what: str) -> str:
        """Send a mail."""
        return f"number {world.act(f'mail {what}')}"

    return [book, mail]


def test_a_turn_that_is_halted_while_it_works_is_undone_and_the_next_begins_nothing(driver, settlement):
    world = World()
    script = turns([("book", "Ada"), ("mail", "ada"), ("book", "slow"), ("book", "Bee")], [("book", "Cee")])

    with suppress(Halted):
        play(
            driver,
            tools(world, lambda: settlement.halt("room:/**", by="eve", because="odd rooms", wait=0)),
            script,
            settlement,
        )

    assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])
    assert (+world.standing(), settlement.residue()) == ({}, [])
    assert [entry for entry in world.log if entry.startswith("mail") or entry.endswith(("Bee", "Cee"))] == []
    assert [halt.what for halt in settlement.halts()] == ["room:/"]


@pytest.mark.parametrize("name", ["clerk", "clerk@ada/7#1"])
def test_an_agent_is_halted_by_the_name_that_its_framework_knows_it_by(driver, settlement, name):
    world, driver.agent = World(), name

    def halt():
        (agent,) = settlement.transactions()[-1].agents
        settlement.halt(agent=agent, by="eve", because="odd rooms", wait=0)

    with suppress(Halted):
        play(driver, tools(world, halt), turns([("book", "slow")], [("book", "Cee")]), settlement)

    assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])
    assert (+world.standing(), world.log) == ({}, ["book slow", "cancel slow"])
    assert [halt.agent for halt in settlement.halts()] == [name]
