"""A call that its framework turns down never comes, holds nobody up, and is a failure of its turn."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from settlemark.agents import AgentRun, Call
from settlemark.hosting import host_of, run_async


def turn_of(office, settlement, place, job=None):
    """A turn that books and mails, with a call in it that is turned down."""
    calls = office.calls(settlement, ("book", {"room": "1"}), ("mail", {"to": "ada"}))
    calls.insert(place, Call("look", {}, settlement.declared("look"), refused="it takes a room"))
    return (job or AgentRun(settlement, "trip-42")).work().turn(calls)


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_what_comes_before_it_is_undone_and_what_comes_after_it_is_not_run(office, settlement, place):
    turn = turn_of(office, settlement, place)
    others = [number for number in range(3) if number != place]
    told = [await office.answer(turn, number, waits=False) for number in others]
    told = [turn.corrections().get(number, text) for number, text in zip(others, told, strict=True)]

    assert office.log == ([] if place == 0 else [("book", "1"), ("unbook", "1")])
    assert all("look" in text and ("undone" in text or "not run" in text or "never left" in text) for text in told)
    assert (turn.settled, host_of(settlement).protocol.live, settlement.residue()) == (True, {}, [])


async def test_a_turn_that_goes_on_after_a_failure_goes_on_after_it(office):
    with office.settlement(on_failure="continue") as settlement:
        turn = turn_of(office, settlement, 1)
        booked, _ = [await office.answer(turn, number, waits=False) for number in (0, 2)]
        assert booked == "book 1"
        assert (office.log, turn.settled) == ([("book", "1"), ("mail", "ada")], True)


def test_a_turn_of_nothing_else_is_over_before_it_begins(office, settlement):
    call = Call("look", {}, settlement.declared("look"), refused="it takes a room")
    turn = AgentRun(settlement, "trip-42").work().turn([call, call])
    assert (turn.settled, settlement.transactions()) == (True, [])


# ---- what is turned down only when it has come


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_one_that_is_turned_down_when_it_has_come_is_a_failure_of_its_turn_too(office, settlement, place):
    calls = office.calls(settlement, ("book", {"room": "1"}), ("mail", {"to": "ada"}))
    calls.insert(place, Call("mail", {}, settlement.declared("mail"), untaken=True))
    turn = AgentRun(settlement, "trip-42").work().turn(calls)
    told = []
    for number in range(3):
        if number == place:
            await run_async(turn.turn_down(number, "it takes an address", waits=False))
        else:
            told.append((number, await office.answer(turn, number, waits=False)))
    corrected = turn.corrections()
    texts = [corrected.get(number, text) for number, text in told]

    assert office.log == ([] if place == 0 else [("book", "1"), ("unbook", "1")])
    assert all("mail" in text and ("undone" in text or "not run" in text or "never left" in text) for text in texts)
    assert (turn.settled, host_of(settlement).protocol.live, settlement.residue()) == (True, {}, [])


async def test_one_that_its_tool_did_not_take_acts_when_it_was_given_other_arguments(office, settlement):
    calls = office.calls(settlement, ("book", {"room": "1"}))
    calls.append(Call("mail", {}, settlement.declared("mail"), untaken=True))
    turn = AgentRun(settlement, "trip-42").work().turn(calls)
    booked = await office.answer(turn, 0, waits=False)
    given = Call("mail", {"to": "ada"}, settlement.declared("mail"))
    await run_async(turn.perform(1, lambda: office.mail("ada"), rewritten=given))

    assert (booked, office.log, turn.settled) == ("book 1", [("book", "1"), ("mail", "ada")], True)


async def test_it_acts_as_what_it_is_declared_to_be_when_it_was_taken_for_a_read(office, settlement):
    """A framework's hook may put another tool in its place, too."""
    office.fails.add(("book", "2"))
    calls = office.calls(settlement, ("book", {"room": "1"}), ("look", {"room": "1"}), ("book", {"room": "2"}))
    turn = AgentRun(settlement, "trip-42").work().turn(calls)
    given = Call("mail", {"to": "ada"}, settlement.declared("mail"))
    run = (office.book, lambda _: office.mail("ada"), office.book)
    rooms = ("1", "", "2")
    for place in range(3):
        rewritten = given if place == 1 else None
        with suppress(OSError):
            act = partial(run[place], rooms[place])
            await run_async(turn.perform(place, act, waits=False, rewritten=rewritten))

    assert office.log == [("book", "1"), ("unbook", "1")]
    assert (turn.settled, settlement.residue()) == (True, [])
