"""A paused run stops at its next boundary, and what it did stands, until somebody goes on with it or discards it."""

from __future__ import annotations

import asyncio

import pytest

from settlemark import Cancelled, DeclarationError, Paused, PayloadError, UsageError
from settlemark.hosting import host_of

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


def days(*numbers):
    return [f"book day/{number}" for number in numbers]


WHOLE = [*days(1, 2, 3), "book hotel/Ada", *days(*range(5, 13))]


def paused_at(settlement, trip, step, **options):
    """Run a trip that is paused before a step."""

    def at(number):
        if number == step:
            settlement.pause("trip", by="eve", because="no budget")

    with pytest.raises(Paused) as stopped:
        settlement.steered("trip", trip(at=at, **options))
    return stopped.value


def test_a_run_stops_at_its_next_boundary_and_goes_on_from_what_stands(settlement, agency, trip):
    error = paused_at(settlement, trip, 5)
    assert (error.run, error.by, error.because, error.number, error.owner) == ("trip", "eve", "no budget", 1, None)
    assert agency.log == WHOLE[:4]
    (found,) = settlement.paused()
    assert (found.state, found.before, found.stands) == ("paused", "5", tuple(f"trip/{n}" for n in (1, 2, 3, 4)))
    with pytest.raises(Paused):
        settlement.steered("trip", trip())
    assert agency.log == WHOLE[:4]
    over = settlement.go_on("trip", by="bob")
    assert (over.state, over.ended_by, settlement.paused()) == ("gone_on", "bob", [])
    settlement.steered("trip", trip())
    assert agency.log == WHOLE
    assert settlement.paused(every=True) == [over]


def test_the_same_run_is_paused_once_and_again_when_it_has_gone_on(settlement, trip):
    first = settlement.pause("trip", by="eve", because="no budget")
    assert settlement.pause("trip", by="bob", because="late") == first
    settlement.go_on("trip", by="eve")
    again = settlement.pause("trip", by="bob", because="late")
    assert (again.number, again.by, again.state, again.before, again.stands) == (2, "bob", "asked", None, ())


def test_what_its_program_keeps_is_on_record_each_by_itself_and_there_again_when_it_goes_on(settlement, agency):
    seen = []

    def plan(run):
        seen.append((run.executor, run.environment))
        with run.step("1") as tx:
            tx.call(agency.book, place="day/1")
        run.keep(executor={"notes": ["day 1 is booked"]})
        run.keep(environment="sandbox-7")
        if len(seen) == 1:
            settlement.pause("trip", by="eve", because="no budget")
        with run.step("2") as tx:
            tx.call(agency.book, place="day/2")

    with pytest.raises(Paused):
        settlement.steered("trip", plan)
    (found,) = settlement.paused()
    assert (found.executor, found.environment, found.before) == ({"notes": ["day 1 is booked"]}, "sandbox-7", "2")
    settlement.go_on("trip", by="eve")
    settlement.steered("trip", plan)
    assert seen == [(None, None), ({"notes": ["day 1 is booked"]}, "sandbox-7")]
    assert agency.log == days(1, 2)


def test_what_json_cannot_hold_is_not_kept(settlement):
    def plan(run):
        with pytest.raises(PayloadError):
            run.keep(executor=object())
        return run.executor

    assert settlement.steered("trip", plan) is None


def test_what_is_said_to_a_paused_run_waits_until_it_goes_on(settlement, agency, trip):
    paused_at(settlement, trip, 10)
    settlement.steer("trip", "revise", "Bee", scope="trip:/hotel/**", by="ada")
    with pytest.raises(Paused):
        settlement.steered("trip", trip())
    assert settlement.steering("trip")[0].state == "waiting"
    settlement.go_on("trip", by="eve")
    settlement.steered("trip", trip())
    assert agency.stands == [*days(1, 2, 3), "book hotel/Bee", *days(*range(5, 13))]


def test_a_run_that_was_handed_over_is_its_owners_alone(settlement, agency, trip):
    paused_at(settlement, trip, 5)
    assert settlement.hand_over("trip", to="bob", by="eve").owner == "bob"
    refused = (settlement.go_on, settlement.discard, lambda run, by: settlement.hand_over(run, to="eve", by=by))
    for act in refused:
        with pytest.raises(UsageError, match="was handed over to bob"):
            act("trip", by="eve")
    (found,) = settlement.paused()
    assert (found.state, found.owner, agency.log) == ("paused", "bob", WHOLE[:4])
    settlement.go_on("trip", by="bob")
    settlement.steered("trip", trip())
    assert agency.log == WHOLE


