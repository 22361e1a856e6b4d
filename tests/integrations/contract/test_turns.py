"""A turn settles as a whole: a failure undoes it, what cannot be undone leaves last, and nothing hangs."""

from __future__ import annotations

import threading

import pytest
from tests.integrations.contract.world import World, as_is, desk, play, turns, unaccounted, unfinished

from settlemark import effect

BROKEN = {"look Bad", "book Bad"}
NO_ROOM = "no Bad is to be had"


def by_id(played):
    return dict(played.answers)


# ---- a failed call


def test_a_failed_call_stops_what_comes_after_it_and_undoes_what_came_before(driver, settlement, face, sort):
    script = turns([("book", "Ada"), ("book", "Bad"), ("mail", "ada"), ("book", "Bee")])
    stock, ours = World(), World()

    play(driver, desk(stock, sort, broken=BROKEN), script, None, face=face, run="stock")
    settled = play(driver, desk(ours, sort, broken=BROKEN), script, settlement, face=face, run="ours")

    assert stock.standing()["book Ada"] == 1
    assert ours.log == ["book Ada", "cancel Ada"]
    assert (unaccounted(ours, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
    if settled.error is None:
        undone, failed, never, stopped = settled.texts
        assert "undone" in undone
        assert NO_ROOM in failed
        assert "mail was not run" in never
        assert "book was not run" in stopped
    else:
        assert NO_ROOM in str(settled.error)


def test_a_mail_that_was_held_never_leaves_when_a_later_call_fails_and_with_stock_it_is_gone(driver, settlement, face):
    script = turns([("book", "Ada"), ("mail", "ada"), ("look", "Bad"), ("book", "Bee")])
    stock, ours = World(), World()

    play(driver, desk(stock, broken=BROKEN), script, None, face=face, run="stock")
    settled = play(driver, desk(ours, broken=BROKEN), script, settlement, face=face, run="ours")

    assert stock.standing()["mail ada"] == 1
    assert [entry for entry in ours.log if "Bee" not in entry] == ["book Ada", "cancel Ada"]
    # What a read beside it has come to when the last call's turn comes is a matter of timing.
    assert [entry for entry in ours.log if "Bee" in entry] in ([], ["book Bee", "cancel Bee"])
    assert (unaccounted(ours, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
    if settled.error is None:
        undone, held, failed, stopped = settled.texts
        assert "undone" in undone
        assert "never left" in held
        assert NO_ROOM in failed
        assert "book was not run" in stopped or "undone" in stopped
    else:
        assert NO_ROOM in str(settled.error)


def test_after_a_turn_that_was_undone_the_next_one_settles(driver, world, settlement):
    script = turns([("book", "Ada"), ("book", "Bad")], [("book", "Ada"), ("mail", "ada")])

    settled = play(driver, desk(world, broken=BROKEN), script, settlement)

    if settled.error is None:
        assert world.log == ["book Ada", "cancel Ada", "book Ada", "mail ada"]
        assert by_id(settled)["call-1-0"] == "book Ada: number 3"
        assert by_id(settled)["call-1-1"] == "mail ada: number 4"
    else:
        assert world.log == ["book Ada", "cancel Ada"]
        assert NO_ROOM in str(settled.error)


# ---- what cannot be undone


def test_a_mail_leaves_once_when_all_calls_of_its_turn_have_succeeded_and_is_answered_with_what_it_did(
    driver, settlement, face, sort
):
    script = turns([("book", "Ada"), ("mail", "ada"), ("look", "Ada")])
    ours = World()

    settled = play(driver, desk(ours, sort), script, settlement, face=face)

    assert ours.log == ["book Ada", "look Ada", "mail ada"]
    assert settled.texts == ["book Ada: number 1", "mail ada: number 3", "look Ada: number 2"]
    assert (unaccounted(ours, settlement), unfinished(settlement)) == ([], [])


def test_what_was_issued_behind_a_mail_happens_before_it_and_with_stock_as_it_comes(driver, settlement):
    """The booking takes long: it waits for the mail before it as long as it has patience."""

    def tools(of, patience):
        sent = threading.Event()

        @effect("irreversible", scope="mail:/{what}")
        def mail(what: str) -> str:
            """Send a mail."""
            number = of.act(f"mail {what}")
            sent.set()
            return f"mail {what}: number {number}"

        @effect("reversible", scope="room:/{what}", undo=lambda what: of.act(f"cancel {what}"))
        def book(what: str) -> str:
            """Book a room."""
            sent.wait(patience)
            return f"book {what}: number {of.act(f'book {what}')}"

        return [mail, book]

    script, stock, ours = turns([("mail", "ada"), ("book", "Ada")], [("mail", "bee")]), World(), World()

    play(driver, tools(stock, 30), script, None, run="stock")
    settled = play(driver, tools(ours, 0.02), script, settlement, run="ours")

    assert stock.log == ["mail ada", "book Ada", "mail bee"]
    assert ours.log == ["book Ada", "mail ada", "mail bee"]
    assert settled.texts == ["mail ada: number 2", "book Ada: number 1", "mail bee: number 3"]


def test_the_same_call_twice_in_a_turn_is_two_effects(driver, world, settlement):
    settled = play(driver, desk(world), turns([("mail", "ada"), ("mail", "ada")]), settlement)

    assert world.log == ["mail ada", "mail ada"]
    assert settled.texts == ["mail ada: number 1", "mail ada: number 2"]


def test_what_nobody_declared_keeps_its_answer_when_a_later_call_fails_and_is_named(driver, world, settlement, face):
    """Nothing of it is taken back, so what it returned is true; its model needs the number to go on."""

    def note(what: str) -> str:
        """Take a note."""
        return f"note {what}: number {world.act(f'note {what}')}"

    script = turns([("note", "a"), ("book", "Ada"), ("book", "Bad")])

    settled = play(driver, [*desk(world, broken=BROKEN), note], script, settlement, face=face)

    assert world.log == ["note a", "book Ada", "cancel Ada"]
    assert [(left.tool, left.tag.value) for left in settlement.residue()] == [("note", "unresolved")]
    if settled.error is None:
        kept, undone, failed = settled.texts
        assert (kept, "undone" in undone, NO_ROOM in failed) == ("note a: number 1", True, True)


# ---- what never becomes a call


@pytest.mark.parametrize(
    "wrong", [("nobody_has_this", {"what": "x"}), ("book", {"hotel": "x"})], ids=["unknown tool", "bad arguments"]
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_call_that_its_framework_turns_down_keeps_nobody_waiting_and_leaves_nothing_half_done(
    driver, world, settlement, wrong, place, face
):
    first = [("book", "Ada"), ("mail", "ada")]
    first.insert(place, wrong)

    settled = play(driver, desk(world), turns(first, [("book", "Cee")]), settlement, face=face)

    standing = world.standing()
    assert (standing["book Ada"], standing["mail ada"]) == (0, 0)
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
    if settled.error is None:
        assert standing["book Cee"] == 1
        assert len(settled.answers) == 4


@pytest.mark.parametrize(
    "wrong",
    [("pay", {"hotel": "x"}), ("pay", {"what": {"is": "x"}}), ("dear", {"what": "x"})],
    ids=["no such argument", "another type", "what its check refuses"],
)
def test_a_call_that_needs_a_yes_and_cannot_be_taken_is_told_what_is_wrong_with_it_where_nobody_can_be_asked(
    driver, world, settlement, wrong, face
):
    """Nobody has to be asked about it yet: its model may ask for what the tool takes."""

    def refuse(what: str) -> None:
        raise ValueError(f"{what} is no bill")

    @effect("irreversible", scope="bill:/{what}", approve=True, check=refuse)
    def dear(what: str) -> str:
        """Pay much."""
        world.act(f"dear {what}")
        return "paid"

    settled = play(driver, [*desk(world), dear], turns([wrong], [("book", "Cee")]), settlement, face=face)

    if settled.error is None:
        told, booked = settled.texts
        assert ("nobody to ask" in told, world.log) == (False, ["book Cee"])
        assert any(wanted in told for wanted in ("what", "x is no bill"))
        assert booked == "book Cee: number 1"
    assert (unfinished(settlement), settlement.residue()) == ([], [])


def test_a_turn_of_calls_that_are_all_turned_down_is_answered(driver, world, settlement, face):
    script = turns([("nobody_has_this", "x"), ("book", {"hotel": "x"})], [("book", "Cee")])

    settled = play(driver, desk(world), script, settlement, face=face)

    assert world.log == (["book Cee"] if settled.error is None else [])
    assert unfinished(settlement) == []


def test_a_tool_that_always_raises_is_tried_once_and_answered(driver, world, settlement, face, sort):
    tried = []

    def book(what: str) -> str:
        """Book a room."""
        tried.append(what)
        raise ValueError(NO_ROOM)

    tool = effect("reversible", scope="room:/{what}", undo=lambda what: None)(as_is(book, sort))

    settled = play(driver, [tool], turns([("book", "Bad")]), settlement, face=face)

    assert tried == ["Bad"]
    assert NO_ROOM in (settled.texts[0] if settled.error is None else str(settled.error))
