"""Somebody says something to a run while its agent works: what that contradicts is undone, and the model is told."""

from __future__ import annotations

import pytest
from tests.integrations.contract.world import World, play, turns, unfinished

from settlemark import effect


def tools(world, say):
    """A booking that can be undone, and a mail, during which somebody says something."""

    @effect("reversible", scope="room:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    def book(what: str) -> str:
        """Book a room."""
        return f"number {world.act(f'book {what}')}"

    @effect("irreversible", scope="mail:/{what}")
    def mail(what: str) -> str:
        """Send a mail."""
        number = world.act(f"mail {what}")
        say()
        return f"number {number}"

    return [book, mail]


@pytest.fixture(autouse=True)
def hears(driver):
    driver.hears = True


@pytest.fixture
def said():
    return []


@pytest.fixture
def say(settlement, said):
    """Say to the job that it is not to be Ada."""

    def say():
        runs = {recorded.row.run for recorded in settlement.transactions()}
        said.extend(settlement.steer(run, "revise", "not Ada", scope="room:/Ada", by="eve") for run in runs)

    return say


def test_a_revision_undoes_the_turns_from_its_conflict_on_and_the_next_turn_is_told(driver, settlement, say, said):
    if driver.name == "langgraph":
        pytest.skip("its checkpoint goes back with the world, to where the model was asked")
    world = World()
    script = turns([("book", "Cee")], [("book", "Ada")], [("mail", "ada")], [("book", "Dee")], [("book", "Bee")])
    play(driver, tools(world, say), script, settlement)
    assert world.log == ["book Cee", "book Ada", "mail ada", "cancel Ada", "book Bee"]
    (heard,) = settlement.steering(said[0].run)
    assert (heard.state, [each.scope for each in heard.undone], [each.scope for each in heard.bound]) == (
        "done",
        ["room:/Ada"],
        ["mail:/ada"],
    )
    assert (unfinished(settlement), [each.tool for each in settlement.residue()]) == ([], ["mail"])


def test_what_could_not_be_undone_is_answered_from_the_record_when_the_model_issues_it_again(
    driver, settlement, say, said
):
    world = World()
    before = [[("book", "Cee")], [("book", "Ada")], [("mail", "ada")], [("book", "Bee")]]
    after = [[("book", "Eve")], [("mail", "ada")], [("book", "Bee")]]
    script = turns(*before, *after)
    if driver.name == "langgraph":  # goes back to where it was asked the second time
        driver.heed = lambda told, turns, _: [turns[0], *turns[4:]] if "not Ada" in told else turns

    played = play(driver, tools(world, say), script, settlement)

    assert world.log == ["book Cee", "book Ada", "mail ada", "cancel Ada", "book Eve", "book Bee"]
    (heard,) = settlement.steering(said[0].run)
    assert [each.scope for each in heard.bound] == ["mail:/ada"]
    assert played.answers[-2] == (script[5][0].id, "number 3")
    assert (unfinished(settlement), [each.tool for each in settlement.residue()]) == ([], ["mail"])
