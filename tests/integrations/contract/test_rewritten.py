"""What a hook, or a middleware, makes of a call's arguments is what runs: the call stays in its turn, on its scopes."""

from __future__ import annotations

import threading

import pytest
from tests.integrations.contract.driver import Person
from tests.integrations.contract.world import as_is, desk, play, turns, unaccounted, unfinished

from settlemark import Settlement, WaitTimeout, effect
from settlemark.hosting import approve, edit

INSTEAD = {"Ada": "Zoe", "ada": "zoe", "hotel": "hostel"}
SCRIPT = turns([("book", "Ada"), ("look", "Cee"), ("mail", "ada"), ("book", "Bee")])


def rewrite(_tool, arguments):
    return {**arguments, "what": INSTEAD.get(arguments["what"], arguments["what"])}


@pytest.fixture
def rewriting(driver):
    driver.rewrite = rewrite
    return driver


def test_a_rewritten_call_stays_in_its_place(rewriting, world, settlement, face, sort):
    settled = play(rewriting, desk(world, sort), SCRIPT, settlement, face=face)

    assert settled.error is None
    assert [entry for entry in world.log if not entry.startswith("look")] == ["book Zoe", "book Bee", "mail zoe"]
    assert [text.partition(":")[0] for text in settled.texts] == ["book Zoe", "look Cee", "mail zoe", "book Bee"]
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])


def test_with_stock_the_rewritten_arguments_run_too(rewriting, world, face):
    play(rewriting, desk(world), SCRIPT, None, face=face)

    assert sorted(world.log) == ["book Bee", "book Zoe", "look Cee", "mail zoe"]


def test_a_rewritten_call_is_undone_with_its_turn_by_the_arguments_that_ran(rewriting, world, settlement, face, sort):
    script = turns([("book", "Ada"), ("mail", "ada"), ("book", "Bad")])

    play(rewriting, desk(world, sort, broken={"book Bad"}), script, settlement, face=face)

    assert world.log == ["book Zoe", "cancel Zoe"]
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])


def test_a_rewritten_call_that_fails_undoes_its_turn(rewriting, world, settlement, face):
    script = turns([("book", "Bee"), ("book", "Ada"), ("mail", "bee")])

    play(rewriting, desk(world, broken={"book Zoe"}), script, settlement, face=face)

    assert world.log == ["book Bee", "cancel Bee"]
    assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])


def test_a_rewritten_call_holds_the_scope_on_which_it_acts(rewriting, world, settlement, face):
    """While it acts nobody else may touch that, and what its model had named is free."""
    found = {}

    def attempt(what):
        try:
            with settlement.transaction(f"other {what}", wait=0.05) as tx:
                tx.call(other, what=what)
        except WaitTimeout:
            return "held"
        return "free"

    @effect("reversible", scope="room:/{what}", undo=lambda what: None)
    def other(what: str):
        """Book elsewhere."""

    def book(what: str) -> str:
        """Book a room."""
        asking = threading.Thread(target=lambda: found.update({name: attempt(name) for name in ("Ada", "Zoe")}))
        asking.start()
        asking.join()
        return "booked"

    tools = [effect("reversible", scope="room:/{what}", undo=lambda what: None)(as_is(book, "sync"))]
    played = play(rewriting, tools, turns([("book", "Ada")]), settlement, face=face)

    assert (played.error, found) == (None, {"Ada": "free", "Zoe": "held"})


@pytest.mark.parametrize(("answer", "paid"), [(approve(), "hostel"), (edit({"what": "half"}), "half")])
def test_a_person_is_asked_about_what_will_run(rewriting, world, face, answer, paid):
    person = Person({"pay": answer})
    with Settlement("memory:", wait=20, approver=person) as settlement:
        played = play(rewriting, desk(world), turns([("pay", "hotel")]), settlement, face=face)

        assert played.error is None
        assert person.asked == [("pay", {"what": "hostel"})]
        assert world.log == [f"pay {paid}"]
        assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])


@pytest.mark.parametrize("again", ["the same", "none", "another"])
def test_a_job_begun_again_compares_what_will_run_then(driver, world, settlement, again):
    """With a framework that remembers the job nothing is asked for again; else the record answers, or tells once."""
    script = turns([("book", "Ada"), ("mail", "ada")])
    driver.rewrite = rewrite
    play(driver, desk(world), script, settlement)
    first = list(world.log)
    fresh = type(driver)()
    fresh.rewrite = {"the same": rewrite, "none": None, "another": lambda _tool, given: {"what": "Eve"}}[again]

    played = play(fresh, desk(world), script, settlement)

    assert first == ["book Zoe", "mail zoe"]
    assert played.error is None
    if driver.name != "langgraph":  # a thread without its checkpoints is new to LangGraph
        assert len(world.log) == len({*world.log})
        assert again != "the same" or world.log == first
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
