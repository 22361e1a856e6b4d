"""What a framework may be told although its turn was undone: calls that were over, and calls that may be made again."""

from __future__ import annotations

import asyncio

import pytest

from settlemark.hosting import run_async


@pytest.mark.parametrize("outlives", [True, False])
async def test_a_cancelled_call_whose_tool_has_returned_is_told_what_became_of_it_where_its_framework_keeps_that(
    office, settlement, job, outlives
):
    acts = asyncio.Event()

    async def hang():
        acts.set()
        await asyncio.Event().wait()

    turn = job.work().turn(office.calls(settlement, ("book", {"room": "1"}), ("post", {"to": "ada"})))
    booked = asyncio.create_task(office.answer(turn, 0, outlives=outlives))
    posted = asyncio.create_task(run_async(turn.perform(1, hang, outlives=outlives)))
    await acts.wait()
    for task in (booked, posted):
        task.cancel()
    told, cut = await asyncio.gather(booked, posted, return_exceptions=True)

    if outlives:
        assert told.startswith("undone: book had succeeded, and was undone because the step was stopped")
    else:
        assert isinstance(told, asyncio.CancelledError)
    assert isinstance(cut, asyncio.CancelledError)  # what it has done nobody knows
    assert office.log == [("book", "1"), ("unbook", "1")]
    assert [left.tool for left in settlement.residue()] == ["post"]


@pytest.mark.parametrize("may_repeat", [True, False])
async def test_what_is_in_doubt_is_made_again_only_where_its_framework_has_said_so_and_stays_on_record(
    office, settlement, job, may_repeat
):
    def lose():
        office.post("ada")
        raise TimeoutError("no answer")

    work = job.work()
    for _ in range(2):
        turn = work.turn(office.calls(settlement, ("post", {"to": "ada"})))
        if may_repeat:
            turn.let_repeat(0)
        with pytest.raises(Exception, match="outcome"):
            await run_async(turn.perform(0, lose))

    assert office.log == [("post", "ada")] * (2 if may_repeat else 1)
    assert [doubt.tool for doubt in settlement.in_doubt()] == ["post"] * (2 if may_repeat else 1)
