"""The power fails: what the world or a caller has been told of is on disk by then, and no later than that."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from tests.rooms.sql import SqliteWire

from settlemark import InDoubt, effect

TABLES = ("effect", "fence", "log")
ENDS = {"finish", "finish_abort", "drop_call", "tell_time"}
"""What recovery finds out by itself: that nothing of a transaction is left to do."""


class Disk:
    """What a power loss leaves of a SQLite file: what was in it at the last commit that waited for the disk."""

    def __init__(self, file, monkeypatch):
        self.file, self.copy = file, file.with_name("disk.db")
        waited, begin, commit = {}, SqliteWire.begin, SqliteWire.commit

        def begun(wire, *, durable):
            begin(wire, durable=durable)
            ((level,),) = wire._driver.execute("PRAGMA synchronous").fetchall()
            waited[wire] = level >= 2  # FULL

        def committed(wire):
            commit(wire)
            if waited.pop(wire, False):
                with closing(sqlite3.connect(self.file)) as live, closing(sqlite3.connect(self.copy)) as disk:
                    live.backup(disk)

        monkeypatch.setattr(SqliteWire, "begin", begun)
        monkeypatch.setattr(SqliteWire, "commit", committed)

    def lost(self):
        """Which rows a power loss would now take away or turn back, by table."""
        found = {table: _rows(self.file, table) - _rows(self.copy, table) for table in TABLES}
        found["log"] = {row for row in found["log"] if not {step["do"] for step in json.loads(row[-1])} <= ENDS}
        return {table: rows for table, rows in found.items() if rows}

    def record(self, name):
        """The state of a transaction, and the outcomes and answers of its effects, as a power loss would leave them."""
        with closing(sqlite3.connect(self.copy)) as store:
            ((state,),) = store.execute("SELECT state FROM settlemark_transaction WHERE name = ?", (name,))
            effects = "SELECT tool, outcome, tag, said_by FROM settlemark_effect WHERE name = ? ORDER BY position"
            return state, [tuple(filter(None, row)) for row in store.execute(effects, (name,))]

    def states(self):
        """The states of all transactions, as a power loss would leave them."""
        with closing(sqlite3.connect(self.copy)) as store:
            return sorted(state for (state,) in store.execute("SELECT state FROM settlemark_transaction"))


def _rows(file, table):
    with closing(sqlite3.connect(file)) as store:
        return set(store.execute(f"SELECT * FROM settlemark_{table}"))


class Boom(Exception):
    """A failure of the caller's own."""


class Outside:
    """A counterparty that sees, whenever it is called, what a power loss would leave of the record."""

    def __init__(self, disk):
        self.saw, self.states, self.failing = [], [], []

        def see(what):
            self.saw.append((what, *disk.record("trip")))
            self.states.append(disk.states())
            if self.failing:
                raise self.failing.pop(0)
            return what

        @effect("reversible", scope="room:/{room}", undo=lambda room: see(f"cancel {room}"))
        def book(room):
            return see(f"book {room}")

        @effect("opaque", scope="bank:/{account}")
        def wire(account):
            return see("wire")

        @effect("irreversible", scope="mail:/{to}", approve=lambda to: to == "boss")
        def send(to):
            return see(f"send {to}")

        self.book, self.wire, self.send = book, wire, send


@pytest.fixture
def disk(tmp_path, monkeypatch):
    return Disk(tmp_path / "ledger.db", monkeypatch)


@pytest.fixture
def settlement(disk, open_here):
    return open_here(f"sqlite:///{disk.file}")


@pytest.fixture
def outside(disk):
    return Outside(disk)


def test_what_acts_acts_for_an_intent_that_is_on_disk_and_what_leaves_for_a_decision(settlement, disk, outside):
    with settlement.transaction("trip") as tx:
        tx.call(outside.book, room="a")
        tx.call(outside.book, room="b")
        tx.call(outside.send, to="x")
        tx.call(outside.send, to="y")
    booked = [("book", "confirmed"), ("book", "confirmed")]
    assert outside.saw == [
        ("book a", "open", [("book", "intended")]),
        ("book b", "open", [("book", "confirmed"), ("book", "intended")]),
        ("send x", "releasing", [*booked, ("send", "queued"), ("send", "queued")]),
        ("send y", "releasing", [*booked, ("send", "confirmed"), ("send", "queued")]),
    ]


