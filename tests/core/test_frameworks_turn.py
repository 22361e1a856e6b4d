"""A turn whose calls a framework runs, each in a thread: held ones give their real result when all of it is over."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from settlemark import Refused, State, StateError, effect
from settlemark.agents import open_turn
from settlemark.hosting import host_of, run_sync


class Boom(Exception):
    """A tool's failure."""


def turn(settlement, *calls, name="trip/1"):
    """Play a turn as a framework does that calls all its tools at once; return the batch, and each answer or error."""
    batch = run_sync(open_turn(settlement, name, run="trip", resumable=True))
    seated = [(batch.place(host_of(settlement).tools.of(tool), given), tool, given) for tool, given in calls]
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
    assert (again, len(world.log), settlement.residue(), host_of(settlement).protocol.live) == (answers, 3, [], {})


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
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


# ---- a turn that waits for a person, put aside in parts


class Suspended(Exception):
    """A framework's control flow."""


def asked_turn(settlement, calls, asks, *, order="turn"):
    """Play a turn one call after the other whose framework asks for itself, and is put aside in parts meanwhile."""
    batch = run_sync(
        open_turn(settlement, "trip/1", run="trip", resumable=True, let_through=(Suspended,), park="split", order=order)
    )
    seated = [(batch.place(host_of(settlement).tools.of(tool), given), tool, given) for tool, given in calls]
    answers = []
    for call, tool, given in seated:
        error = None
        try:
            answers.append(
                run_sync(batch.perform(call, lambda t=tool, g=given: t(**g), given, ask=asks, may_wait=False))
            )
        except Suspended as control:
            error = control
        run_sync(batch.leave(call, error=error))
    if batch.unattended:
        run_sync(batch.finish(seated[0][0]))
    return batch, answers


@pytest.fixture
def wire(world):
    @effect("irreversible", scope="wire:/{to}", approve=True)
    def wire(to):
        world.act("wire", to)
        return f"wired to {to}"

    return wire


@pytest.mark.every_store
@pytest.mark.parametrize(("order", "at_once"), [("turn", []), ("scopes", [("send", "y", "hello")])])
def test_what_came_before_a_question_settles_and_the_rest_waits_with_it_for_the_answer(
    settlement, tools, world, wire, order, at_once
):
    def ask(_gate):
        if not answered:
            raise Suspended
        return True

    answered = []
    calls = [(tools.book, {"room": "a"}), (wire, {"to": "x"}), (tools.send, {"to": "y"})]
    batch, (booked, *_) = asked_turn(settlement, calls, ask, order=order)
    assert (booked, batch.suspended, world.log) == ({"confirmation": "R-a"}, True, [("book", "a"), *at_once])
    assert settlement.transactions()[0].state is State.COMMITTED
    with settlement.transaction("other", wait=0) as other:
        other.call(tools.book, room="a")  # nothing of what has settled is in anybody's way
    answered.append(True)
    _, (again, wired, sent) = asked_turn(settlement, calls, ask, order=order)
    assert (again, wired.result(), sent.result()) == (booked, "wired to x", "sent to y")
    left = [("wire", "x"), *([] if at_once else [("send", "y", "hello")])]
    assert world.log == [("book", "a"), *at_once, ("book", "a"), *left]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_a_turn_whose_tool_asks_by_itself_is_put_aside_whole(quick, tools, world):
    """It has begun, and nobody but its framework knows what it has done."""

    @effect("reversible", scope="desk:/{desk}", undo=lambda desk: None)
    def ask_inside(desk):
        raise Suspended

    batch, _ = asked_turn(quick, [(tools.book, {"room": "a"}), (ask_inside, {"desk": "d"})], None)
    assert (batch.suspended, [one.state for one in quick.transactions()]) == (True, [State.OPEN])
    quick.cancel("trip")
    assert (world.log, host_of(quick).protocol.live) == ([("book", "a"), ("cancel", "a")], {})


# ---- calls that come again


def test_a_call_that_a_wrapper_makes_again_is_done_once_and_with_other_arguments_it_is_another(quick, tools, world):
    batch = run_sync(open_turn(quick, "trip/1", run="trip"))
    call = batch.place(host_of(quick).tools.of(tools.charge), {"account": "a", "amount": 1})
    found = [
        run_sync(batch.perform(call, lambda given=given: tools.charge(**given), given))
        for given in ({"account": "a", "amount": amount} for amount in (1, 1, 2))
    ]
    run_sync(batch.leave(call))
    assert (found, world.log) == ([1, 1, 2], [("charge", "a", 1), ("charge", "a", 2)])
    assert (batch.attempt.live.state, host_of(quick).protocol.live) == (State.COMMITTED, {})


def test_a_call_that_the_turn_did_not_have_is_not_run_when_the_turn_has_committed(quick, tools, world):
    turn(quick, (tools.charge, {"account": "a", "amount": 1}))
    _, (_, refused) = turn(quick, (tools.charge, {"account": "a", "amount": 1}), (tools.send, {"to": "x"}))
    assert isinstance(refused, StateError)
    assert world.log == [("charge", "a", 1)]
