"""A turn that fails and cannot be undone is stuck, in whatever framework, and is mended by a plan of the same tools."""

from __future__ import annotations

import pytest
from tests.integrations.contract.world import World, play, turns, unfinished
from tests.unattended import unattended

from settlemark import Settlement, effect


class Rooms(World):
    """Rooms whose desk cancels none; another tool of the agent's voids a booking."""

    def __init__(self):
        super().__init__()
        self.taken = set()

    def tools(self):
        def closed(what: str):
            raise LookupError("the desk is closed")

        @effect(
            "reversible", scope="room:/{what}", undo=closed, probe=lambda what: "taken" if what in self.taken else None
        )
        def book(what: str) -> str:
            """Book a room."""
            self.taken.add(what)
            return f"number {self.act(f'book {what}')}"

        @effect("reversible", scope="room:/{what}", undo=lambda what: self.taken.add(what))
        def void(what: str) -> str:
            """Void a booking."""
            self.taken.discard(what)
            return f"number {self.act(f'void {what}')}"

        @effect("reversible", scope="flight:/{what}", undo=lambda what: None)
        def fly(what: str) -> str:
            """Book a flight."""
            raise RuntimeError("no seats")

        return [book, void, fly]


@pytest.fixture
def told():
    return []


@pytest.fixture
def settlement(told):
    def propose(stuck):
        told.append([effect.tool for effect in stuck.effects])
        return [{"tool": "void", "arguments": {"what": each.arguments["what"]}} for each in stuck.effects]

    with Settlement("memory:", wait=20, on_stuck=propose) as settlement:
        yield unattended(settlement)


def test_a_failed_turn_that_cannot_be_undone_is_stuck_and_is_mended(driver, settlement, told):
    world = Rooms()
    play(driver, world.tools(), turns([("book", "Ada"), ("fly", "Rome")]), settlement)
    (stuck,) = settlement.stuck()
    assert ([(each.tool, str(each.cause)) for each in stuck.effects], world.taken) == ([("book", "failed")], {"Ada"})
    settlement.recover()
    assert (told, world.taken, settlement.stuck(), unfinished(settlement)) == ([["book"]], set(), [], [])
    assert world.log == ["book Ada", "void Ada"]
    mend = settlement.transactions()[-1]
    assert (mend.row.name.startswith("mends/"), mend.row.run) == (True, stuck.run)
