"""Retention leaves what a paused run, or what was said to one, still needs; what it has removed before is named."""

from __future__ import annotations

import pytest

from settlemark import Paused

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

DAYS = 86_400.0


def test_a_paused_run_is_as_it_was_however_long_it_stands(settlement, agency, clock):
    def plan(run):
        with run.step("museum") as tx:
            tx.call(agency.book, place="museum")
        if not settlement.paused(every=True):
            settlement.pause("trip", by="eve", because="no budget")
        with run.step("zoo") as tx:
            tx.call(agency.book, place="zoo")

    with pytest.raises(Paused):
        settlement.steered("trip", plan)
    clock.advance(400 * DAYS)
    settlement.prune(30)
    settlement.go_on("trip", by="eve")
    settlement.steered("trip", plan)
    assert agency.log == ["book museum", "book zoo"]


def test_what_waits_for_a_run_keeps_what_it_may_undo(settlement, agency, clock):
    def plan(run):
        with run.step("museum") as tx:
            tx.call(agency.book, place="museum")

    settlement.steered("trip", plan)
    settlement.steer("trip", "retract", "no museum", scope="trip:/museum", by="ada")
    clock.advance(400 * DAYS)
    settlement.prune(30)
    settlement.steered("trip", lambda run: None)
    assert agency.log == ["book museum", "cancel museum"]


def test_what_touched_nobody_knows_what_any_more_is_named(settlement, agency, clock):
    def plan(run):
        with run.step("museum") as tx:
            tx.call(agency.book, place="museum")

    settlement.steered("trip", plan)
    clock.advance(40 * DAYS)
    settlement.prune(30, keys=400)
    with settlement.transaction("trip/zoo", run="trip") as tx:
        tx.call(agency.book, place="zoo")
    settlement.steer("trip", "retract", "no museum", scope="trip:/museum", by="ada")
    settlement.steer("trip", "retract", "no zoo", scope="trip:/zoo", by="ada")
    settlement.steered("trip", lambda run: None)
    first, second = settlement.steering("trip")
    named = [("trip/museum", "book", "its scope was pruned")]
    for said in (first, second):
        assert [(each.transaction, each.tool, each.why) for each in said.bound] == named
    assert first.words().endswith("could not be undone, and stays: book (its scope was pruned)")
    assert (first.state, first.conflict, first.undone) == ("done", None, ())
    assert (second.state, second.rewound) == ("done", ("trip/zoo",))
    assert agency.log == ["book museum", "book zoo", "cancel zoo"]
