"""Turns that share a transaction: of one agent's work, or of a whole run."""

from __future__ import annotations

import asyncio

import pytest

from settlemark import Refused
from settlemark.agents import AgentRun
from settlemark.hosting import run_async, run_sync

BOOK, MAIL = ("book", {"room": "1"}), ("mail", {"to": "ada"})


def states(settlement):
    return [(recorded.row.name, recorded.state.value) for recorded in settlement.transactions()]


@pytest.mark.parametrize(("settle", "name"), [("part", "trip/clerk/0"), ("run", "trip/*/1")])
async def test_what_is_irreversible_waits_for_the_end_and_reversible_acts_go_on(office, settlement, settle, name):
    job = AgentRun(settlement, "trip", settle=settle)
    work = job.work("clerk")
    [mailed] = await office.play(work.turn(office.calls(settlement, MAIL)))
    assert await office.play(work.turn(office.calls(settlement, BOOK))) == ["book 1"]
    assert (mailed.startswith("queued"), office.log, states(settlement)) == (True, [("book", "1")], [(name, "open")])
    await run_async(job.end())
    assert (office.log, states(settlement)) == ([("book", "1"), ("mail", "ada")], [(name, "committed")])


async def test_a_failed_turn_undoes_the_earlier_ones_and_all_of_them_are_told(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    work = job.work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    office.fails.add(("post", "bank"))
    assert await office.play(work.turn(office.calls(settlement, ("post", {"to": "bank"})))) == [
        "OSError: post bank is out of order"
    ]
    assert office.log == [("book", "1"), ("unbook", "1")]
    told = {call.tool: text.split(":")[0] for call, text in work.corrections()}
    assert told == {"book": "undone", "mail": "never left"}
    # What the model decides now is a new try.
    await office.play(work.turn(office.calls(settlement, MAIL)))
    await run_async(work.end())
    assert office.log[2:] == [("mail", "ada")]
    assert states(settlement) == [("trip/clerk/0", "aborted"), ("trip/clerk/1", "committed")]


async def test_the_end_of_one_agents_work_leaves_that_of_the_other_open(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    clerk, boss = job.work("clerk"), job.work("boss")
    await office.play(clerk.turn(office.calls(settlement, MAIL)))
    await office.play(boss.turn(office.calls(settlement, ("mail", {"to": "bob"}))))
    await run_async(clerk.end())
    assert office.log == [("mail", "ada")]
    await run_async(boss.end(OSError("cut")))
    assert office.log == [("mail", "ada")]
    assert states(settlement) == [("trip/clerk/0", "committed"), ("trip/boss/0", "aborted")]


async def test_works_of_a_run_share_one_transaction(office, settlement):
    job = AgentRun(settlement, "trip", settle="run")
    await office.play(job.work("clerk").turn(office.calls(settlement, BOOK)))
    await office.play(job.work("boss").turn(office.calls(settlement, MAIL)))
    await run_async(job.work("clerk").end())
    assert (office.log, states(settlement)) == ([("book", "1")], [("trip/*/1", "open")])
    await run_async(job.end(OSError("cut")))
    assert (office.log, states(settlement)) == ([("book", "1"), ("unbook", "1")], [("trip/*/1", "aborted")])


def test_a_refusal_at_the_end_is_raised_for_no_turn_follows_that_is_told(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    work = job.work("clerk")
    office.fails.add(("mail", "ada"))
    run_sync(work.turn(office.calls(settlement, MAIL)).perform(0, lambda: office.mail("ada"), waits=False))
    with pytest.raises(Refused, match="mail"):
        run_sync(work.end())
    assert (office.log, states(settlement)) == ([], [("trip/clerk/0", "aborted")])


async def test_a_run_of_which_a_death_left_something_open_begins_anew_when_that_is_undone(office, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with office.settlement(url) as settlement:
        work = AgentRun(settlement, "trip", settle="run").work("clerk")
        await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    with office.settlement(url) as settlement:
        job = AgentRun(settlement, "trip", settle="run")
        await office.play(job.work("clerk").turn(office.calls(settlement, BOOK, MAIL)))
        assert office.log == [("book", "1"), ("unbook", "1"), ("book", "1")]
        await run_async(job.end())
        assert office.log[3:] == [("mail", "ada")]
        assert states(settlement) == [("trip/*/1", "aborted"), ("trip/*/2", "committed")]


async def test_a_run_that_had_committed_repeats_nothing(office, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    for _ in range(2):
        with office.settlement(url) as settlement:
            job = AgentRun(settlement, "trip", settle="run")
            await office.play(job.work("clerk").turn(office.calls(settlement, BOOK, MAIL)))
            await run_async(job.end())
    assert office.log == [("book", "1"), ("mail", "ada")]


async def test_the_frontier_passes_when_an_agents_work_has_settled(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    work = job.work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK)))
    open_at = settlement.frontier("room:/1")
    await run_async(work.end())
    assert settlement.frontier("room:/1") > open_at


async def test_what_was_asked_for_while_all_stood_is_told_when_it_is_undone_later(office, settlement):
    work = AgentRun(settlement, "trip", settle="part").work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK)))
    assert work.corrections() == []
    office.fails.add(("post", "bank"))
    await office.play(work.turn(office.calls(settlement, ("post", {"to": "bank"}))))
    assert [call.tool for call, _ in work.corrections()] == ["book"]
    assert work.corrections() == []


async def test_works_that_begin_beside_each_other_share_one_transaction(office, tmp_path):
    with office.settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        job = AgentRun(settlement, "trip", settle="run")
        await asyncio.gather(
            office.play(job.work("clerk").turn(office.calls(settlement, BOOK))),
            office.play(job.work("boss").turn(office.calls(settlement, MAIL))),
        )
        await run_async(job.end())
        assert states(settlement) == [("trip/*/1", "committed")]
    assert office.log == [("book", "1"), ("mail", "ada")]


async def test_of_what_was_undone_and_told_nothing_is_kept(office, settlement):
    work = AgentRun(settlement, "trip", settle="part").work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK)))
    office.fails.add(("post", "bank"))
    await office.play(work.turn(office.calls(settlement, ("post", {"to": "bank"}))))
    assert [call.tool for call, _ in work.corrections()] == ["book"]
    assert work._turns == []
