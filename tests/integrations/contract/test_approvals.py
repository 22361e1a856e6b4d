"""A call that needs a person's yes: what is answered is what happens, and its turn with it."""

from __future__ import annotations

import json
import threading

import pytest
from tests.integrations.contract.driver import Person
from tests.integrations.contract.world import PATIENCE, World, desk, play, together, turns, unaccounted, unfinished
from tests.rooms.ledger import Which

from settlemark import Approval, Settlement, effect
from settlemark.hosting import approve, edit, host_of, reject

SCRIPT = turns([("book", "Ada"), ("pay", "hotel"), ("mail", "ada")])


@pytest.fixture
def asked(driver, face):
    """Play the script with a person who answers so, and return what happened, what was told, and what was asked."""

    def ask(answer):
        world, person = World(), Person({"pay": answer})
        with Settlement("memory:", wait=20, approver=person) as settlement:
            played = play(driver, desk(world), SCRIPT, settlement, face=face)
            assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])
        return world, played, person

    return ask


@pytest.mark.parametrize("yes", [True, approve()], ids=["True", "approve()"])
def test_with_a_yes_the_call_happens_in_its_place(asked, yes):
    world, played, person = asked(yes)

    assert person.asked == [("pay", {"what": "hotel"})]
    assert world.log == ["book Ada", "pay hotel", "mail ada"]
    assert played.texts == ["book Ada: number 1", "pay hotel: number 2", "mail ada: number 3"]


def test_with_a_no_nothing_of_its_turn_stays_and_the_model_is_told_why(asked):
    world, played, person = asked(reject("too dear"))

    assert person.asked == [("pay", {"what": "hotel"})]
    assert (world.standing(), "mail ada" in world.log, "pay hotel" in world.log) == ({}, False, False)
    if played.error is None:
        _, rejected, never = played.texts
        assert "too dear" in rejected
        assert "mail was not run" in never or "never left" in never
    else:
        assert "too dear" in str(played.error)


def test_with_other_arguments_the_call_happens_with_these(asked):
    world, played, person = asked(edit({"what": "half"}))

    assert person.asked == [("pay", {"what": "hotel"})]
    assert world.log == ["book Ada", "pay half", "mail ada"]
    assert played.texts == ["book Ada: number 1", "pay half: number 2", "mail ada: number 3"]


def test_each_question_of_a_turn_is_put_once_and_what_is_approved_happens_in_order(driver, face, world):
    person = Person({"pay": True})
    script = turns([("book", "Ada"), ("pay", "hotel"), ("pay", "car"), ("mail", "ada")])
    with Settlement("memory:", wait=20, approver=person) as settlement:
        played = play(driver, desk(world), script, settlement, face=face)
        assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])

    assert sorted(given["what"] for _, given in person.asked) == ["car", "hotel"]
    assert world.log == ["book Ada", "pay hotel", "pay car", "mail ada"]
    assert played.texts == [f"{entry}: number {number}" for number, entry in enumerate(world.log, 1)]


def test_while_a_person_thinks_who_needs_nothing_of_what_waits_does_not_wait(driver, face):
    """What is undeclared, too: nobody knows what it acts on, but it is its own job's."""
    world, asked, done = World(), threading.Event(), threading.Event()

    class Thinking(Person):
        def answer(self, tool, arguments):
            asked.set()
            assert done.wait(PATIENCE)
            return super().answer(tool, arguments)

    def free(what: str) -> str:
        """Do what nobody has declared."""
        world.act(f"free {what}")
        return what

    def other():
        assert asked.wait(PATIENCE)
        script = turns([("free", "y"), ("book", "Bo")], [("mail", "bo")])
        try:
            assert play(driver, [*desk(world), free], script, settlement, face=face, run="run-2").error is None
            assert world.log[-3:] == ["free y", "book Bo", "mail bo"]
        finally:
            done.set()

    with Settlement("memory:", wait=PATIENCE, approver=Thinking({"pay": True})) as settlement:
        script = turns([("free", "x"), ("book", "Ada"), ("pay", "hotel")])
        together(lambda: play(driver, [*desk(world), free], script, settlement, face=face), other)
        assert unfinished(settlement) == []
    assert world.log[-1] == "pay hotel"


def by_ada(world):
    """The desk, where a bill is paid with a yes of ada alone."""
    *rest, _ = desk(world)

    def pay(what: str) -> str:
        """Pay a bill."""
        world.act(f"pay {what}")
        return f"pay {what}: number {len(world.log)}"

    return [*rest, effect("irreversible", scope="bill:/{what}", approve=Approval(by="ada"))(pay)]


@pytest.mark.parametrize("answer", [approve(by="ada"), edit({"what": "hotel"}, by="ada")], ids=["approve", "edit"])
def test_who_has_to_answer_says_who_he_is(driver, face, world, answer):
    with Settlement("memory:", wait=20, approver=Person({"pay": answer})) as settlement:
        play(driver, by_ada(world), SCRIPT, settlement, face=face)
        votes = [
            [(vote["by"], vote["decision"]) for vote in json.loads(entry.body)["answers"]]
            for entry in host_of(settlement).ledger.read(lambda book: book.entries.find(Which("approval")))
        ]
    assert (world.log, votes) == (["book Ada", "pay hotel", "mail ada"], [[("ada", "approve")]])


def test_somebody_else_lets_nothing_happen(driver, face, world):
    class Others(Person):
        """Eve says yes, and whoever is asked then says no."""

        def answer(self, tool, arguments):
            super().answer(tool, arguments)
            return approve(by="eve") if len(self.asked) == 1 else reject("too dear")

    with Settlement("memory:", wait=20, approver=Others({"pay": None})) as settlement:
        play(driver, by_ada(world), SCRIPT, settlement, face=face)
        assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])
        refused = [
            each["by"]
            for entry in host_of(settlement).ledger.read(lambda book: book.entries.find(Which("approval")))
            for each in json.loads(entry.body)["refused"]
        ]
    assert ("pay hotel" in world.log, set(refused)) == (False, {"eve"})


def test_with_stock_nobody_is_asked(driver, world, face):
    play(driver, desk(world), SCRIPT, None, face=face)

    assert sorted(world.log) == ["book Ada", "mail ada", "pay hotel"]
