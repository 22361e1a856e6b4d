"""A store that has gone back (an older copy put in its place, a server that lost what it had acknowledged) is told of.

What is not on record any more is in no residue: nobody but the processes that were there can say so.
"""

from __future__ import annotations

import logging

import pytest
import sqlalchemy as sa
from tests.rooms.replica import UNREADABLE, replica

from settlemark import Refused, State
from settlemark.hosting import host_of


def goes_on(member):
    """It asks for its next step."""


def looks(member):
    """It looks for what others did."""
    with member.commits.leading:
        member.batches.look()


def has_failed(member):
    """Its connection was lost, and what it knew with it."""
    with member.commits.leading:
        member.connection.let_go()
        member.replica.applied = UNREADABLE


@pytest.fixture
def put_back(shared_url):
    """Put back what the log of a store was at its n-th entry."""

    def put_back_(n):
        engine = sa.create_engine(shared_url)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE settlemark_head SET n = :n"), {"n": n})
            connection.execute(sa.text("DELETE FROM settlemark_log WHERE n > :n"), {"n": n})
        engine.dispose()

    return put_back_


def told(caplog):
    return [record for record in caplog.records if record.levelno == logging.CRITICAL]


@pytest.mark.parametrize("learns", [goes_on, looks, has_failed], ids=lambda learns: learns.__name__)
def test_who_was_there_tells_once_what_it_had_under_way(shared_url, open_settlement, tools, put_back, caplog, learns):
    settlement = open_settlement(shared_url, lease=600)
    member = host_of(settlement).ledger._member
    with settlement.transaction("before") as tx:
        tx.call(tools.book, room="a")
    host_of(settlement).ledger.read(lambda book: book.load("before"))  # all that was queued is taken
    copied = member.replica.applied
    with pytest.raises(Refused, match="trip was undone"), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="b")
        host_of(settlement).ledger.read(lambda book: book.load("trip"))
        steps = member.replica.applied - copied
        put_back(copied)
        learns(member)
        tx.call(tools.book, room="c")
    with settlement.transaction("next") as tx:
        tx.call(tools.book, room="d")
    (record,) = told(caplog)
    assert f"has gone back by {steps} step(s) that it had acknowledged" in record.getMessage()
    assert "it knows nothing of trip;" in record.getMessage()
    assert record.settlemark["transactions"] == ["trip"]
    settlement.recover(keep_open=0)  # else the next process records the end of what the copy had open


def test_who_only_fell_behind_has_lost_nothing(shared_url, open_settlement, tools, monkeypatch, caplog):
    monkeypatch.setattr(replica, "IMAGE_EVERY", 3)
    first, second = open_settlement(shared_url, lease=600), open_settlement(shared_url, lease=600)
    for number in range(6):
        for settlement in (first, second, second):
            with settlement.transaction(f"trip-{number}") as tx:
                tx.call(tools.book, room="a")
    has_failed(host_of(first).ledger._member)
    with first.transaction("last") as tx:
        tx.call(tools.book, room="a")
    assert told(caplog) == []


def test_what_a_look_finds_lost_is_undone_as_what_a_step_finds(shared_url, open_settlement, tools, put_back):
    settlement = open_settlement(shared_url, lease=600)
    member = host_of(settlement).ledger._member
    with pytest.raises(Refused, match="trip was undone"), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        host_of(settlement).ledger.read(lambda book: book.load("trip"))
        copied = member.replica.applied
        tx.read("price:/b")
        host_of(settlement).ledger.read(lambda book: book.load("trip"))
        assert member.replica.applied > copied
        put_back(copied)
        member.submit(lambda _protocol, _book: None, durable=False, looks=True).lead()
    assert (tx.state, settlement.residue()) == (State.ABORTED, [])
