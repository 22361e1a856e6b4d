"""Each turn of a model is a decision on record: what it said, what it was offered, and what it had read."""

from __future__ import annotations

from tests.integrations.contract.driver import Person, Saying
from tests.integrations.contract.world import desk, play, turns

from settlemark import Settlement
from settlemark.hosting import edit, host_of

SCRIPT = turns([("look", "Ada")], [("book", "Ada"), ("mail", "ada")], [("book", "Bee")])
KNOWS_MODEL = {"crewai", "pydantic_ai", "toy"}
"""Frameworks whose scripted models have a name; those of LangGraph and AutoGen say none, and real ones do."""
KNOWS_MESSAGE = {"langgraph", "toy"}
"""Frameworks that show the id of a model's message: Pydantic AI does where its provider gives one."""


def reasons(settlement):
    """Why each effect was called, in the order in which they were issued."""
    effects = [effect.row for recorded in settlement.transactions() for effect in recorded.effects]
    return [settlement.why(row.key) for row in effects if row.tool in {"book", "mail", "pay"}]


def decisions(settlement):
    """The ids of the decisions on record, in all runs."""
    runs = {recorded.row.run for recorded in settlement.transactions()}
    chains = [host_of(settlement).ledger.read(lambda book, run=run: book.entries.chain(run)) for run in sorted(runs)]
    return [entry.id for chain in chains for entry in chain.entries if entry.kind == "decision"]


def test_the_effects_of_a_turn_are_under_one_decision_of_its_model(driver, world, settlement, face):
    play(driver, desk(world), SCRIPT, settlement, face=face)
    ada, mail, bee = reasons(settlement)

    assert [why.tool for why in (ada, mail, bee)] == ["book", "mail", "book"]
    assert ada.decision == mail.decision
    assert [ada.decision, bee.decision] == decisions(settlement)
    assert [why.title for why in (ada, bee)] == ["called book, mail", "called book"]
    assert {why.because for why in (ada, mail, bee)} <= {Saying.text, None}
    assert (settlement.audit(ada.run).faults, unchanged(ada)) == ((), True)


def unchanged(why):
    return all(ground["changed"] == [] for ground in why.grounds)


def test_a_decision_has_what_the_framework_shows_of_the_models_answer(driver, world, settlement):
    play(driver, desk(world), SCRIPT, settlement)
    ada, _, bee = reasons(settlement)

    assert set(ada.tools) >= {"book", "mail", "look", "pay"}
    assert (ada.model is not None) == (driver.name in KNOWS_MODEL)
    assert (ada.message is not None) == (driver.name in KNOWS_MESSAGE)
    assert ada.message != bee.message or ada.message is None


def test_a_decision_stands_on_what_its_model_had_read_and_says_what_has_changed_since(driver, world, settlement):
    play(driver, desk(world), SCRIPT, settlement)
    ada, _, _ = reasons(settlement)
    assert [ground["scope"] for ground in ada.grounds] == ["room:/Ada"]

    play(driver, desk(world), turns([("book", "Ada")]), settlement, run="another")
    later = [why for why in reasons(settlement) if why.run != ada.run]
    (ground,) = settlement.why(ada.key).grounds
    assert set(ground["changed"]) == {why.key for why in later}


def test_a_turn_that_only_reads_leaves_no_decision(driver, world, settlement):
    play(driver, desk(world), turns([("look", "Ada")]), settlement)
    assert (reasons(settlement), decisions(settlement)) == ([], [])


def test_a_job_that_is_begun_again_decides_nothing_twice(driver, world, tmp_path):
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}", wait=20) as settlement:
        play(driver, desk(world), SCRIPT, settlement)
        before = decisions(settlement)
        play(driver, desk(world), SCRIPT, settlement)

        assert (len(before), decisions(settlement)) == (2, before)
        assert world.log.count("book Ada") == 1


def test_what_a_person_gave_other_arguments_is_under_the_decision_of_its_model_too(driver, world):
    script, person = turns([("book", "Ada"), ("pay", "hotel")]), Person({"pay": edit({"what": "half"})})
    with Settlement("memory:", wait=20, approver=person) as settlement:
        play(driver, desk(world), script, settlement)
        (decided,) = decisions(settlement)

        assert world.log == ["book Ada", "pay half"]
        assert {why.decision for why in reasons(settlement)} == {decided}
        assert settlement.audit("run-1").faults == ()
