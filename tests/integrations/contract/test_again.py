"""A job has an id: played again under it, nothing happens twice; another job's effects are its own."""

from __future__ import annotations

from tests.integrations.contract.world import desk, play, turns, unfinished

TRIP = turns([("look", "Ada"), ("book", "Ada"), ("mail", "ada")], [("book", "Bee"), ("mail", "bee")])
LOG = ["look Ada", "book Ada", "mail ada", "book Bee", "mail bee"]
EFFECTS = [entry for entry in LOG if not entry.startswith("look ")]


def effects(world):
    return [entry for entry in world.log if not entry.startswith("look ")]


def test_a_job_that_is_played_again_under_its_id_does_nothing_twice(driver, world, settlement, face):
    first = play(driver, desk(world), TRIP, settlement, face=face, run="trip-42")
    again = play(driver, desk(world), TRIP, settlement, face=face, run="trip-42")

    assert effects(world) == EFFECTS
    assert again.error is None
    # What is read is read anew.
    assert again.texts[1:] == first.texts[1:]
    assert unfinished(settlement) == []


def test_another_job_does_its_own(driver, world, settlement, face):
    play(driver, desk(world), TRIP, settlement, face=face, run="trip-42")
    play(driver, desk(world), TRIP, settlement, face=face, run="trip-43")

    assert effects(world) == [*EFFECTS, *EFFECTS]


def test_a_job_with_a_turn_that_was_undone_is_played_again_and_nothing_of_it_is_half_done(driver, world, settlement):
    script = turns([("book", "Ada"), ("book", "Bad")], [("book", "Cee")])
    tools = desk(world, broken={"book Bad"})

    first = play(driver, tools, script, settlement, run="trip-42")
    play(driver, tools, script, settlement, run="trip-42")

    goes_on = first.error is None
    assert world.standing() == ({"book Cee": 1} if goes_on else {})
    assert unfinished(settlement) == []
