"""Two agents have read one order, and one would cancel it while the other would change it."""

from __future__ import annotations

import threading

import pytest
from tests.integrations.contract.world import PATIENCE, World, as_is, play, together, turns, unaccounted, unfinished

from settlemark import effect

CANCEL = turns([("read_order", {})], [("cancel_order", {})])
MODIFY = turns([("read_order", {})], [("modify_order", {})])


def agents(world, sort, run_together, outcomes):
    """Tools of one agent each, on one order; both have read it before either goes on, whoever is first.

    Nobody waits for one that has ended: it is told to have been there, and is missed in `readers`.
    """
    read, readers = {"canceller": threading.Event(), "modifier": threading.Event()}, []

    def tools(who, act):
        def read_order() -> str:
            """Look the order up."""
            readers.append(who)
            read[who].set()
            assert all(other.wait(PATIENCE) for other in read.values())
            return "open"

        def write() -> str:
            """Do it."""
            world.act(act)
            return act

        write.__name__ = write.__qualname__ = act
        return [
            effect("read", scope="order:/17")(as_is(read_order, sort)),
            effect("reversible", scope="order:/17", undo=lambda: world.act(f"undo {act}"))(as_is(write, sort)),
        ]

    run_together(
        tools("canceller", "cancel_order"), tools("modifier", "modify_order"), over=lambda who: read[who].set()
    )
    assert set(readers) == {*read}, outcomes


def standing(world):
    """What was done to the order and not taken back."""
    return sorted(act for act in world.log if not act.startswith("undo ") and f"undo {act}" not in world.log)


def both(driver, settlement, face, found):
    def played(first, second, over):
        def job(tools, script, run):
            try:
                found[run] = play(driver, tools, script, settlement, face=face, run=run)
            finally:
                over(run)

        together(lambda: job(first, CANCEL, "canceller"), lambda: job(second, MODIFY, "modifier"))

    return played


def test_one_of_them_does_it_and_the_other_is_told_and_with_stock_both_do(driver, settlement, face, sort):
    stock, ours, control, found = World(), World(), {}, {}

    agents(stock, sort, both(type(driver)(), None, face, control), control)
    agents(ours, sort, both(driver, settlement, face, found), found)

    assert standing(stock) == ["cancel_order", "modify_order"]
    (won,) = standing(ours)
    winner, loser = ("canceller", "modifier") if won == "cancel_order" else ("modifier", "canceller")
    assert (unaccounted(ours, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
    assert found[winner].texts == ["open", won]
    if found[loser].error is None:
        assert "read it again" in found[loser].texts[1]
    else:
        assert "read it again" in str(found[loser].error)


@pytest.mark.parametrize("number", range(5))
def test_it_is_one_of_them_each_time(driver, settlement, number):
    """Who comes first is nobody's to say; the winner differs, and there is one."""
    ours, found = World(), {}

    agents(ours, "sync", both(driver, settlement, "run", found), found)

    assert len(standing(ours)) == 1, found


def test_agents_on_different_orders_do_not_wait_for_each_other(driver, settlement):
    """Each acts when the other has begun to: one that waited would wait in vain."""
    meeting, found = threading.Barrier(2, timeout=30), {}

    @effect("reversible", scope="order:/{number}", undo=lambda number: None)
    def modify_order(number: int) -> str:
        """Change an order."""
        meeting.wait()
        return f"changed {number}"

    def job(number):
        script = turns([("modify_order", {"number": number})])
        found[number] = play(driver, [modify_order], script, settlement, run=f"run-{number}")

    together(lambda: job(1), lambda: job(2))

    assert {number: played.texts for number, played in found.items()} == {1: ["changed 1"], 2: ["changed 2"]}
