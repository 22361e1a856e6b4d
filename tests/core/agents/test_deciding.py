"""A turn of a model is a decision: it is recorded with its first effect, with what is known of the model's answer."""

from __future__ import annotations

import pytest

from settlemark.agents import AgentRun, Said, open_turn, run_sync
from settlemark.hosting import host_of


def decided(settlement, run="trip"):
    entries = host_of(settlement).ledger.read(lambda book: book.entries.chain(run)).entries
    return [entry for entry in entries if entry.kind == "decision"]


def why(settlement):
    rows = [effect.row for recorded in settlement.transactions() for effect in recorded.effects]
    return [settlement.why(row.key) for row in rows]


def opened(office, settlement, *issued, said=None):
    turn = run_sync(open_turn(settlement, "trip/1", run="trip"))
    places = run_sync(turn.place_all(office.calls(settlement, *issued)))
    if said is not None:
        turn.decide(said)
    return turn, places


def perform(office, turn, place):
    run_sync(turn.perform(place, lambda: office.book("1"), place.arguments))
    run_sync(turn.leave(place))


def test_what_a_shim_knows_of_the_answer_is_recorded_with_the_first_effect(office):
    with office.settlement() as settlement:
        said = Said("a room is free", "msg-7", "gpt-7", ("book", "mail"))
        turn, (place,) = opened(office, settlement, ("book", {"room": "1"}), said=said)
        assert decided(settlement) == []
        perform(office, turn, place)

        (found,) = why(settlement)
        assert (found.title, found.because, found.message, found.model, found.tools) == (
            "called book",
            "a room is free",
            "msg-7",
            "gpt-7",
            ("book", "mail"),
        )
        assert [entry.key for entry in decided(settlement)] == [found.key]


def test_a_turn_whose_shim_says_nothing_has_no_decision(office):
    with office.settlement() as settlement:
        turn, (place,) = opened(office, settlement, ("book", {"room": "1"}))
        perform(office, turn, place)
        assert ([each.decision for each in why(settlement)], decided(settlement)) == ([None], [])


def test_two_turns_of_one_transaction_are_two_decisions_also_when_their_model_says_the_same(office):
    with office.settlement() as settlement:
        job = AgentRun(settlement, "trip", settle="run")
        for room in ("1", "2"):
            turn = job.work().turn(office.calls(settlement, ("book", {"room": room})), because="the same")
            run_sync(turn.perform(0, lambda room=room: office.book(room)))
        run_sync(job.end())
        assert len({each.decision for each in why(settlement)}) == 2


@pytest.mark.parametrize("text", ["half \ud83d", "a NUL \0 within"])
def test_whatever_a_model_says_is_recorded_legibly(office, text):
    with office.settlement() as settlement:
        turn, (place,) = opened(office, settlement, ("book", {"room": "1"}), said=Said(text, text, text, (text,)))
        perform(office, turn, place)
        (found,) = why(settlement)
        assert {found.because[:4], found.message[:4], found.model[:4], found.tools[0][:4]} == {text[:4]}
