"""A policy judges the calls of a model: a denied one does not act, and one that is asked about waits for a person."""

from __future__ import annotations

import pytest
from tests.integrations.contract.driver import Person
from tests.integrations.contract.world import World, desk, play, turns, unaccounted, unfinished

from settlemark import Policy, PolicyRule, Settlement
from settlemark.hosting import reject

POLICY = Policy(
    "desk-v1",
    [
        PolicyRule("suites", "deny", tool="book", scope="room:/suite"),
        PolicyRule("rooms", "allow", tool="book"),
        PolicyRule("mails", "ask", tool="mail"),
    ],
)


@pytest.fixture
def governed(driver, face):
    """Play a turn under the policy, with a person who answers so about mails."""

    def play_(script, answer=True):
        world, person = World(), Person({"mail": answer})
        with Settlement("memory:", wait=20, approver=person, policy=POLICY) as settlement:
            played = play(driver, desk(world), script, settlement, face=face)
            assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])
            said = [(each.tool, each.verdict, each.rule) for each in settlement.verdicts()]
        return world, played, person, said

    return play_


def test_what_is_allowed_happens_and_its_verdict_is_on_record(governed):
    world, played, person, said = governed(turns([("book", "Ada"), ("look", "Ada")]))

    assert (world.log, person.asked, played.error) == (["book Ada", "look Ada"], [], None)
    assert said == [("book", "allow", "rooms")]


def test_what_is_denied_does_not_happen_and_the_model_is_told_by_which_rule(governed):
    world, played, person, said = governed(turns([("book", "Ada"), ("book", "suite")]))

    assert ("book suite" in world.log, world.standing(), person.asked) == (False, {}, [])
    assert ("book", "deny", "suites") in said
    told = str(played.error) if played.error is not None else played.texts[1]
    assert "the rule 'suites' of the policy desk-v1" in told


def test_what_is_asked_about_happens_after_a_yes(governed):
    world, played, person, said = governed(turns([("book", "Ada"), ("mail", "ada")]))

    assert person.asked == [("mail", {"what": "ada"})]
    assert (world.log, played.error) == (["book Ada", "mail ada"], None)
    assert sorted(said) == [("book", "allow", "rooms"), ("mail", "ask", "mails")]


def test_what_is_asked_about_does_not_happen_after_a_no(governed):
    world, _, person, said = governed(turns([("book", "Ada"), ("mail", "ada")]), reject("too many"))

    assert person.asked == [("mail", {"what": "ada"})]
    assert (world.standing(), "mail ada" in world.log) == ({}, False)
    assert ("mail", "ask", "mails") in said
