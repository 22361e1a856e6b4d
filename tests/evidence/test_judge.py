"""The completeness guard: prevention by dropping work shows."""

from __future__ import annotations

import pytest
from tests.evidence._bench import UNGUARDED, Bench, Strategy


def judged(story, strategy=UNGUARDED):
    with Bench(strategy) as bench:
        (found,) = bench.play([story], lambda: None)
    return found


async def asks_for_two_and_does_one(session):
    async def body(operation):
        await operation.put("x", 1)

    await session.operate("ada", body, writes=["x", "y"])


async def does_it_twice(session):
    async def body(operation):
        await operation.put("x", 1)
        await operation.put("x", 1)

    await session.operate("ada", body, writes=["x"])


async def takes_turns_at_a_lock(session):
    async def body(operation):
        await operation.at(1)
        await operation.put("x", 1)

    await session.together(*(session.operate(agent, body, reads=["x"], writes=["x"]) for agent in ("ada", "bob")))


async def goes_wrong_and_is_taken_back(session):
    async def body(operation):
        await operation.write("x", 1)
        raise LookupError

    with pytest.raises(LookupError):
        await session.operate("ada", body, writes=["x"])


def test_an_effect_that_was_asked_for_and_is_not_there_is_missing():
    found = judged(asks_for_two_and_does_one)
    assert (found.complete, found.missing) == (False, {("s0.ada/1", "s0/y")})


def test_an_effect_that_is_there_twice_is_repeated():
    found = judged(does_it_twice)
    assert (found.complete, found.missing, found.repeated) == (False, frozenset(), 1)


def test_an_effect_that_was_taken_back_is_missing():
    found = judged(goes_wrong_and_is_taken_back)
    assert (found.complete, found.missing, found.undone) == (False, {("s0.ada/1", "s0/x")}, 1)


def test_of_an_operation_that_was_given_up_nothing_is_missing_and_it_is_counted():
    found = judged(takes_turns_at_a_lock, Strategy("drop", UNGUARDED.options, locks="drop"))
    assert (found.complete, found.dropped) == (True, {"s0.bob/1"})
    assert [line["by"] for line in found.log if line["do"] == "write"] == ["s0.ada/1#1"]
