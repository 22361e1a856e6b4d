"""Holds and quotes that lapse: what a call got until a time is owed back with its commit, and given back once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from settlemark import DeclarationError, Payloads, effect

pytestmark = pytest.mark.own_time

DAY = 86_400.0


class Hotel:
    """Holds rooms until a time."""

    def __init__(self, clock):
        self.clock, self.rooms, self.released, self.until = clock, [], [], None

        @effect("irreversible", scope="room:/{room}")
        def release_hold(hold, room):
            self.released.append((hold, room))

        def hold_room(room):
            self.rooms.append(room)
            until = self.clock() + DAY if self.until is None else self.until
            return {"hold": f"h-{room}", "hold_until": until}

        self.release_hold = release_hold
        self.hold_room = self.declared(hold_room)

    def declared(self, function, kind="reversible", **parts):
        undo = {"undo": lambda room: self.rooms.remove(room)} if kind == "reversible" else {}
        parts = {"expires": "{result.hold_until}", "then": self.release_hold, **parts}
        return effect(kind, scope="room:/{room}", **undo, **parts)(function)


@pytest.fixture
def hotel(clock):
    return Hotel(clock)


def told(settlement):
    return [(str(owed.state), owed.told) for owed in settlement.obligations()]


@pytest.mark.every_store
def test_a_hold_is_owed_back_with_its_commit_by_its_time_and_given_back_once_then(settlement, hotel, clock):
    with settlement.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
        assert told(settlement) == [("pending", None)]
    (owed,) = settlement.obligations()
    assert (owed.state, owed.due, owed.to, owed.scope) == ("open", clock() + DAY, "room:/7", "room:/7")
    assert (owed.fulfilled_by, owed.matching, owed.lapses) == ("release_hold", {"hold": "h-7", "room": "7"}, True)
    assert (owed.transaction, owed.run, owed.text) == ("trip-42/1", "trip-42", "hold_room lapses")
    clock.advance(DAY - 1)
    settlement.recover()
    assert hotel.released == []
    clock.advance(1)
    settlement.recover()
    settlement.recover()
    assert (hotel.released, told(settlement)) == ([("h-7", "7")], [("fulfilled", "handled")])


@pytest.mark.every_store
def test_a_hold_that_is_undone_is_not_owed(settlement, hotel, clock):
    with pytest.raises(ValueError, match="no"), settlement.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
        raise ValueError("no")
    clock.advance(DAY)
    settlement.recover()
    assert (hotel.rooms, hotel.released, [owed for owed in told(settlement) if owed[0] != "void"]) == ([], [], [])


def test_who_gives_it_back_before_its_time_fulfils_what_is_owed(settlement, hotel, clock):
    with settlement.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
        tx.call(hotel.hold_room, room="8")
    with settlement.transaction("trip-42/2") as tx:
        tx.call(hotel.release_hold, hold="h-8", room="8")
    assert {owed.matching["room"]: str(owed.state) for owed in settlement.obligations()} == {
        "7": "open",
        "8": "fulfilled",
    }
    clock.advance(DAY)
    settlement.recover()
    assert hotel.released == [("h-8", "8"), ("h-7", "7")]


def test_in_its_own_transaction_it_may_be_given_back_too(settlement, hotel, clock):
    with settlement.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
        tx.call(hotel.release_hold, hold="h-7", room="7")
    clock.advance(DAY)
    settlement.recover()
    assert (hotel.released, told(settlement)) == ([("h-7", "7")], [("fulfilled", None)])


@pytest.mark.every_store
def test_what_leaves_at_the_commit_lapses_like_the_rest(settlement, hotel, clock):
    quote = hotel.declared(lambda room: {"hold": "q", "hold_until": clock() + DAY}, "irreversible", name="quote")
    with settlement.transaction("trip-42/1") as tx:
        tx.call(quote, room="7")
        assert settlement.obligations() == []
    assert told(settlement) == [("open", None)]
    clock.advance(DAY)
    settlement.recover()
    assert hotel.released == [("q", "7")]


def test_a_replay_owes_nothing_more(settlement, hotel, clock):
    for _ in range(2):
        with settlement.transaction("trip-42/1") as tx:
            tx.call(hotel.hold_room, room="7")
    assert (hotel.rooms, told(settlement)) == (["7"], [("open", None)])


def test_ones_own_handler_comes_before_the_call_by_itself(settlement, hotel, clock):
    seen = []
    settlement.on_due(lambda tx, owed: seen.append(owed.matching), tool="release_hold")
    with settlement.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
    clock.advance(DAY)
    settlement.recover()
    assert (seen, hotel.released) == ([{"hold": "h-7", "room": "7"}], [])


@pytest.mark.parametrize(
    "until",
    [
        "2026-01-02T12:00:00Z",
        "2026-01-02T13:00:00+01:00",
        datetime(2026, 1, 2, 12, tzinfo=UTC),
        datetime(2026, 1, 2, 14, tzinfo=timezone(timedelta(hours=2))),
        int(datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp()),
    ],
)
def test_its_time_may_be_said_in_several_ways(quick, hotel, until):
    hotel.until = until
    with quick.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
    (owed,) = quick.obligations()
    assert owed.due_at == datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_a_function_may_tell_the_time_and_that_there_is_none(quick, hotel, clock):
    def until(result):
        return None if result == "for ever" else result

    for number, result in enumerate(["for ever", clock() + DAY]):
        hold = hotel.declared(lambda room, result=result: result, expires=until, name=f"hold-{number}")
        with quick.transaction(f"trip-{number}") as tx:
            tx.call(hold, room=str(number))
    assert [owed.transaction for owed in quick.obligations()] == ["trip-1"]


@pytest.mark.parametrize(
    "until",
    ["tomorrow", "2026-01-02T12:00:00", True, {"at": 7}, float("nan"), 1_767_355_200_000, -62_135_596_801],
    ids=["word", "no-zone", "flag", "mapping", "nan", "milliseconds", "before-the-year-1"],
)
def test_a_time_that_cannot_be_told_keeps_no_outcome_from_the_record_and_is_reported_at_once(
    quick, hotel, clock, caplog, until
):
    hotel.until = until
    with quick.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
    (owed,) = quick.obligations()
    assert (owed.state, owed.lapses, "tells no time" in caplog.text) == ("open", False, True)
    clock.advance(1)
    quick.recover()
    assert (hotel.released, told(quick)) == ([], [("open", "alerted")])


@pytest.mark.parametrize("stops", [ValueError, SystemExit, KeyboardInterrupt])
def test_whatever_a_function_of_its_time_raises_the_outcome_is_on_record_and_a_person_is_told(
    quick, hotel, clock, stops
):
    def until(result):
        raise stops

    with quick.transaction("trip-42/1") as tx:
        tx.call(hotel.declared(lambda room: room, expires=until, name="hold"), room="7")
    assert [str(each.state) for each in quick.transactions()] == ["committed"]
    clock.advance(1)
    quick.recover()
    assert (hotel.released, told(quick)) == ([], [("open", "alerted")])


def test_what_redaction_takes_out_of_its_arguments_is_not_called_without_them(open_here, hotel, clock):
    settlement = open_here(payloads=Payloads(redact=["hold"]))
    with settlement.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
    clock.advance(DAY)
    settlement.recover()
    (owed,) = settlement.obligations()
    assert (hotel.released, owed.state, owed.told) == ([], "open", "alerted")
    assert owed.matching == {"hold": {"$redacted": None}, "room": "7"}


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"expires": None}, "has then= and no expires="),
        ({"then": None}, "has expires= and no then="),
        ({"expires": "tomorrow"}, "names no time"),
        ({"expires": "{until}"}, "does not take 'until'"),
        ({"then": lambda room: None}, "has no declaration"),
        ({"then": effect("read", scope="room:/{room}")(lambda room: None)}, "gives nothing back"),
        ({"then": ""}, "then= of"),
    ],
)
def test_a_declaration_that_says_half_of_it_is_refused(hotel, parts, match):
    with pytest.raises(DeclarationError, match=match):
        hotel.declared(lambda room: None, name="hold", **parts)


def test_a_read_leaves_nothing_that_could_lapse(hotel):
    with pytest.raises(DeclarationError, match="a read, which leaves nothing"):
        hotel.declared(lambda room: None, "read", name="look")


def test_a_process_that_finds_the_hold_on_record_gives_it_back(shared_url, open_here, hotel, clock):
    ours, theirs = open_here(shared_url), open_here(shared_url)
    with ours.transaction("trip-42/1") as tx:
        tx.call(hotel.hold_room, room="7")
    clock.advance(DAY)
    theirs.recover()
    ours.recover()
    assert (hotel.released, told(ours), told(theirs)) == (
        [("h-7", "7")],
        [("fulfilled", "handled")],
        [("fulfilled", "handled")],
    )