def test_what_acts_again_after_it_failed_acts_for_an_intent_that_is_on_disk(settlement, outside):
    outside.failing = [ValueError("full")]
    with settlement.transaction("trip", on_failure="continue") as tx, tx.turn() as turn:
        call = turn.plan(outside.book, room="a")
        with pytest.raises(ValueError, match="full"):
            call.run()
        call.run()
    assert outside.saw == [("book a", "open", [("book", "intended")])] * 2


def test_what_was_suspended_acts_again_for_an_intent_that_is_on_disk(settlement, outside):
    outside.failing = [Boom()]
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        call = turn.plan(outside.book, room="a")
        with pytest.raises(Boom):
            call.run(let_through=(Boom,))
        settlement.advance("room:/b", 1)  # brings to the disk what was queued: that it was suspended
        call.run(let_through=(Boom,))
    assert outside.saw == [("book a", "open", [("book", "intended")])] * 2


def test_what_is_undone_is_undone_when_that_is_on_disk_and_the_next_when_the_last_one_is(settlement, disk, outside):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(outside.book, room="a")
        tx.call(outside.book, room="b")
        raise Boom
    assert outside.saw[2:] == [
        ("cancel b", "aborting", [("book", "confirmed"), ("book", "confirmed")]),
        ("cancel a", "aborting", [("book", "confirmed"), ("book", "undone", "clean")]),
    ]
    assert disk.record("trip")[1] == [("book", "undone", "clean")] * 2


def in_doubt(settlement, outside):
    outside.failing = [TimeoutError()]
    with settlement.transaction("trip") as tx, pytest.raises(InDoubt):
        tx.call(outside.wire, account="ops")


def asked(settlement, outside):
    settlement.run("trip", lambda tx: (tx.call(outside.book, room="a"), tx.call(outside.send, to="boss")))


def asked_twice(settlement, outside):
    settlement.run("trip", lambda tx: [tx.call(outside.send, to="boss") for _ in range(2)])


def booked(settlement, outside):
    settlement.run("trip", lambda tx: tx.call(outside.book, room="a"))


def sent(settlement, outside):
    settlement.run("trip", lambda tx: tx.call(outside.send, to="x"))


WORDS = {
    "a verdict": (in_doubt, lambda s: s.confirm(s.in_doubt()[0].key, {"wire": 7})),
    "a verdict that it was not": (in_doubt, lambda s: s.resolve(s.in_doubt()[0], "absent", by="ada")),
    "a verdict that nobody will know": (in_doubt, lambda s: s.resolve(s.in_doubt()[0], "give_up", by="ada")),
    "that it is dealt with": (in_doubt, lambda s: s.resolve(s.in_doubt()[0], "dealt_with", by="ada")),
    "one yes of two": (asked_twice, lambda s: s.approve(s.approvals()[0], by="ada")),
    "a no": (asked, lambda s: s.reject(s.approvals()[0], because="too dear", by="ada")),
    "a fence": (booked, lambda s: s.cancel("trip")),
    "going back": (booked, lambda s: s.rewind("trip", by="ada", dry_run=False)),
    "going back over what waits": (asked_twice, lambda s: s.rewind("trip", by="ada", dry_run=False)),
    "going back over what cannot be undone": (sent, lambda s: s.rewind("trip", by="ada", dry_run=False)),
    "a floor": (booked, lambda s: s.advance("room:/b", 1)),
    "a revoked tool": (booked, lambda s: s.revoke("book")),
}


@pytest.mark.parametrize("word", WORDS)
def test_what_an_operator_has_said_is_on_disk_when_that_returns(settlement, disk, outside, word):
    before, say = WORDS[word]
    before(settlement, outside)
    live = {table: _rows(disk.file, table) for table in TABLES}
    say(settlement)
    assert {table: _rows(disk.file, table) for table in TABLES} != live
    assert disk.lost() == {}


def test_going_back_undoes_once_it_is_on_disk_that_it_does(settlement, outside):
    booked(settlement, outside)
    settlement.rewind("trip", by="ada", dry_run=False)
    assert (outside.saw[-1][0], outside.states[-1]) == ("cancel a", ["aborting", "committed"])


def test_going_back_over_what_has_not_ended_undoes_it_once_its_abort_is_on_disk(settlement, outside):
    asked(settlement, outside)
    settlement.rewind("trip", by="ada", dry_run=False)
    assert outside.saw[-1][:2] == ("cancel a", "aborting")


def test_a_yes_is_on_disk_before_what_it_lets_leave(settlement, outside):
    asked(settlement, outside)
    settlement.approve(settlement.approvals()[0], by="ada")
    assert outside.saw[-1] == ("send boss", "releasing", [("book", "confirmed"), ("send", "queued", "ada")])
