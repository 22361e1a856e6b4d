"""An undo meets an interrupt, a result that cannot be told, a text that cannot be stored: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from settlemark import State, Tag, effect
from settlemark.hosting import host_of


class Boom(Exception):
    """A failure of the caller's own."""


class Halt(BaseException):
    """What some libraries raise to stop a program."""


# ---- an undo that is interrupted


@pytest.fixture
def wounding(settlement, world):
    """Two younger transactions whose claims an older one takes in one step; it returns what came of its call."""

    @effect("reversible", scope="room:/{room}", undo=lambda room: world.act("cancel", room))
    def book(room):
        world.act("book", room)

    @effect("reversible", scope="room:/**", undo=lambda: world.act("reopen"))
    def close():
        world.act("close")

    younger = []

    def wound():
        opening = settlement.transaction("older", may_touch=["room:/**"])
        older = opening.__enter__()
        for name, room in (("x", "a"), ("y", "b")):
            younger.append(settlement.transaction(name).__enter__())
            younger[-1].call(book, room=room)
        try:
            older.call(close)
        except BaseException as error:
            return older, opening, error
        return older, opening, None

    return wound


def test_an_undo_that_ctrl_c_interrupts_is_named_and_the_other_victims_are_undone_first(
    settlement, world, wounding, recorded
):
    world.fail("cancel", KeyboardInterrupt())
    _, opening, error = wounding()
    assert isinstance(error, KeyboardInterrupt)
    assert world.log == [("book", "a"), ("book", "b"), ("cancel", "b")]
    assert recorded(settlement, "x") == [("aborted", [("book", "confirmed", "unresolved")])]
    assert recorded(settlement, "y") == [("aborted", [("book", "undone", "clean")])]
    assert [(r.key, r.tag, r.note) for r in settlement.residue()] == [
        ("x#1/0", Tag.UNRESOLVED, "its undo was interrupted: KeyboardInterrupt")
    ]
    opening.__exit__(type(error), error, None)
    assert (host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == ({}, {})


def test_an_interrupted_undo_lets_the_transactions_other_effects_be_undone(settlement, world, tools, recorded):
    world.fail("cancel", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.book, room="b")
        raise Boom
    assert (world.log[2:], tx.state) == ([("cancel", "a")], State.ABORTED)
    assert recorded(settlement, "trip") == [
        ("aborted", [("book", "undone", "clean"), ("book", "confirmed", "unresolved")])
    ]
    assert host_of(settlement).protocol.live == {}


def test_of_several_interrupts_while_several_transactions_are_undone_the_first_is_told(settlement, world, wounding):
    first = KeyboardInterrupt("first")
    world.fail("cancel", first, KeyboardInterrupt("second"))
    _, opening, error = wounding()
    assert error is first
    opening.__exit__(type(error), error, None)


def test_of_several_interrupts_while_one_transaction_is_undone_the_first_is_told(settlement, world, tools):
    first = KeyboardInterrupt("first")
    world.fail("cancel", first, KeyboardInterrupt("second"))
    with pytest.raises(KeyboardInterrupt) as raised, settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.book, room="b")
        raise Boom
    assert raised.value is first


@pytest.mark.parametrize("stop", [Halt, SystemExit, asyncio.CancelledError])
def test_whatever_else_an_undo_raises_is_its_fault_and_it_is_tried_again(settlement, world, wounding, recorded, stop):
    world.fail("cancel", stop())
    older, opening, error = wounding()
    assert (error, older.state) == (None, State.OPEN)
    assert sorted(world.log[2:4]) == [("cancel", "a"), ("cancel", "b")]
    for name in ("x", "y"):
        assert recorded(settlement, name) == [("aborted", [("book", "undone", "clean")])]
    opening.__exit__(None, None, None)
    assert (older.state, settlement.residue(), host_of(settlement).protocol.live) == (State.COMMITTED, [], {})


# ---- a result that cannot be told


class Detached(Mapping):
    """A row of a session that is closed: every look at it raises."""

    def __getitem__(self, name):
        raise ConnectionError("detached")

    def __iter__(self):
        raise ConnectionError("detached")

    def __len__(self):
        return 1


@pytest.fixture
def insert(world):
    @effect("reversible", scope="row:/{row}", undo=lambda row: world.act("delete", row))
    def insert(row):
        world.act("insert", row)
        return Detached()

    return insert


def test_a_result_that_cannot_be_told_keeps_nothing_from_committing(settlement, world, insert, recorded):
    with settlement.transaction("trip") as tx:
        assert isinstance(tx.call(insert, row="a"), Detached)
    assert (world.log, tx.state) == ([("insert", "a")], State.COMMITTED)
    assert recorded(settlement, "trip") == [("committed", [("insert", "confirmed", None)])]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_a_result_that_cannot_be_told_keeps_nothing_from_being_undone(settlement, world, insert, recorded):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(insert, row="a")
        raise Boom
    assert (world.log, tx.state) == ([("insert", "a"), ("delete", "a")], State.ABORTED)
    assert recorded(settlement, "trip") == [("aborted", [("insert", "undone", "clean")])]
    with settlement.transaction("other", wait=0) as other:
        other.call(insert, row="a")
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


# ---- a text that cannot be stored


@pytest.mark.parametrize("text", ["/tmp/\udcff", "a\x00b", "\ud800"], ids=["a byte of no text", "a NUL", "half a pair"])
def test_the_words_of_a_failed_undo_are_on_record_whatever_they_are_made_of(
    open_settlement, url, text, recorded, caplog
):
    told = []
    settlement = open_settlement(url, on_residue=told.append)

    def cancel(room):
        raise FileNotFoundError(text)

    @effect("reversible", scope="room:/{room}", undo=cancel)
    def book(room):
        return room

    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(book, room="a")
        raise Boom
    assert (tx.state, told) == (State.ABORTED, ["trip"])
    assert recorded(settlement, "trip") == [("aborted", [("book", "confirmed", "unresolved")])]
    residue = settlement.residue()
    assert [(r.key, r.tag) for r in residue] == [("trip#1/0", Tag.UNRESOLVED)]
    assert residue[0].note.startswith("its undo failed 3 times: FileNotFoundError: ")
    assert residue[0].note.encode()
    assert [line.getMessage().encode() for line in caplog.records] == [
        f"trip left book on room:/a: {residue[0].note}".encode()
    ]


def test_the_words_of_a_failed_call_are_on_record_whatever_they_are_made_of(settlement, recorded):
    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    def book(room):
        raise FileNotFoundError("/tmp/\udcff")

    with pytest.raises(FileNotFoundError), settlement.transaction("trip") as tx:
        tx.call(book, room="a")
    assert tx.state is State.ABORTED
    assert recorded(settlement, "trip") == [("aborted", [("book", "failed", "clean")])]
    assert [t.cause.encode().count(b"udcff") for t in settlement.transactions()] == [1]
