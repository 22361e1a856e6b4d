"""A turn whose calls a framework runs, each in a thread: held ones give their real result when all of it is over."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from settlemark import Refused, StateError
from settlemark._batch import open_batch
from settlemark._runners import run_sync
from settlemark._states import State


class Boom(Exception):
    """A tool's failure."""


def turn(settlement, *calls, name="trip/1"):
    """Play a turn as a framework does that calls all its tools at once; return the batch, and each answer or error."""
    batch = run_sync(open_batch(settlement, name, run="trip", resumable=True))
    seated = [(batch.seat(settlement.declaration(tool), given), tool, given) for tool, given in calls]
    # None comes to its end before all have come.
    all_there = threading.Barrier(len(seated))

    def work(call, tool, given):
        all_there.wait(20)
        failed = found = None
        try:
            found = run_sync(batch.perform(call, lambda: tool(**given), given))
        except Exception as error:
            found, failed = error, str(error)
        run_sync(batch.leave(call, failed=failed))
        return found

    with ThreadPoolExecutor(len(seated)) as threads:
        return batch, [future.result() for future in [threads.submit(work, *one) for one in seated]]


@pytest.mark.every_store
def test_each_call_of_a_turn_gets_its_tools_real_result_and_whoever_comes_back_gets_the_same(settlement, tools, world):
    calls = [(tools.send, {"to": "x"}), (tools.book, {"room": "a"}), (tools.send, {"to": "y", "text": "bye"})]
    batch, answers = turn(settlement, *calls)
    assert answers == ["sent to x", {"confirmation": "R-a"}, "sent to y"]
    assert world.log == [("book", "a"), ("send", "x", "hello"), ("send", "y", "bye")]
    assert (batch.settled, batch.refusal, batch.attempt.live.state) == (True, None, State.COMMITTED)
    _, again = turn(settlement, *calls)
    assert (again, len(world.log), settlement.residue(), settlement.protocol.live) == (answers, 3, [], {})


@pytest.mark.every_store
def test_where_one_call_fails_none_of_the_turn_stays_and_each_is_told_which_it_was(settlement, tools, world):
    world.fail("book", Boom("no rooms"))
    calls = [(tools.send, {"to": "x"}), (tools.book, {"room": "a"}), (tools.send, {"to": "y"})]
    batch, (before, failed, behind) = turn(settlement, *calls)
    assert (type(failed), type(before), type(behind)) == (Boom, Refused, Refused)
    assert str(before) == (
        "send was held and never left, so nothing of it happened; decide again from this: book failed: no rooms"
    )
    assert str(behind).startswith("send was not run: ")
    assert (world.log, batch.attempt.live.state) == ([], State.ABORTED)
    assert (settlement.residue(), settlement.protocol.live) == ([], {})


def test_a_call_that_a_wrapper_makes_again_is_done_once_and_with_other_arguments_it_is_another(quick, tools, world):
    batch = run_sync(open_batch(quick, "trip/1", run="trip"))
    call = batch.seat(quick.declaration(tools.charge), {"account": "a", "amount": 1})
    found = [
        run_sync(batch.perform(call, lambda given=given: tools.charge(**given), given))
        for given in ({"account": "a", "amount": amount} for amount in (1, 1, 2))
    ]
    run_sync(batch.leave(call))
    assert (found, world.log) == ([1, 1, 2], [("charge", "a", 1), ("charge", "a", 2)])
    assert (batch.attempt.live.state, quick.protocol.live) == (State.COMMITTED, {})


def test_a_call_that_the_turn_did_not_have_is_not_run_when_the_turn_has_committed(quick, tools, world):
    turn(quick, (tools.charge, {"account": "a", "amount": 1}))
    _, (_, refused) = turn(quick, (tools.charge, {"account": "a", "amount": 1}), (tools.send, {"to": "x"}))
    assert isinstance(refused, StateError)
    assert world.log == [("charge", "a", 1)]
