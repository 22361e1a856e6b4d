"""A tool that cannot say beforehand what it will touch holds broad scopes, and narrows them by its result."""

from __future__ import annotations

import pytest

from settlemark import Entangled, OutsideDeclared, State, WaitTimeout, effect
from settlemark.hosting import host_of


@pytest.fixture
def find(world):
    """Make a tool that holds whole cities, and says in its result which rooms it touched."""

    def make(touched, *, may_touch=("city:/Rome", "city:/Oslo"), **parts):
        @effect("reversible", may_touch=may_touch, undo=lambda: world.act("undo"), refine=touched, **parts)
        def find():
            world.act("find")
            return "found"

        return find

    return make


def locked(settlement, scope):
    """Whether another has to wait for a scope."""
    with settlement.transaction(f"probe {scope}", wait=0) as tx:
        try:
            tx.read(scope)
        except (WaitTimeout, Entangled):  # asked within the call that holds it, it is not waited for
            return True
        return False


def test_before_its_result_all_is_held_and_after_it_only_what_was_touched(settlement, find):
    during = []

    def touched(result):
        during.extend(locked(settlement, s) for s in ("city:/Rome/1", "city:/Oslo/2"))
        return ["city:/Rome/1"]

    with settlement.transaction("trip") as tx:
        tx.call(find(touched))
        assert during == [True, True]
        assert [locked(settlement, s) for s in ("city:/Rome/1", "city:/Rome/2", "city:/Oslo")] == [True, False, False]


def test_each_broad_scope_is_narrowed_to_what_lies_inside_it(settlement, find):
    with settlement.transaction("trip") as tx:
        tx.call(find(lambda result: ("city:/Rome/1", "city:/Oslo/2")))
        held = [locked(settlement, s) for s in ("city:/Rome/1", "city:/Oslo/2", "city:/Rome/2", "city:/Oslo/1")]
        assert held == [True, True, False, False]


def test_the_scope_it_always_touches_is_kept_beside_what_it_narrows(settlement, find):
    with settlement.transaction("trip") as tx:
        tx.call(find(lambda result: "city:/Rome/1", scope="desk:/1", may_touch="city:/Rome"))
        assert [locked(settlement, s) for s in ("desk:/1", "city:/Rome/1", "city:/Rome/2")] == [True, True, False]


@pytest.mark.parametrize("touched", ["city:/Rome/1", ["city:/Rome/1", "city:/Oslo"]])
def test_an_abort_after_a_refinement_undoes_and_frees_everything(settlement, world, find, touched):
    with settlement.transaction("trip") as tx:
        tx.call(find(lambda result: touched))
        tx.abort()
    assert world.log == [("find",), ("undo",)]
    assert (host_of(settlement).protocol.live, host_of(settlement).protocol.board.index.root.children) == ({}, {})


def test_a_refinement_outside_what_was_declared_is_refused_and_the_effect_is_accounted_for(
    settlement, world, find, recorded
):
    tool = find(lambda result: ["city:/Rome/1", "moon:/1"])
    with settlement.transaction("kept") as tx:
        with pytest.raises(OutsideDeclared, match="to moon:/1, which lies outside it: declare a may_touch= scope"):
            tx.call(tool)
        assert [locked(settlement, s) for s in ("city:/Rome/2", "city:/Oslo")] == [True, True]
    with pytest.raises(OutsideDeclared), settlement.transaction("undone") as tx:
        tx.call(tool)
    assert world.log == [("find",), ("find",), ("undo",)]
    assert recorded(settlement, "kept") == [("committed", [("find", "confirmed", None)])]
    assert recorded(settlement, "undone") == [("aborted", [("find", "undone", "clean")])]
    assert host_of(settlement).protocol.live == {}


def test_a_refine_that_raises_is_told_and_the_effect_is_accounted_for(settlement, world, find):
    with pytest.raises(ZeroDivisionError), settlement.transaction("trip") as tx:
        tx.call(find(lambda result: 1 / 0))
    assert (world.log, tx.state) == ([("find",), ("undo",)], State.ABORTED)
