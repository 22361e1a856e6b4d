"""Calls of one turn: effects happen in the order in which the model issued them, and reads beside each other."""

from __future__ import annotations

import threading

import pytest
from tests.integrations.contract.world import World, as_is, play, turns

from settlemark import effect

CALLS = 5
FIVE = turns([("act", {"number": number}) for number in range(CALLS)])
TOLD = [f"acted {number}" for number in range(CALLS)]
KINDS = ["reversible", "idempotent", "opaque", "irreversible"]


def racing(world, sort, *, patience, kind="reversible"):
    """A tool whose call n takes longer than call n + 1: it waits for that one as long as it has patience.

    Stock has all of it, for there the other comes; where the other is known to wait in its turn, little is enough.
    """
    acted = [threading.Event() for _ in range(CALLS + 1)]
    acted[CALLS].set()

    def act(number: int) -> str:
        """Act."""
        acted[number + 1].wait(patience)
        world.act(number)
        acted[number].set()
        return f"acted {number}"

    tool = as_is(act, sort)
    if kind == "reversible":
        return effect(kind, scope="thing:/{number}", undo=lambda number: world.act(f"cancel {number}"))(tool)
    return effect(kind)(tool) if kind == "opaque" else effect(kind, scope="thing:/{number}")(tool)


def test_effects_happen_in_the_order_issued_and_in_the_reverse_one_with_stock(driver, settlement, face, sort):
    stock, ours = World(), World()

    without = play(driver, [racing(stock, sort, patience=30)], FIVE, None, face=face, run="stock")
    settled = play(driver, [racing(ours, sort, patience=0.02)], FIVE, settlement, face=face, run="ours")

    assert stock.log == [4, 3, 2, 1, 0]
    assert ours.log == [0, 1, 2, 3, 4]
    # The transcript tells none of that.
    assert without.texts == settled.texts == TOLD


@pytest.mark.parametrize("kind", KINDS)
def test_effects_of_each_class_happen_in_the_order_issued(driver, world, settlement, kind):
    settled = play(driver, [racing(world, "sync", patience=0.02, kind=kind)], FIVE, settlement)

    assert world.log == [0, 1, 2, 3, 4]
    assert settled.texts == TOLD


def test_what_is_declared_from_outside_is_kept_as_if_it_were_on_the_function(driver, world, settlement):
    acting = threading.Barrier(CALLS, timeout=30)

    def act(number: int) -> str:
        """Act."""
        acting.wait()
        return f"acted {number}"

    settled = play(driver, [act], FIVE, settlement, effects={"act": "read"})

    assert settled.texts == TOLD


def test_reads_run_beside_each_other_as_with_stock(driver, settlement, face, sort):
    """Each waits until all have begun: one behind another would wait in vain."""

    def meeting():
        begun = threading.Barrier(CALLS, timeout=30)

        def act(number: int) -> str:
            """Look."""
            begun.wait()
            return f"acted {number}"

        return effect("read")(as_is(act, sort))

    without = play(driver, [meeting()], FIVE, None, face=face, run="stock")
    settled = play(driver, [meeting()], FIVE, settlement, face=face, run="ours")

    assert without.texts == settled.texts == TOLD


def test_a_read_sees_what_an_effect_before_it_in_its_turn_has_done(driver, world, settlement):
    """And stock's read does not, for it has looked when the effect, which waits for it, happens."""

    def tools(of, patience):
        looked = threading.Event()

        @effect("reversible", scope="room:/{what}", undo=lambda what: of.act(f"cancel {what}"))
        def book(what: str) -> str:
            """Book a room."""
            looked.wait(patience)
            of.act(f"book {what}")
            return "booked"

        @effect("read", scope="room:/{what}")
        def look(what: str) -> str:
            """Look a room up."""
            found = "taken" if of.standing()[f"book {what}"] else "free"
            looked.set()
            return found

        return [book, look]

    script, stock = turns([("book", "Ada"), ("look", "Ada")]), World()

    without = play(driver, tools(stock, 30), script, None, run="stock")
    settled = play(driver, tools(world, 0.02), script, settlement, run="ours")

    assert without.texts == ["booked", "free"]
    assert settled.texts == ["booked", "taken"]
