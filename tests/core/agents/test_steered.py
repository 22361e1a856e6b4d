"""A job hears what is said to it before a call of its model, or at its next turn; what that contradicts is undone."""

from __future__ import annotations

import pytest
from tests.core.agents.conftest import Office

from settlemark import Paused, Refused, Settlement
from settlemark.agents import AgentRun
from settlemark.hosting import run_async, run_sync


def book(room):
    return "book", {"room": room}


MAIL = ("mail", {"to": "ada"})


@pytest.fixture
def play(office, settlement):
    """Return a function that plays a turn of these calls, and returns the answers."""

    async def play(work, *issued, ids=None):
        return await office.play(work.turn(office.calls(settlement, *issued, ids=ids)))

    return play


async def test_an_addition_is_told_once_before_the_next_call_of_each_model(office, settlement, job, play):
    clerk, guide = job.work("clerk"), job.work("guide")
    await play(clerk, book("1"))
    assert await run_async(clerk.boundary()) == []
    settlement.steer("trip-42", "add", "a window seat", by="ada")
    assert [said.words() for said in await run_async(clerk.boundary())] == ["ada says (add): a window seat"]
    assert await run_async(clerk.boundary()) == []
    assert await play(clerk, book("2")) == ["book 2"]
    assert [said.text for said in await run_async(guide.boundary())] == ["a window seat"]
    assert office.log == [("book", "1"), ("book", "2")]
    assert [(said.state, said.before) for said in settlement.steering("trip-42")] == [("done", "clerk")]


async def test_a_revision_undoes_the_turns_from_its_conflict_on_and_the_next_ones_are_new(
    office, settlement, job, play
):
    work = job.work("clerk")
    for turn in (book("1"), book("2"), MAIL, book("3")):
        await play(work, turn)
    settlement.steer("trip-42", "revise", "another room", scope="room:/2", by="ada")
    (said,) = await run_async(work.boundary())
    assert said.words() == (
        "ada says (revise, room:/2): another room; undone for that: book on room:/3, book on room:/2; could not be"
        " undone, and stays: mail on mail:/ada"
    )
    assert office.log[4:] == [("unbook", "3"), ("unbook", "2")]
    assert [await play(work, turn) for turn in (book("9"), MAIL, book("3"), book("1"))] == [
        ["book 9"],
        ["mail ada"],
        ["book 3"],
        ["book 1"],
    ]
    # The mail that stays is not sent again; a call like one that stands is another decision of the same conversation.
    assert office.log[6:] == [("book", "9"), ("book", "3"), ("book", "1")]


async def test_a_framework_that_shows_no_boundary_is_told_as_its_next_turn_acts(office, settlement, job, play):
    work = job.work("clerk")
    await play(work, book("1"))
    await play(work, book("2"))
    settlement.steer("trip-42", "retract", "no room", scope="room:/2", by="ada")
    told = await play(work, book("3"), MAIL)
    heard = (
        "was not run, since something was said while you decided: ada says (retract, room:/2): no room; undone for"
        " that: book on room:/2; decide again"
    )
    assert told == [f"Refused: book {heard}", f"Refused: mail {heard}"]
    assert await play(work, book("3")) == ["book 3"]
    assert office.log == [("book", "1"), ("book", "2"), ("unbook", "2"), ("book", "3")]


async def test_at_a_boundary_the_turn_that_the_framework_left_behind_has_settled_so_that_it_can_be_undone(
    office, settlement, job
):
    work = job.work("clerk")
    turn = work.turn(office.calls(settlement, book("1"), MAIL))
    await office.answer(turn, 0, waits=False)  # the other call never comes
    settlement.steer("trip-42", "retract", "no room", scope="room:/1", by="ada")
    (said,) = await run_async(work.boundary())
    assert said.words() == "ada says (retract, room:/1): no room; undone for that: book on room:/1"
    assert (office.log, turn.settled) == ([("book", "1"), ("unbook", "1")], True)


def test_an_agent_inside_a_call_acts_and_what_was_said_meanwhile_is_told_to_its_callers_next_turn(
    office, settlement, job
):
    def delegate():
        settlement.steer("trip-42", "add", "a window seat", by="ada")
        inner = job.work("guide").turn(office.calls(settlement, book("2")))
        return run_sync(inner.perform(0, lambda: office.book("2")))

    outer = job.work("clerk").turn(office.calls(settlement, ("post", {"to": "guide"})))
    assert run_sync(outer.perform(0, delegate)) == "book 2"
    later = job.work("clerk").turn(office.calls(settlement, book("3")))
    with pytest.raises(Refused, match="book was not run, since something was said .* a window seat; decide again"):
        run_sync(later.perform(0, lambda: office.book("3")))
    assert office.log == [("book", "2")]


