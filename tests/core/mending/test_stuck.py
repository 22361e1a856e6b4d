"""What was to be undone and stands makes its transaction stuck, until it is undone or somebody has settled it."""

from __future__ import annotations

import asyncio

import pytest

from settlemark import MovedOn, Outcome, Payloads, State, Tag, UsageError, effect

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


class Boom(Exception):
    """A failure of the caller's own."""


class Hotel:
    """Lets rooms, and keeps its own log; `broken` is what its desk raises when a room is to be cancelled."""

    def __init__(self):
        self.log = []
        self.broken = LookupError("the desk is closed")

        def cancel(room):
            self.log.append(("cancel", room))
            if self.broken is not None:
                raise self.broken

        @effect("reversible", scope="room:/{room}", undo=cancel)
        def book(room):
            self.log.append(("book", room))
            return {"room": room}

        @effect("opaque", scope="bell:/{room}")
        def ring(room):
            self.log.append(("ring", room))

        self.book, self.ring = book, ring

    def cancelled(self):
        return [room for what, room in self.log if what == "cancel"]


@pytest.fixture
def hotel():
    return Hotel()


def fail(settlement, name, *calls):
    with pytest.raises(Boom), settlement.transaction(name) as tx:
        for tool, room in calls:
            tx.call(tool, room=room)
        raise Boom


def stuck(settlement):
    return [
        (each.transaction, [(effect.tool, effect.scopes, str(effect.cause)) for effect in each.effects])
        for each in settlement.stuck()
    ]


BOOKED = ("trip", [("book", ("room:/7",), "failed")])


def test_an_undo_that_failed_for_good_makes_its_transaction_stuck_and_says_what_stands(settlement, hotel):
    fail(settlement, "trip", (hotel.book, "7"))
    (found,) = settlement.stuck()
    (effect,) = found.effects
    assert (found.transaction, found.attempt, found.run) == ("trip", 1, "trip")
    assert (effect.tool, effect.scopes, effect.cause) == ("book", ("room:/7",), "failed")
    assert (effect.arguments, effect.result) == ({"room": "7"}, {"room": "7"})
    assert effect.note == "its undo failed 3 times: LookupError: the desk is closed"
    assert effect.key == settlement.residue()[0].key


def test_an_effect_without_an_undo_is_stuck_once_its_transaction_is_undone_and_not_before(settlement, hotel):
    with settlement.transaction("kept") as tx:
        tx.call(hotel.ring, room="1")
    assert stuck(settlement) == []
    fail(settlement, "trip", (hotel.ring, "7"))
    assert stuck(settlement) == [("trip", [("ring", ("bell:/7",), "missing")])]


def test_an_undo_whose_world_has_moved_on_is_not_tried_again(settlement, hotel):
    hotel.broken = MovedOn("room 7 was let to somebody else")
    fail(settlement, "trip", (hotel.book, "7"))
    assert hotel.cancelled() == ["7"]
    (found,) = settlement.stuck()
    assert [(str(e.cause), e.note) for e in found.effects] == [
        ("moved_on", "its undo no longer applies: MovedOn: room 7 was let to somebody else")
    ]


def test_what_is_undone_or_undone_at_a_cost_is_not_stuck(settlement, hotel):
    hotel.broken = None
    fee = effect("reversible", scope="fee:/{room}", undo=lambda room: None, cost="10 EUR")(lambda room: None)
    fail(settlement, "trip", (hotel.book, "7"), (fee, "7"))
    assert (stuck(settlement), [left.tag for left in settlement.residue()]) == ([], [Tag.UNRESOLVED])


def test_all_that_stands_of_a_transaction_is_told_in_the_order_of_its_calls(settlement, hotel):
    fail(settlement, "trip", (hotel.book, "7"), (hotel.ring, "7"), (hotel.book, "8"))
    assert [[effect.scopes[0] for effect in each.effects] for each in settlement.stuck()] == [
        ["room:/7", "bell:/7", "room:/8"]
    ]


def test_a_rewind_that_would_overwrite_others_work_leaves_its_transaction_stuck(settlement, hotel):
    hotel.broken = None
    for name in ("first", "second"):
        with settlement.transaction(name) as tx:
            tx.call(hotel.book, room="7")
    settlement.rewind("first", by="ada", dry_run=False)
    assert (stuck(settlement), hotel.cancelled()) == ([("first", [("book", ("room:/7",), "moved_on")])], [])


def test_an_undo_of_a_rewind_that_fails_makes_what_had_committed_stuck(settlement, hotel):
    with settlement.transaction("trip") as tx:
        tx.call(hotel.book, room="7")
    settlement.rewind("trip", by="ada", dry_run=False)
    assert stuck(settlement) == [BOOKED]
    assert settlement.transactions()[0].state is State.COMMITTED


# ---- an operator ends it


