"""A ledger in memory keeps so many transactions: a name that had to make room is not taken for a new one."""

from __future__ import annotations

import logging

import pytest

from settlemark import Forgotten, Payloads, Settlement, current_call, effect
from settlemark.hosting import host_of


@pytest.fixture
def town():
    log = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: log.append(f"undo {room}"))
    def book(room):
        log.append((room, current_call().key))

    return book, log


def test_a_committed_name_that_made_room_is_refused_and_nothing_runs_twice(town):
    book, log = town
    with Settlement("memory:", payloads=Payloads(retain=2)) as settlement:
        for name in ("a", "b", "c"):
            settlement.run(name, lambda tx, room=name: tx.call(book, room=room))
        before = list(log)
        with pytest.raises(Forgotten, match="a has committed, but its record has made room") as forgotten:
            settlement.run("a", lambda tx: tx.call(book, room="a"))
        assert (forgotten.value.transaction, log, host_of(settlement).protocol.live) == ("a", before, {})
        settlement.run("c", lambda tx: tx.call(book, room="c"))  # replayed, as ever
        assert log == before


def test_an_aborted_name_that_made_room_takes_the_next_key(town):
    book, log = town
    with Settlement("memory:", payloads=Payloads(retain=1)) as settlement:
        with pytest.raises(KeyError), settlement.transaction("a") as tx:
            tx.call(book, room="a")
            raise KeyError
        for name in ("b", "c"):
            settlement.run(name, lambda tx, room=name: tx.call(book, room=room))
        with settlement.transaction("a") as tx:
            tx.call(book, room="a")
        assert tx.attempt == 2
    assert len({entry for entry in log if entry[0] == "a"}) == 2


def test_what_was_pruned_takes_no_room_from_what_is_kept(town, clock):
    book, log = town
    with Settlement("memory:", payloads=Payloads(retain=2), **clock.options()) as settlement:
        settlement.run("a", lambda tx: tx.call(book, room="a"))
        clock.advance(100 * 86_400)
        assert settlement.prune(1, keys=1).keys == 1
        for name in ("b", "c"):
            settlement.run(name, lambda tx, room=name: tx.call(book, room=room))
        before = list(log)
        for name in ("b", "c"):
            settlement.run(name, lambda tx, room=name: tx.call(book, room=room))  # replayed: both are kept
        assert log == before


def test_when_a_name_goes_too_that_is_said_once(town, caplog):
    book, _ = town
    with (
        caplog.at_level(logging.WARNING, "settlemark"),
        Settlement("memory:", payloads=Payloads(retain=1)) as settlement,
    ):
        for number in range(14):
            settlement.run(f"trip-{number}", lambda tx, room=number: tx.call(book, room=str(room)))
    told = [record.getMessage() for record in caplog.records if "no room left for the name" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("the ledger in memory has no room left for the name of trip-0")