async def test_what_another_agent_of_a_run_was_told_is_told_to_each_at_its_own_boundary(office, settlement):
    job = AgentRun(settlement, "trip", settle="run")
    settlement.steer("trip", "add", "a window seat", by="ada")
    clerk, guide = job.work("clerk"), job.work("guide")
    assert [said.text for said in await run_async(clerk.boundary())] == ["a window seat"]
    # What turns share goes on: an addition undoes nothing, and has a boundary to be told at.
    assert await office.play(guide.turn(office.calls(settlement, book("1"))), waits=False) == ["book 1"]
    assert [said.text for said in await run_async(guide.boundary())] == ["a window seat"]


async def test_what_the_record_would_have_answered_is_done_anew_when_it_was_undone_since(tmp_path):
    office = Office()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with office.settlement(url) as settlement:
        work = AgentRun(settlement, "trip").work("clerk")
        for issued in (book("1"), book("2")):
            await office.play(work.turn(office.calls(settlement, issued)))
    with office.settlement(url) as settlement:
        work = AgentRun(settlement, "trip").work("clerk")
        assert await office.play(work.turn(office.calls(settlement, book("1")))) == ["book 1"]
        settlement.steer("trip", "retract", "no room", scope="room:/2", by="ada")
        await run_async(work.boundary())
        assert await office.play(work.turn(office.calls(settlement, book("2")))) == ["book 2"]
    assert office.log == [("book", "1"), ("book", "2"), ("unbook", "2"), ("book", "2")]


@pytest.mark.parametrize("settle", ["part", "run"])
async def test_what_turns_share_is_undone_as_a_whole_and_they_are_told(office, settlement, settle):
    job = AgentRun(settlement, "trip", settle=settle)
    work = job.work("clerk")

    async def play(*issued):
        return await office.play(work.turn(office.calls(settlement, *issued)), waits=False)

    await play(book("1"))
    settlement.steer("trip", "add", "a window seat", by="ada")
    assert await play(book("2")) == ["book 2"]
    settlement.steer("trip", "revise", "another", scope="room:/2", by="ada")
    first, second = await run_async(work.boundary())
    assert (first.words(), second.rewound) == ("ada says (add): a window seat", second.rewound)
    assert office.log == [("book", "1"), ("book", "2"), ("unbook", "2"), ("unbook", "1")]
    assert await play(book("3")) == ["book 3"]
    run_sync(job.end())
    assert office.log[4:] == [("book", "3")]


async def test_a_job_that_is_begun_again_is_told_all_of_it_and_goes_on_from_what_stands(tmp_path):
    office = Office()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with office.settlement(url) as settlement:
        work = AgentRun(settlement, "trip").work("clerk")
        for issued in (book("1"), book("2"), MAIL, book("3")):
            await office.play(work.turn(office.calls(settlement, issued)))
        with Settlement(url) as other:
            other.steer("trip", "revise", "another room", scope="room:/2", by="ada")
        await run_async(work.boundary())
    with office.settlement(url) as settlement:
        work = AgentRun(settlement, "trip").work("clerk")
        assert [said.text for said in await run_async(work.boundary())] == ["another room"]
        answers = [
            await office.play(work.turn(office.calls(settlement, issued)))
            for issued in (book("1"), book("9"), MAIL, book("3"))
        ]
        assert answers == [["book 1"], ["book 9"], ["mail ada"], ["book 3"]]
        assert settlement.steering("trip")[0].state == "done"
    assert office.log == [
        ("book", "1"), ("book", "2"), ("mail", "ada"), ("book", "3"), ("unbook", "3"), ("unbook", "2"),
        ("book", "9"), ("book", "3"),
    ]  # fmt: skip # a list of names and values


async def test_a_result_that_was_undone_is_kept_anew(office, settlement, job, play):
    await play(job.work("clerk"), book("1"))
    await run_async(job.keep("clerk", "one"))
    settlement.steer("trip-42", "retract", "no room", scope="room:/1", by="ada")
    await run_async(job.work("clerk").boundary())
    assert str(await run_async(job.recorded("clerk"))) == "MISSING"
    await run_async(job.keep("clerk", "two"))
    assert await run_async(job.recorded("clerk")) == "two"


async def test_a_job_that_is_paused_stops_at_its_boundary_and_none_of_its_calls_runs(office, settlement, job, play):
    work = job.work("clerk")
    await play(work, book("1"))
    settlement.pause("trip-42", by="eve", because="no budget")
    told = "Paused: the run trip-42 is paused by eve (no budget): nothing was run, and what it did stands;"
    assert [answer[: len(told)] for answer in await play(work, book("2"), MAIL)] == [told, told]
    with pytest.raises(Paused):
        await run_async(work.boundary())
    (found,) = settlement.paused()
    assert (found.state, found.stands, office.log) == ("paused", ("trip-42/clerk/0",), [("book", "1")])
    settlement.go_on("trip-42", by="eve")
    assert await play(work, book("2")) == ["book 2"]