def test_an_undo_that_is_tried_again_and_succeeds_ends_it(settlement, hotel):
    fail(settlement, "trip", (hotel.book, "7"), (hotel.book, "8"))
    hotel.broken = None
    hotel.log.clear()
    became = settlement.undo_again("trip", by="ada", note="the desk is open again")
    assert (list(became.values()), hotel.cancelled()) == ([Outcome.UNDONE] * 2, ["8", "7"])
    assert (stuck(settlement), settlement.residue()) == ([], [])


def test_an_undo_that_fails_again_leaves_it_stuck(settlement, hotel):
    fail(settlement, "trip", (hotel.book, "7"))
    assert list(settlement.undo_again(settlement.stuck()[0], by="ada").values()) == [Outcome.CONFIRMED]
    assert (stuck(settlement), hotel.cancelled()) == ([BOOKED], ["7"] * 6)


def test_what_has_no_undo_is_not_tried_again_and_nothing_is_recorded(settlement, hotel):
    fail(settlement, "trip", (hotel.ring, "7"))
    before = settlement.transactions()
    with pytest.raises(UsageError, match="nothing of it has an undo"):
        settlement.undo_again("trip", by="ada")
    assert settlement.transactions() == before


def test_what_a_person_has_settled_by_hand_is_stuck_no_more_and_stays_on_record(settlement, hotel):
    fail(settlement, "trip", (hotel.book, "7"), (hotel.ring, "7"))
    ended = settlement.settle_by_hand("trip", by="ada", note="called the desk")
    assert ([len(each.effects) for each in ended], stuck(settlement), settlement.residue()) == ([2], [], [])
    assert [(each.dealt_by, each.tag) for each in settlement.residue(dealt=True)] == [("ada", Tag.UNRESOLVED)] * 2
    assert hotel.cancelled() == ["7"] * 3


def test_what_is_not_stuck_cannot_be_ended_and_nothing_is_recorded(settlement, hotel):
    hotel.broken = None
    fail(settlement, "trip", (hotel.book, "7"))
    before = settlement.transactions()
    for end in (settlement.undo_again, settlement.settle_by_hand):
        for name in ("trip", "nothing"):
            with pytest.raises(UsageError, match=f"{name} is not stuck"):
                end(name, by="ada")
    assert settlement.transactions() == before


@pytest.mark.parametrize("given", [{"by": ""}, {"by": 7}])
def test_nothing_is_ended_by_nobody(settlement, hotel, given):
    fail(settlement, "trip", (hotel.book, "7"))
    for end in (settlement.undo_again, settlement.settle_by_hand):
        with pytest.raises(UsageError, match="by="):
            end("trip", **given)
    assert (stuck(settlement), hotel.cancelled()) == ([BOOKED], ["7"] * 3)


def test_an_event_loop_ends_it_likewise(settlement, hotel):
    fail(settlement, "trip", (hotel.book, "7"))
    fail(settlement, "other", (hotel.book, "8"))
    hotel.broken = None

    async def end():
        return list((await settlement.aundo_again("trip", by="ada")).values()), [
            each.transaction for each in await settlement.asettle_by_hand("other", by="ada")
        ]

    assert asyncio.run(end()) == ([Outcome.UNDONE], ["other"])
    assert stuck(settlement) == []


# ---- the record


def test_each_attempt_of_a_name_is_stuck_by_itself_and_a_name_ends_them_all(settlement, hotel):
    for _ in range(2):
        fail(settlement, "trip", (hotel.book, "7"))
    assert [each.attempt for each in settlement.stuck()] == [1, 2]
    settlement.settle_by_hand(settlement.stuck()[0], by="ada")
    assert [each.attempt for each in settlement.stuck()] == [2]
    settlement.settle_by_hand("trip", by="ada")
    assert settlement.stuck() == []


def test_what_is_stuck_is_redacted_as_its_effect_is(url, open_here, hotel):
    settlement = open_here(url, payloads=Payloads(redact=["room"]))
    fail(settlement, "trip", (hotel.book, "7"))
    (found,) = settlement.stuck()
    assert found.effects[0].arguments == {"room": {"$redacted": None}}


def test_what_is_stuck_is_not_pruned_however_old_it_is(settlement, hotel, clock):
    fail(settlement, "trip", (hotel.book, "7"))
    clock.advance(9_999 * 86_400)
    settlement.prune(1, keys=1)
    assert stuck(settlement) == [BOOKED]


def test_the_account_says_which_transactions_are_stuck(settlement, hotel):
    fail(settlement, "trip", (hotel.book, "7"))
    assert settlement.show().splitlines()[0] == (
        "trip aborted, because a call failed (Boom), and is stuck. 1 effect left to mend."
    )
    settlement.settle_by_hand("trip", by="ada")
    assert "stuck" not in settlement.show()