def test_a_run_that_is_discarded_is_undone_and_fenced_and_what_stays_is_named(settlement, agency, trip):
    paused_at(settlement, trip, 8, mails=True)
    over = settlement.discard("trip", by="eve")
    assert agency.stands == ["mail ada your trip"]
    assert [each.scope for each in over.undone] == [
        "trip:/day/7", "trip:/day/5", "trip:/hotel/Ada", "trip:/day/3", "trip:/day/2", "trip:/day/1",
    ]  # fmt: skip # a list of names and values
    assert ([each.scope for each in over.bound], over.state, over.ended_by) == (["mail:/ada"], "discarded", "eve")
    assert [each.key for each in settlement.residue()] == [over.bound[0].key]
    with pytest.raises(Cancelled), settlement.transaction("trip/9") as tx:
        tx.call(agency.book, place="day/9")
    assert settlement.paused() == []


def test_a_discard_that_failed_is_gone_on_with(settlement, agency, trip):
    paused_at(settlement, trip, 3)
    kernel = host_of(settlement).driver.kernel
    known, kernel.declaration = kernel.declaration, lambda tool, version: None
    with pytest.raises(DeclarationError):
        settlement.discard("trip", by="eve")
    assert (settlement.paused()[0].state, agency.log) == ("discarding", days(1, 2))
    with pytest.raises(UsageError, match="is being discarded"):
        settlement.go_on("trip", by="eve")
    kernel.declaration = known
    assert settlement.discard("trip", by="eve").state == "discarded"
    assert agency.stands == []


def test_no_except_of_the_program_goes_on_with_a_paused_run(settlement, agency):
    def careless(run):
        for number in ("1", "2"):
            try:
                with run.step(number) as tx:
                    tx.call(agency.book, place=f"day/{number}")
            except Exception:
                agency.log.append("taken")
            settlement.pause("trip", by="eve", because="no budget")

    with pytest.raises(Paused):
        settlement.steered("trip", careless)
    assert agency.log == ["book day/1", "taken"]


def test_async_programs_are_paused_alike(settlement, agency):
    async def plan(run):
        async with run.step("1") as tx:
            await tx.call(agency.book, place="day/1")

    async def play():
        await settlement.apause("trip", by="eve", because="no budget")
        with pytest.raises(Paused):
            await settlement.steered("trip", plan)
        await settlement.ahand_over("trip", to="bob", by="eve")
        await settlement.ago_on("trip", by="bob")
        await settlement.steered("trip", plan)
        await settlement.apause("trip", by="eve", because="no budget")
        return (await settlement.adiscard("trip", by="eve")).state

    assert asyncio.run(play()) == "discarded"
    assert agency.log == ["book day/1", "cancel day/1"]


REFUSED = {
    "no run": ("pause", ("",), {"by": "eve", "because": "x"}, "run is the id"),
    "nobody": ("pause", ("trip",), {"by": "", "because": "x"}, "by= is who pauses it"),
    "no reason": ("pause", ("trip",), {"by": "eve", "because": " "}, "because= is why"),
    "a transaction": ("pause", ("trip/1",), {"by": "eve", "because": "x"}, "a transaction of the run trip"),
    "a cancelled run": ("pause", ("gone",), {"by": "eve", "because": "x"}, "was cancelled"),
    "going on with what is not paused": ("go_on", ("trip",), {"by": "eve"}, "is not paused"),
    "discarding what is not paused": ("discard", ("trip",), {"by": "eve"}, "is not paused"),
    "handing over what is not paused": ("hand_over", ("trip",), {"to": "bob", "by": "eve"}, "is not paused"),
    "handing over to nobody": ("hand_over", ("trip",), {"to": "", "by": "eve"}, "to= is who gets it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_recorded(settlement, agency, case):
    verb, given, named, told = REFUSED[case]
    settlement.cancel("gone")
    with settlement.transaction("trip/1") as tx:
        tx.call(agency.book, place="day/1")
        with pytest.raises(UsageError, match=told):
            getattr(settlement, verb)(*given, **named)
    assert (settlement.paused(every=True), agency.log) == ([], ["book day/1"])
