"""The parts of an attempt, each alone: what is expected again, for whom it waited, what is recorded, what joined it."""

from __future__ import annotations

import json

import pytest
from tests.rooms.attempt import WAITS, EffectRecords, Expected, WaitLog, current_of
from tests.rooms.ledger import Waited
from tests.rooms.model import Numbering

from settlemark import Effect, Outcome, Scope, Tag, effect
from settlemark.hosting import Inside, Part, declaration_of
from settlemark.ledger import Packer, Redaction


@effect("reversible", scope="room:/{room}", undo=lambda room: None)
def book(room):
    return room


@effect("staged", scope="note:/{to}")
def note(to):
    return to


def made(tool, *path, outcome=Outcome.CONFIRMED, **arguments):
    declaration = declaration_of(tool)
    found = Effect(declaration, tuple(declaration.scopes(arguments)), arguments, lambda: None)
    found.path, found.key, found.outcome = path, "/".join(map(str, path)), outcome
    found.payload = json.dumps(arguments)
    return found


@pytest.fixture
def decided():
    """Two decisions, the first of which made one within; and a staged one that is held."""
    effects = {
        one.path: one for one in (made(book, 0, room="a"), made(book, 0, 0, 0, room="b"), made(book, 1, room="c"))
    }
    held = made(note, 2, outcome=Outcome.QUEUED, to="x")
    held.held = True
    return effects | {held.path: held}


def test_what_was_decided_is_expected_again_but_for_what_was_undone_or_named(decided):
    decided[0,].outcome = Outcome.UNDONE
    decided[1,].tag = Tag.UNRESOLVED
    expected = Expected(decided)
    expected.expect()
    assert expected.paths == {(0, 0, 0), (2,)}


def test_below_a_place_only_what_was_made_there_is_expected(decided):
    expected = Expected(decided)
    expected.expect((0,))
    assert expected.paths == {(0, 0, 0)}


def test_a_decision_that_stands_stands_with_what_was_made_within_it_and_with_the_same_calls(decided):
    expected = Expected(decided)
    expected.expect()
    decided[1,].call_id = "call-1"
    expected.keep((0,), "call-1")
    assert expected.paths == {(2,)}
    assert [orphan.path for orphan in expected.orphans(())] == [(2,)]


def test_the_second_time_that_a_tool_is_called_it_is_expected_to_make_its_calls_again(decided):
    attempt = Tried(decided)
    inside = Inside(attempt, decided[0,])
    inside.calls_again()
    assert (attempt.expected.paths, decided[0,].called) == (set(), 1)
    inside.calls_again()
    assert (attempt.expected.paths, decided[0,].called) == ({(0, 0, 0)}, 2)


def test_what_was_read_as_an_expected_effect_had_left_it_is_noted(decided):
    expected = Expected(decided)
    expected.expect()
    expected.sees([Scope.parse("room:/c"), Scope.parse("room:/nobody"), Scope.parse("note:/x")])
    assert expected.seen == {(1,), (2,)}


def test_a_wait_is_told_from_the_first_time_to_its_end_and_the_latest_last():
    waits = WaitLog()
    waits.begins("older", "room:/a", 1.0)
    waits.begins("other", "room:/b", 2.0)
    waits.ends("older", "room:/a", 3.0)
    waits.begins("older", "room:/a", 4.0)
    waits.ends("nobody", "room:/c", 5.0)
    assert waits.told() == (Waited("other", "room:/b", 2.0), Waited("older", "room:/a", 1.0))
    again = WaitLog()
    again.take_over(waits.told())
    assert again.told() == waits.told()


def test_of_many_waits_the_last_are_told():
    waits = WaitLog()
    for number in range(WAITS + 3):
        waits.begins(f"holder {number}", "room:/a", 0.0)
    assert [waited.holder for waited in waits.told()] == [f"holder {number}" for number in range(3, WAITS + 3)]


def test_a_result_that_cannot_be_told_does_not_keep_the_outcome_from_the_record():
    class Odd:
        def __repr__(self):
            raise ValueError

    one = made(book, 0, room="a")
    one.confirm(Odd())
    change = EffectRecords(Packer(salt="salt"), {one.path: one}).outcome(one, 7.0)
    assert (change.key, change.outcome, change.at, change.tool) == (
        "0",
        Outcome.CONFIRMED,
        7.0,
        declaration_of(book).tool,
    )
    assert "Odd" in change.result


def test_what_is_redacted_is_in_nothing_that_is_recorded_of_an_effect_or_of_an_abort():
    one = made(book, 0, room="the queen's")
    one.rationale = "she asked for the queen's"
    records = EffectRecords(Packer(redaction=Redaction(["room"]), salt="salt"), {one.path: one})
    records.prepare(one)
    one.confirm({"room": "the queen's"})
    change = records.outcome(one, 7.0)
    assert "queen" not in f"{one.packed} {change}"
    detail = records.cause({"cause": "the queen's was taken", "remedy": "begin anew"})
    assert ("queen" in detail["cause"], detail["remedy"]) == (False, "begin anew")


class Tried:
    """What stands in for an attempt."""

    def __init__(self, effects):
        self.name, self.number, self.txn, self.numbering = "trip", 2, None, Numbering()
        self.expected, self.owes = Expected(effects), {}
        self.expect = self.expected.expect

    def staged(self, scope):
        return [scope.text]


def test_what_begins_in_a_call_is_part_of_its_transaction_each_under_a_number_of_its_own(decided):
    attempt = Tried(decided)
    call = current_of(attempt, decided[0,])
    assert (call.key, call.transaction, call.epoch, call.attempt) == ("0", "trip", 0, 2)
    inside = call._inside
    assert (type(inside), inside.staged(Scope.parse("note:/x"))) == (Inside, ["note:/x"])
    first, second = inside.join(), inside.join()
    assert [part.numbering.next("book") for part in (first, second, second)] == [(0, 0, 0), (0, 1, 0), (0, 1, 1)]
    assert (first.joined, Part(attempt, attempt.numbering).joined) == (True, False)
